package clusters_test

import (
	"fmt"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A member that cannot be observed stays Ready for at most a minute.
const noticed = time.Minute

func TestHealth(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]mode{"dies": refuse, "goes silent": silent} {
		t.Run("a member that "+name+" is Unknown and disengaged, and engaged anew when it is back", func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			usual := func(o *setup) { o.ProbeInterval = 10 * time.Second }
			m := w.newMember(t, w.own(t, "fleet-"+label(name), usual), "health-"+label(name))
			first := m.join(t)
			m.link.turn(t, mode)
			m.shows(t, noticed, "Ready Unknown Unreachable, CredentialsValid True Accepted")
			m.ends(t, first, 5*time.Second)
			m.deploy(t, m.name+"-app")
			m.link.turn(t, pass)
			second := m.engaged(t, 2, noticed)
			second.has(t, m.name+"-app", 0)
			m.goesOn(t, second)
			if first.cluster == second.cluster {
				t.Error("what was cached before is taken for the present")
			}
		})
	}

	t.Run("a member whose connections are cut goes on", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "health-cut")
		e := m.join(t)
		for i := range 3 {
			m.link.cut()
			app := fmt.Sprintf("%s-%d", m.name, i)
			m.deploy(t, app)
			e.has(t, app, soon)
		}
		m.goesOn(t, e)
		m.shows(t, 0, joined)
	})

	t.Run("a member whose answers are slow goes on", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "health-slow")
		_ = m.link.set(slow, 300*time.Millisecond)
		m.join(t)
	})

	t.Run("a member that takes the credentials no more is not Ready", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "health-revoked")
		token, revoke := m.token(t)
		e := m.join(t, withToken(token))
		revoke()
		m.shows(t, noticed, "Ready False Unauthorized, CredentialsValid False Unauthorized")
		m.ends(t, e, 5*time.Second)
		m.replace(t, m.kubeconfig(t))
		m.engaged(t, 2, soon)
	})

	t.Run("a member that lets nothing be watched any more is not Ready", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "health-forbidden")
		e := m.join(t)
		m.allowIdentityOnly(t) // so that a probe succeeds
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
		if err := w.member.admin.Delete(ctx, binding); err != nil {
			t.Fatal(err)
		}
		m.link.cut() // the open watches would continue for some minutes
		m.ends(t, e, noticed)
		m.shows(t, 20*time.Second, "Ready False Forbidden, CredentialsValid True Accepted")
	})
}
