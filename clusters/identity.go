package clusters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// identityError explains why a reachable cluster is not used as the member.
type identityError struct {
	reason, message string
	// contestedID is the identity that belongs to another member, or empty.
	contestedID types.UID
}

// Error returns the message.
func (e *identityError) Error() string { return e.message }

// identify returns an error unless a reachable cluster may be the member: it must have the pinned
// or the acknowledged identity, and no other member may own that identity.
func (m *member) identify(ctx context.Context, id types.UID) error {
	want := m.shared.latestDesired()
	pinned := cmp.Or(want.pinned, m.shared.observed().info.id)
	if pinned != "" && id != pinned && id != want.acknowledged {
		shown := transport.Truncate(transport.Sanitize(string(id)), maxShortText)
		return &identityError{reason: v1alpha1.ReasonIdentityChanged, message: fmt.Sprintf(
			"another cluster answers: its kube-system namespace has UID %s, not %s. To accept it, annotate the MemberCluster: %s=%s",
			shown, pinned, v1alpha1.AnnotationAcceptIdentity, shown)}
	}
	return m.provider.claimIdentity(ctx, m, id)
}

// owner is the MemberCluster that owns an identity through its status.clusterID. The zero value
// means none.
type owner struct {
	name multicluster.ClusterName
	// secretMissing reports that the MemberCluster has no Secret any more.
	secretMissing bool
}

// duplicateError returns the error for a cluster whose identity another member owns.
func duplicateError(id types.UID, of owner) *identityError {
	shown := transport.Truncate(transport.Sanitize(string(id)), maxShortText)
	message := fmt.Sprintf("the cluster (its kube-system namespace has UID %s) is already member %s; remove one of the two Secrets", shown, of.name)
	if of.secretMissing {
		message = fmt.Sprintf("the cluster (its kube-system namespace has UID %s) belongs to MemberCluster %s, whose Secret is missing. "+
			"If this Secret replaces it: kubectl delete membercluster %s", shown, of.name, of.name)
	}
	return &identityError{reason: v1alpha1.ReasonDuplicateCluster, message: message, contestedID: id}
}

// claimIdentity claims an identity for a member. It fails if another MemberCluster owns the
// identity, connected or not, if another member of this process has claimed it, or if the member
// has ended.
func (p *Provider) claimIdentity(ctx context.Context, m *member, id types.UID) error {
	switch by, err := p.lookUpOwner(ctx, id); {
	case err != nil:
		return err
	case by.name != "" && by.name != m.name:
		return duplicateError(id, by)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.name] != m {
		return context.Canceled
	}
	holder, held := p.identities[id]
	if held && holder != m.name {
		return duplicateError(id, owner{name: holder})
	}
	p.identities[id] = m.name
	return nil
}

// releaseUnusedClaims releases claimed identities that are not the member's.
func (m *member) releaseUnusedClaims() {
	keep := cmp.Or(m.shared.observed().info.id, m.shared.latestDesired().pinned)
	if m.active != nil {
		keep = m.active.info.id
	}
	m.provider.mu.Lock()
	defer m.provider.mu.Unlock()
	if m.provider.members[m.name] == m {
		m.provider.releaseIdentities(m.name, keep)
	}
}

// releaseIdentities releases all identities of a member except keep. The caller holds the lock.
func (p *Provider) releaseIdentities(name multicluster.ClusterName, keep types.UID) {
	maps.DeleteFunc(p.identities, func(id types.UID, holder multicluster.ClusterName) bool { return holder == name && id != keep })
}

// identityField indexes MemberClusters by their status.clusterID.
const identityField = "status.clusterID"

// indexedIdentity returns the identity of a MemberCluster as the value of the index identityField.
func indexedIdentity(mc client.Object) []string {
	if id := mc.(*v1alpha1.MemberCluster).Status.ClusterID; id != "" {
		return []string{string(id)}
	}
	return nil
}

// ownerOf returns the MemberCluster that owns an identity, or the oldest one if there are several,
// which an older version may have left. A MemberCluster owns its identity as long as it exists,
// connected or not.
func (r *Reconciler) ownerOf(ctx context.Context, id types.UID) (owner, error) {
	if id == "" {
		return owner{}, nil
	}
	var list v1alpha1.MemberClusterList
	if err := r.hub.List(ctx, &list, client.MatchingFields{identityField: string(id)}); err != nil {
		return owner{}, fmt.Errorf("list the MemberClusters of an identity: %w", err)
	}
	if len(list.Items) == 0 {
		return owner{}, nil
	}
	oldest := slices.MinFunc(list.Items, compareAge)
	return owner{name: multicluster.ClusterName(oldest.Name), secretMissing: !oldest.HasSecret()}, nil
}

// compareAge compares two MemberClusters by their age, the oldest first.
func compareAge(a, b v1alpha1.MemberCluster) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
