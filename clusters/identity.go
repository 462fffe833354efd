package clusters

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// identityError is why a cluster that answers is not taken for the member.
type identityError struct{ reason, message string }

// Error returns the message.
func (e *identityError) Error() string { return e.message }

// identify decides whether a cluster that answers may be the member: it must be the one that it was, or was acknowledged to be,
// and no other member's.
func (m *member) identify(id types.UID) error {
	want := m.wanted()
	pinned := cmp.Or(want.pinned, m.known().facts.id)
	shown := cut(clean(string(id)), maxVersion)
	if pinned != "" && id != pinned && id != want.acknowledged {
		return &identityError{v1alpha1.ReasonIdentityChanged, fmt.Sprintf(
			"another cluster answers: its kube-system has UID %s, not %s. To go on with it, annotate the MemberCluster: %s=%s",
			shown, pinned, v1alpha1.AnnotationAcceptIdentity, shown)}
	}
	holder := m.provider.claim(m, id)
	switch holder {
	case m.name:
		return nil
	case "":
		return context.Canceled
	}
	return &identityError{v1alpha1.ReasonDuplicateCluster, fmt.Sprintf(
		"the cluster (its kube-system has UID %s) is member %s already; remove one of the two Secrets", shown, holder)}
}

// claim returns the member that has a cluster: the one that asks, when nobody had it; nobody, when the one that asks has
// ended meanwhile.
func (p *Provider) claim(m *member, id types.UID) (holder multicluster.ClusterName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.name] != m {
		return ""
	}
	return p.remember(m.name, id)
}

// remember notes that a member has a cluster, unless another has it, and returns which one does. It is called with the lock.
func (p *Provider) remember(name multicluster.ClusterName, id types.UID) (holder multicluster.ClusterName) {
	if holder, held := p.identities[id]; held {
		return holder
	}
	p.identities[id] = name
	return name
}

// settle lets go of every cluster that the member tried to be and is not.
func (m *member) settle() {
	keep := cmp.Or(m.known().facts.id, m.wanted().pinned)
	if m.session != nil {
		keep = m.session.facts.id
	}
	m.provider.mu.Lock()
	defer m.provider.mu.Unlock()
	if m.provider.members[m.name] == m {
		m.provider.release(m.name, keep)
	}
}

// release lets go of the clusters of a member, but of the one that it keeps. It is called with the lock.
func (p *Provider) release(name multicluster.ClusterName, keep types.UID) {
	maps.DeleteFunc(p.identities, func(id types.UID, holder multicluster.ClusterName) bool { return holder == name && id != keep })
}

// forgetIdentity lets go of what a member had before this process, when its Secret was gone by then.
func (p *Provider) forgetIdentity(name multicluster.ClusterName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[name] == nil {
		p.release(name, "")
	}
}

// seed remembers, once, the clusters that members had before this process. Where two had the same, the older MemberCluster
// keeps it.
func (r *Reconciler) seed(ctx context.Context) error {
	if r.seeded {
		return nil
	}
	var members v1alpha1.MemberClusterList
	if err := r.hub.List(ctx, &members); err != nil {
		return fmt.Errorf("list MemberClusters: %w", err)
	}
	slices.SortFunc(members.Items, older)
	r.provider.mu.Lock()
	defer r.provider.mu.Unlock()
	for _, mc := range members.Items {
		if namespace, _, _ := strings.Cut(mc.Annotations[v1alpha1.AnnotationSecret], "/"); mc.Status.ID != "" && r.sources.in(namespace) {
			r.provider.remember(multicluster.ClusterName(mc.Name), mc.Status.ID)
		}
	}
	r.seeded = true
	return nil
}

func older(a, b v1alpha1.MemberCluster) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
