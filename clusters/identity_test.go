package clusters_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// acceptIdentity acknowledges that the member is now another cluster.
func (m *testMember) acceptIdentity(t *testing.T, id types.UID) {
	t.Helper()
	mc := m.memberCluster(t)
	before := mc.DeepCopy()
	mc.Annotations[v1alpha1.AnnotationAcceptIdentity] = string(id)
	if err := m.hub.admin.Patch(ctx, mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// waitForUsedAcceptance waits until the used acknowledgement of an identity is removed.
func (m *testMember) waitForUsedAcceptance(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		if accepted, found := m.memberCluster(t).Annotations[v1alpha1.AnnotationAcceptIdentity]; found {
			return fmt.Errorf("%s still accepts %q", m.name, accepted)
		}
		return nil
	})
}

// waitForClusterID waits until the MemberCluster reports an identity.
func (m *testMember) waitForClusterID(t *testing.T, id types.UID) {
	t.Helper()
	wait.Eventually(t, func() error {
		if shown := m.memberCluster(t).Status.ClusterID; shown != id {
			return fmt.Errorf("the cluster ID of %s is %q, want %q", m.name, shown, id)
		}
		return nil
	})
}

// checkNotEngaged checks that the member has had at most since engagements.
func (m *testMember) checkNotEngaged(t *testing.T, since int) {
	t.Helper()
	if now := len(m.operator.recorder.engagements(m.name)); now > since {
		t.Errorf("%s was engaged %d more times", m.name, now-since)
	}
}

// waitForAttempt waits until the operator has seen all earlier changes of this member, and has
// tried to connect after that.
func (m *testMember) waitForAttempt(t *testing.T) {
	t.Helper()
	m.waitForReconcile(t)
	m.waitForProbes(t, 2) // the first may have begun before the operator saw the change
	m.waitForReconcile(t)
}

func TestIdentity_of_a_member_is_pinned(t *testing.T) {
	t.Parallel()
	const changed = "Ready False IdentityChanged, CredentialsValid "

	t.Run("another cluster behind the same Secret is not engaged until it is acknowledged", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "pinned")
		first := m.join(t)
		old := m.proxy.identity()
		m.proxy.setIdentity("another")
		m.waitForEnd(t, first)
		m.waitForConditions(t, changed+"True Accepted")
		m.waitForClusterID(t, old)
		m.acceptIdentity(t, "a third one")
		m.waitForAttempt(t)
		m.checkNotEngaged(t, 1)
		if m.memberCluster(t).Annotations[v1alpha1.AnnotationAcceptIdentity] != "a third one" {
			t.Error("an acknowledgement that was not used was removed")
		}
		m.acceptIdentity(t, "another")
		m.waitForEngagement(t, 2)
		m.waitForClusterID(t, "another")
		m.waitForUsedAcceptance(t)
		m.proxy.setIdentity(old) // the acknowledgement does not cover this identity
		m.waitForConditions(t, changed+"True Accepted")
		m.checkNotEngaged(t, 2)
		m.proxy.setIdentity("another")
		m.waitForEngagement(t, 3)
	})

	t.Run("another cluster after a restart of the operator is not engaged", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		o := env.newOperator(t, "fleet-pinned")
		m := env.newMember(t, o, "pinned-restart")
		m.join(t)
		if err := o.stop(); err != nil {
			t.Fatal(err)
		}
		m.proxy.setIdentity("another")
		m.operator = env.newOperator(t, "fleet-pinned")
		m.waitForConditions(t, changed+"Unknown NotVerified")
		m.checkNotEngaged(t, 0)
	})

	t.Run("a new kubeconfig for another cluster changes nothing until the cluster is acknowledged", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "pinned-moves")
		e := m.join(t)
		next := env.newMember(t, env.operator, "pinned-next")
		m.replaceKubeconfig(t, next.kubeconfig(t))
		m.waitForConditions(t, "Ready True Connected, CredentialsValid Unknown NotVerified")
		m.checkContinues(t, e)
		m.acceptIdentity(t, next.proxy.identity())
		e = m.waitForEngagement(t, 2)
		m.waitForClusterID(t, next.proxy.identity())
		m.waitForUsedAcceptance(t)
		m.checkContinues(t, e)
	})

	t.Run("another cluster that was acknowledged in advance gets a new engagement", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "pinned-ahead")
		e := m.join(t)
		m.acceptIdentity(t, "another")
		m.proxy.setIdentity("another")
		m.waitForEnd(t, e)
		m.waitForEngagement(t, 2)
		m.waitForClusterID(t, "another")
	})

	t.Run("rotated credentials for another cluster that was acknowledged start a new engagement", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		noProbes := func(o *setup) { o.ProbeInterval = time.Hour }
		m := env.newMember(t, env.newOperator(t, "fleet-slow-probes", noProbes), "pinned-rotated")
		e := m.join(t)
		m.acceptIdentity(t, "another")
		m.proxy.setIdentity("another")
		m.replaceKubeconfig(t, m.kubeconfig(t))
		m.waitForEngagement(t, 2)
		m.waitForEnd(t, e)
		m.waitForClusterID(t, "another")
	})
}

func TestCluster_is_the_member_of_one_Secret_only(t *testing.T) {
	t.Parallel()
	const duplicate = "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified"

	t.Run("the second Secret of a cluster is rejected until the first MemberCluster is deleted", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		first, second := env.newMember(t, env.operator, "twin-first"), env.newMember(t, env.operator, "twin-second")
		second.proxy.setIdentity(first.proxy.identity())
		e := first.join(t)
		second.createSecret(t, second.kubeconfig(t))
		second.waitForConditions(t, duplicate)
		second.waitForClusterID(t, "")
		first.checkContinues(t, e)
		second.replaceKubeconfig(t, second.kubeconfig(t))
		second.waitForAttempt(t)
		second.checkConditions(t, duplicate)
		second.checkNotEngaged(t, 0)
		first.deleteSecret(t)
		first.waitForEnd(t, e)
		second.waitForMessage(t, "If this Secret replaces it: kubectl delete membercluster twin-first")
		second.checkNotEngaged(t, 0)
		first.deleteMemberCluster(t)
		second.waitForEngagement(t, 1)
	})

	t.Run("after a restart of the operator the first Secret still has the cluster", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		for i := range 3 { // the order may be right by chance
			namespace := fmt.Sprintf("fleet-twins-%d", i)
			o := env.newOperator(t, namespace)
			first, second := env.newMember(t, o, fmt.Sprintf("twin-z-%d", i)), env.newMember(t, o, fmt.Sprintf("twin-a-%d", i))
			second.proxy.setIdentity(first.proxy.identity())
			first.join(t)
			if err := o.stop(); err != nil {
				t.Fatal(err)
			}
			second.createSecret(t, second.kubeconfig(t))
			next := env.newOperator(t, namespace)
			first.operator, second.operator = next, next
			first.waitForEngagement(t, 1)
			second.waitForConditions(t, duplicate)
			second.checkNotEngaged(t, 0)
		}
	})

	t.Run("a member that cannot connect does not reserve its cluster", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		forbidden, able := env.newMemberWithoutRole(t, env.operator, "twin-forbidden"), env.newMember(t, env.operator, "twin-able")
		forbidden.grantProbeRole(t)
		able.proxy.setIdentity(forbidden.proxy.identity())
		forbidden.createSecret(t, forbidden.kubeconfig(t))
		forbidden.waitForConditions(t, "Ready False Forbidden, CredentialsValid Unknown NotVerified")
		able.createSecret(t, able.kubeconfig(t))
		e := able.waitForEngagement(t, 1)
		forbidden.waitForConditions(t, duplicate)
		able.checkContinues(t, e)
	})

	t.Run("a kubeconfig for the cluster of another member is rejected", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		one, other := env.newMember(t, env.operator, "twin-one"), env.newMember(t, env.operator, "twin-other")
		e, others := one.join(t), other.join(t)
		one.acceptIdentity(t, other.proxy.identity())
		one.replaceKubeconfig(t, other.kubeconfig(t))
		one.waitForConditions(t, "Ready True Connected, CredentialsValid Unknown NotVerified")
		one.checkContinues(t, e)
		other.checkContinues(t, others)
	})
}

// A member that alternates its responses cannot cause endless connection attempts and status
// writes.
func TestMember_that_alternates_its_responses_is_backed_off(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	owner, liar := env.newMember(t, env.operator, "alternates-owner"), env.newMember(t, env.operator, "alternates")
	liar.proxy.setIdentity(owner.proxy.identity())
	owner.join(t)
	var probes atomic.Int64
	liar.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !isProbe(r) || probes.Add(1)%2 == 1 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	liar.createSecret(t, liar.kubeconfig(t))
	// The attempts are made after 0, 1, 3 and 7 seconds or later.
	liar.waitForProbes(t, 1)
	begun := time.Now()
	liar.waitForProbes(t, 3)
	if took := time.Since(begun); took < 6*time.Second {
		t.Errorf("%d attempts within %s", probes.Load(), took)
	}
	liar.proxy.setFault(nil)
	liar.waitForConditions(t, "Ready False DuplicateCluster, CredentialsValid Unknown NotVerified")
	owner.deleteSecret(t)
	owner.waitForConditions(t, summarySecretMissing)
	owner.deleteMemberCluster(t)
	liar.waitForEngagement(t, 1)
}

func TestSecret_that_had_the_name_first_is_the_member(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	both := func(o *setup) {
		o.secretRules = append(o.secretRules, kubeconfig.SecretRule{Namespace: "fleet-names", Format: kubeconfig.FormatClusterAPI})
	}
	m := env.newMember(t, env.newOperator(t, "fleet-names", both), "names")
	e := m.join(t)
	other := &corev1.Secret{Type: "cluster.x-k8s.io/secret", Data: map[string][]byte{"value": m.kubeconfig(t)}}
	other.Namespace, other.Name = "fleet-names", "names-kubeconfig"
	other.Labels = map[string]string{fleetLabel: "fleet-names"}
	m.createObject(t, env.hub, other)
	wait.Eventually(t, func() error {
		for _, event := range m.events(t) {
			if event.Regarding.Name == other.Name && event.Reason == v1alpha1.ReasonNameConflict {
				return nil
			}
		}
		return errors.New("no event reports the name conflict")
	})
	m.checkContinues(t, e)
	m.checkConditions(t, summaryConnected)
	m.deleteSecret(t)
	m.waitForEnd(t, e)
	m.waitForEngagement(t, 2) // from the other Secret
}
