package clusters_test

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// The provider returns a member's Cluster only between the beginning of its engagement and the end of
// its session, so no caller gets a Cluster that has ended.
func TestProvider_returns_a_cluster_only_until_it_ends(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "published")
	first, old := m.join(t), m.link
	late := env.operator.recorder.blockNext(m.name)
	m.changeAddress(t)
	m.replaceKubeconfig(t, m.kubeconfig(t))
	<-late.called
	if got, err := m.operator.provider.Get(ctx, multicluster.ClusterName(m.name)); err != nil || got == first.cluster {
		t.Errorf("while a session is engaged, the provider returns the one before it, or none (%v)", err)
	}
	if first.ctx.Err() != nil {
		t.Error("a session has ended before the next one is engaged")
	}

	m.deleteSecret(t)
	m.waitForEnd(t, first)
	m.checkNoCluster(t)
	m.waitForConditions(t, summarySecretMissing)

	m.createSecret(t, m.kubeconfig(t))
	next := m.waitForEngagement(t, 2)
	close(late.resume)
	<-late.returned
	m.waitForReconcile(t) // meanwhile the first attempt ends
	wait.Eventually(t, func() error {
		_, before := old.connectionCounts()
		if _, open := m.link.connectionCounts(); open != 1 || before > 0 {
			return fmt.Errorf("%d connections to the new server are open, and %d to the old one", open, before)
		}
		return nil
	})
	m.checkContinues(t, next)
	m.deleteSecret(t)
	m.waitForEnd(t, next)
	m.checkNoCluster(t)
}

// The provider returns no Cluster of a member that is not connected, for any reason.
func TestProvider_returns_no_cluster_of_a_member_that_is_not_connected(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	connecting, refused := env.newMember(t, env.operator, "is-connecting"), env.newMember(t, env.operator, "is-refused")
	connected, duplicate := env.newMember(t, env.operator, "is-connected"), env.newMember(t, env.operator, "is-a-duplicate")
	unknown := &testMember{operator: env.operator, name: "is-unknown"}

	onAllButProbes(hang)(t, connecting)
	connecting.createSecret(t, connecting.kubeconfig(t))
	connecting.waitForFault(t) // it lists
	refused.createSecret(t, []byte("nonsense"))
	refused.waitForConditions(t, "Ready False NoConnection, CredentialsValid False KubeconfigMalformed")
	e := connected.join(t)
	duplicate.proxy.setIdentity(connected.proxy.identity())
	duplicate.createSecret(t, duplicate.kubeconfig(t))
	duplicate.waitForConditions(t, "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified")

	for _, m := range []*testMember{connecting, refused, duplicate, unknown} {
		m.checkNoCluster(t)
	}
	connected.checkContinues(t, e)
	connected.deleteSecret(t)
	connected.waitForEnd(t, e)
	connected.checkNoCluster(t) // it is gone
}

// checkNoCluster checks that the provider has no Cluster for the member.
func (m *testMember) checkNoCluster(t *testing.T) {
	t.Helper()
	got, err := m.operator.provider.Get(ctx, multicluster.ClusterName(m.name))
	if !errors.Is(err, multicluster.ErrClusterNotFound) {
		t.Errorf("%s: the provider returns %v (%v)", m.name, got, err)
	}
}
