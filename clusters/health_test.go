package clusters_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// maxProbeFailures is the number of failed probes in a row after which a member is disengaged.
const maxProbeFailures = 3

func TestMember_is_supervised(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]mode{"refuses connections": modeRefuse, "sends nothing": modeSilent} {
		t.Run("one that "+name+" is Unknown and disengaged, and engaged again when it returns", func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.newOperator(t, "fleet-"+memberName(name), productionProbeInterval), "health-"+memberName(name))
			first := m.join(t)
			m.link.setMode(t, mode)
			m.waitForConditions(t, "Ready Unknown Unreachable, CredentialsValid True Accepted")
			m.waitForEnd(t, first)
			m.createDeployment(t, m.name+"-app")
			m.link.setMode(t, modePass)
			second := m.waitForEngagement(t, 2)
			second.checkDeployment(t, m.name+"-app")
			m.checkContinues(t, second)
			if first.cluster == second.cluster {
				t.Error("the second engagement uses the cache of the first")
			}
		})
	}

	t.Run("one whose connections are reset stays engaged, and its watches resume without a list", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-reset")
		e := m.join(t)
		lists := env.member.listRequests(m.user())
		for i := range 3 {
			m.makeWatchesResumable(t, e)
			m.link.resetConnections()
			app := fmt.Sprintf("%s-%d", m.name, i)
			m.createDeployment(t, app)
			e.waitForDeployment(t, app)
		}
		m.makeWatchesResumable(t, e)
		m.checkContinues(t, e)
		if diff := cmp.Diff(lists, env.member.listRequests(m.user())); diff != "" {
			t.Errorf("the operator listed again (-before +after)\n%s", diff)
		}
		m.checkConditions(t, summaryConnected)
	})

	t.Run("the time of its last answer advances with the probes, and not after it was cut off", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		o := env.newOperator(t, "fleet-answers")
		m := env.newMember(t, o, "health-answers")
		m.join(t)
		first := o.provider.LastAnswer(m.name)
		m.waitForProbes(t, 2)
		if later := o.provider.LastAnswer(m.name); first.IsZero() || !later.After(first) {
			t.Errorf("the last answer was at %v, and after two probes at %v", first, later)
		}
		m.link.setMode(t, modeSilent)
		since := time.Now()
		m.waitForConditions(t, "Ready Unknown Unreachable, CredentialsValid True Accepted")
		if last := o.provider.LastAnswer(m.name); last.After(since) {
			t.Errorf("it was cut off at %v, and the last answer is of %v", since, last)
		}
	})

	t.Run("one that cannot be connected is found unreachable at the third attempt, and never while it is connected", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		found := make(chan string, 100)
		o := env.newOperator(t, "fleet-unreachable", func(o *setup) { o.OnUnreachable = func(name string) { found <- name } })
		m := env.newMember(t, o, "health-unreachable")
		refuse := onAllRequests(respondWithCode(http.StatusUnauthorized))
		refuse(t, m)
		m.createSecret(t, m.kubeconfig(t))
		for n := range 2 {
			if name := <-found; name != m.name || m.proxy.faults() != maxProbeFailures+n {
				t.Errorf("%s was found unreachable after %d attempts", name, m.proxy.faults())
			}
		}
		m.repair(t)
		e := m.waitForEngagement(t, 1)
		for len(found) > 0 {
			<-found
		}
		other := newFaultProxy(t, m.testEnv.member)
		other.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
			other.countFault()
			w.WriteHeader(http.StatusUnauthorized)
			return true
		})
		m.replaceKubeconfig(t, m.kubeconfig(t, withServer(newNetworkLink(t, other.address()).address)))
		wait.Eventually(t, func() error {
			if n := other.faults(); n <= maxProbeFailures {
				return fmt.Errorf("the other server was tried %d times", n)
			}
			return nil
		})
		m.checkContinues(t, e)
		if len(found) > 0 {
			t.Error("it was found unreachable although it is connected")
		}
	})

	t.Run("one that responds slowly stays engaged", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-slow")
		if err := m.link.setModeWithDelay(modeSlow, 300*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		e := m.join(t)
		m.createDeployment(t, m.name)
		e.waitForDeployment(t, m.name)
		m.waitForProbes(t, maxProbeFailures)
		m.checkContinues(t, e)
		m.checkConditions(t, summaryConnected)
	})

	t.Run("one that no longer accepts the credentials is not Ready", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-revoked")
		token, revoke := m.newToken(t)
		e := m.join(t, withToken(token))
		revoke()
		m.waitForConditions(t, "Ready False Unauthorized, CredentialsValid False Unauthorized")
		m.waitForEnd(t, e)
		m.replaceKubeconfig(t, m.kubeconfig(t))
		m.waitForEngagement(t, 2)
	})

	t.Run("one that no longer permits watches is not Ready", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-forbidden")
		e := m.join(t)
		m.grantProbeRole(t) // a probe still succeeds
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
		if err := env.member.admin.Delete(ctx, binding); err != nil {
			t.Fatal(err)
		}
		m.link.resetConnections() // the open watches would continue for some minutes
		m.waitForEnd(t, e)
		m.waitForConditions(t, "Ready False Forbidden, CredentialsValid True Accepted")
	})
}
