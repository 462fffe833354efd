package clusters_test

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A member that cannot be observed stays Ready for at most a minute.
const withinDetection = time.Minute

func TestHealth(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]mode{"dies": modeRefuse, "goes silent": modeSilent} {
		t.Run("a member that "+name+" is Unknown and disengaged, and engaged anew when it is back", func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			usual := func(o *setup) { o.ProbeInterval = 10 * time.Second }
			m := env.newMember(t, env.newOperator(t, "fleet-"+memberName(name), usual), "health-"+memberName(name))
			first := m.join(t)
			m.link.setMode(t, mode)
			m.waitForConditions(t, withinDetection, "Ready Unknown Unreachable, CredentialsValid True Accepted")
			m.waitForEnd(t, first, 5*time.Second)
			m.createDeployment(t, m.name+"-app")
			m.link.setMode(t, modePass)
			second := m.waitForEngagement(t, 2, withinDetection)
			second.waitForDeployment(t, m.name+"-app", 0)
			m.checkContinues(t, second)
			if first.cluster == second.cluster {
				t.Error("what was cached before is taken for the present")
			}
		})
	}

	t.Run("a member whose connections are cut goes on", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-cut")
		e := m.join(t)
		for i := range 3 {
			m.link.resetConnections()
			app := fmt.Sprintf("%s-%d", m.name, i)
			m.createDeployment(t, app)
			e.waitForDeployment(t, app, testTimeout)
		}
		m.checkContinues(t, e)
		m.waitForConditions(t, 0, summaryConnected)
	})

	t.Run("a member whose answers are slow goes on", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-slow")
		_ = m.link.setModeWithDelay(modeSlow, 300*time.Millisecond)
		m.join(t)
	})

	t.Run("a member that takes the credentials no more is not Ready", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-revoked")
		token, revoke := m.newToken(t)
		e := m.join(t, withToken(token))
		revoke()
		m.waitForConditions(t, withinDetection, "Ready False Unauthorized, CredentialsValid False Unauthorized")
		m.waitForEnd(t, e, 5*time.Second)
		m.replaceKubeconfig(t, m.kubeconfig(t))
		m.waitForEngagement(t, 2, testTimeout)
	})

	t.Run("a member that lets nothing be watched any more is not Ready", func(t *testing.T) {
		t.Parallel()
		env := sharedEnv(t)
		m := env.newMember(t, env.operator, "health-forbidden")
		e := m.join(t)
		m.grantProbeRole(t) // so that a probe succeeds
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
		if err := env.member.admin.Delete(ctx, binding); err != nil {
			t.Fatal(err)
		}
		m.link.resetConnections() // the open watches would continue for some minutes
		m.waitForEnd(t, e, withinDetection)
		m.waitForConditions(t, 20*time.Second, "Ready False Forbidden, CredentialsValid True Accepted")
	})
}
