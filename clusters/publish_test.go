package clusters_test

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// The provider returns a member's Cluster only between its engagement and the end of its session:
// no caller gets a Cluster that has ended.
func TestASessionIsPublishedWhenItIsEngagedAndOnlyAsLongAsItLasts(t *testing.T) {
	t.Parallel()
	w := shared(t)
	m := w.newMember(t, w.operator, "published")
	first, old := m.join(t), m.link
	late := w.operator.engagements.hold(m.name)
	m.move(t)
	m.replace(t, m.kubeconfig(t))
	<-late.reached
	m.goesOn(t, first) // the next session is still being engaged

	m.remove(t)
	m.ends(t, first, soon)
	m.hasNoCluster(t)
	m.shows(t, soon, detached)

	m.create(t, m.kubeconfig(t))
	next := m.engaged(t, 2, soon)
	close(late.released)
	eventually(t, soon, func() error {
		_, before := old.count()
		if _, open := m.link.count(); open != 1 || before > 0 {
			return fmt.Errorf("%d connections are open, and %d to the first server", open, before)
		}
		return nil
	})
	m.goesOn(t, next)
	m.remove(t)
	m.ends(t, next, soon)
	m.hasNoCluster(t)
}

// hasNoCluster checks that the provider has no Cluster for the member.
func (m *member) hasNoCluster(t *testing.T) {
	t.Helper()
	got, err := m.operator.provider.Get(ctx, multicluster.ClusterName(m.name))
	if !errors.Is(err, multicluster.ErrClusterNotFound) {
		t.Errorf("%s: the provider has %v (%v)", m.name, got, err)
	}
}
