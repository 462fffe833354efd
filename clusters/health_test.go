package clusters_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/clusters"
)

// A member that cannot be observed is not Ready for longer than a minute.
const noticed = time.Minute

func TestHealth(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]mode{"dies": refuse, "goes silent": silent} {
		t.Run("a member that "+name+" is Unknown and disengaged, and engaged anew when it is back", func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			usual := func(o *clusters.Options) { o.ProbeInterval = 10 * time.Second }
			m := w.newMember(t, w.own(t, "fleet-"+label(name), usual), "health-"+label(name))
			first := m.join(t)
			m.link.turn(t, mode)
			m.shows(t, noticed, "Ready Unknown Unreachable, CredentialsValid True ExpiringSoon")
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
			e.has(t, app, 30*time.Second)
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
		m.engaged(t, 2, 20*time.Second)
	})

	t.Run("a member that lets nothing be watched any more is not Ready", func(t *testing.T) {
		t.Parallel()
		w := shared(t)
		m := w.newMember(t, w.operator, "health-forbidden")
		e := m.join(t)
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: m.name}}
		if err := w.member.admin.Delete(ctx, binding); err != nil {
			t.Fatal(err)
		}
		m.link.cut() // the watches that there are would go on for some minutes
		m.ends(t, e, noticed)
		m.shows(t, 5*time.Second, "Ready False Forbidden, CredentialsValid True ExpiringSoon")
	})
}

// stub is a server that knows a version and an identity, and does something else with every other request.
func stub(t *testing.T, do http.HandlerFunc) edit {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			_, _ = io.WriteString(w, `{"gitVersion": "v1.36.3"}`)
		case "/api/v1/namespaces/kube-system":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": "stub"}}`)
		default:
			do(w, r)
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return func(cluster *api.Cluster, _ *api.AuthInfo) {
		cluster.Server, cluster.CertificateAuthorityData = server.URL, pemOf(server)
	}
}

// One bad member never slows another.
func TestIsolation(t *testing.T) {
	t.Parallel()
	const places = 4
	few := func(o *clusters.Options) { o.MaxConnecting = places }
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := map[string]struct {
		bad func(*testing.T, *world, *operator, int) (*member, []edit)
	}{
		"silent": {func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			m := w.newMember(t, o, fmt.Sprintf("silent-%d", i))
			m.link.turn(t, silent)
			return m, nil
		}},
		"refusing": {func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			m := w.newMember(t, o, fmt.Sprintf("refusing-%d", i))
			m.link.turn(t, refuse)
			return m, nil
		}},
		"forbidding": {func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			m := w.newStranger(t, o, fmt.Sprintf("forbidding-%d", i))
			m.allowIdentityOnly(t)
			return m, nil
		}},
		"hanging": {func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			return w.newStranger(t, o, fmt.Sprintf("hanging-%d", i)), []edit{stub(t, hang)}
		}},
	}
	for name, test := range tests {
		t.Run("more "+name+" members than may connect at the same time cost a healthy one nothing", func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			o := w.own(t, "fleet-"+name, few)
			for i := range places * 3 / 2 {
				m, edits := test.bad(t, w, o, i)
				m.create(t, m.kubeconfig(t, edits...))
			}
			for i := range 3 { // each of them, not only one that is lucky
				m := w.newMember(t, o, fmt.Sprintf("beside-%s-%d", name, i))
				begun := time.Now()
				e := m.join(t)
				if took := e.at.Sub(begun); took > 4*time.Second {
					t.Errorf("it took %s", took)
				}
			}
		})
	}
}

// allowIdentityOnly lets the member's user know which cluster it is, and nothing more.
func (m *member) allowIdentityOnly(t *testing.T) {
	t.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}}
	m.make(t, m.world.member, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: m.name}, Rules: rules})
	m.make(t, m.world.member, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: m.name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: memberNamespace, Name: m.name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: m.name},
	})
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := shared(t)
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was followed, with Authorization %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	redirected := make(chan string, 1000)
	m := w.newStranger(t, w.operator, "redirecting")
	m.create(t, m.kubeconfig(t, stub(t, func(w http.ResponseWriter, r *http.Request) {
		redirected <- r.URL.Path
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})))
	for range 3 {
		select {
		case <-redirected:
		case <-time.After(20 * time.Second):
			t.Fatal("it was not asked")
		}
	}
	if engaged := w.operator.engagements.of(m.name); len(engaged) > 0 {
		t.Error("it was engaged")
	}
}

func TestARestartWritesNothing(t *testing.T) {
	t.Parallel()
	w := shared(t)
	const fleet = "fleet-restart"
	o := w.own(t, fleet)
	healthy, refused, unreachable := w.newMember(t, o, "restart-healthy"), w.newMember(t, o, "restart-refused"), w.newMember(t, o, "restart-unreachable")
	refused.create(t, refused.kubeconfig(t, func(_ *api.Cluster, user *api.AuthInfo) { user.TokenFile = "/canary" }))
	unreachable.link.turn(t, refuse)
	unreachable.create(t, unreachable.kubeconfig(t))
	refused.shows(t, 10*time.Second, "Ready False NoConnection, CredentialsValid False FileRefused")
	unreachable.shows(t, 10*time.Second, "Ready Unknown Unreachable, CredentialsValid Unknown NotTried")
	healthy.join(t)
	const events = 5 // Connected, ExpiringSoon; NoConnection, FileRefused; Unreachable: they are written a moment later
	eventually(t, 10*time.Second, func() error {
		written := slices.DeleteFunc(slices.Clone(w.hub.writes(o.user)), func(what string) bool { return !strings.Contains(what, "/events") })
		if len(written) != events {
			return fmt.Errorf("%d events are written, want %d", len(written), events)
		}
		return nil
	})
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	before := w.hub.writes(o.user)
	next, err := w.operate(fleet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.stop() })
	healthy.operator = next
	healthy.engaged(t, 1, 20*time.Second)
	// Nothing is to be waited for where nothing happens: three attempts to reach the one that is away.
	quiet := time.Now().Add(7 * time.Second)
	eventually(t, 10*time.Second, func() error {
		if time.Now().Before(quiet) {
			return errors.New("it is too early to say")
		}
		return nil
	})
	if now := w.hub.writes(o.user); len(now) != len(before) || len(before) == 0 {
		t.Errorf("written before: %d, then: %v", len(before), now[len(before):])
	}
}

// An operator that is no longer the leader must not go on delivering beside its successor.
func TestTheEndOfTheManagerEndsTheMembersAtOnce(t *testing.T) {
	t.Parallel()
	w := shared(t)
	o := w.own(t, "fleet-resigns")
	m := w.newMember(t, o, "resigns")
	e := m.join(t)
	o.resign()
	m.ends(t, e, 5*time.Second)
	select {
	case <-o.ended:
	case <-time.After(5 * time.Second):
		t.Error("the manager is still waiting")
	}
}
