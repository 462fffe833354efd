package planner

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// fleet provides a snapshot of all MemberClusters, which all plans share until a MemberCluster
// changes. It is safe for concurrent use.
// docs/decisions/plans-share-a-snapshot-of-the-fleet.md says why.
type fleet struct {
	hub client.Reader

	mu      sync.Mutex
	current *fleetSnapshot // nil after a change
}

// fleetSnapshot is the fleet at one point in time. It must not be modified, because all plans share
// it.
type fleetSnapshot struct {
	all []v1alpha1.MemberCluster
	// members are the MemberClusters that have a Secret, and secretless the others, by name.
	members, secretless map[string]*v1alpha1.MemberCluster
}

// snapshot returns the current snapshot.
func (f *fleet) snapshot(ctx context.Context) (*fleetSnapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.current != nil {
		return f.current, nil
	}
	var list v1alpha1.MemberClusterList
	if err := f.hub.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	s := &fleetSnapshot{
		all:        list.Items,
		members:    make(map[string]*v1alpha1.MemberCluster, len(list.Items)),
		secretless: map[string]*v1alpha1.MemberCluster{},
	}
	for i := range list.Items {
		if member := &list.Items[i]; member.HasSecret() {
			s.members[member.Name] = member
		} else { // its entry is Detached
			s.secretless[member.Name] = member
		}
	}
	f.current = s
	return s, nil
}

// invalidate drops the snapshot after a MemberCluster has changed in the cache. Call it before any
// request that follows from the change is enqueued.
func (f *fleet) invalidate() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.current = nil
}
