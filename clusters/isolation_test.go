package clusters_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// One bad member never slows another.
func TestIsolation(t *testing.T) {
	t.Parallel()
	const places = 4
	few := func(o *setup) { o.MaxConnecting = places }
	bad := map[string]func(*testing.T, *testEnv, *operator, int) *testMember{
		"silent": func(t *testing.T, env *testEnv, o *operator, i int) *testMember {
			m := env.newMember(t, o, fmt.Sprintf("silent-%d", i))
			m.link.setMode(t, modeSilent)
			return m
		},
		"refusing": func(t *testing.T, env *testEnv, o *operator, i int) *testMember {
			m := env.newMember(t, o, fmt.Sprintf("refusing-%d", i))
			m.link.setMode(t, modeRefuse)
			return m
		},
		"forbidding": func(t *testing.T, env *testEnv, o *operator, i int) *testMember {
			m := env.newMemberWithoutRole(t, o, fmt.Sprintf("forbidding-%d", i))
			m.grantProbeRole(t)
			return m
		},
		"hanging": func(t *testing.T, env *testEnv, o *operator, i int) *testMember {
			m := env.newMember(t, o, fmt.Sprintf("hanging-%d", i))
			m.proxy.setFault(exceptProbes(hang))
			return m
		},
	}
	for name, bad := range bad {
		t.Run("more "+name+" members than may connect at the same time cost a healthy one nothing", func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			o := env.newOperator(t, "fleet-"+name, few)
			join := func(name string) time.Duration {
				m := env.newMember(t, o, name)
				begun := time.Now()
				return m.join(t).at.Sub(begun)
			}
			alone := join("before-" + name)
			for i := range places * 3 / 2 {
				m := bad(t, env, o, i)
				m.createSecret(t, m.kubeconfig(t))
			}
			for i := range 3 { // each of them must be fast, so one lucky run is not enough
				// A probe of a silent member takes five seconds, a list thirty.
				if took := join(fmt.Sprintf("beside-%s-%d", name, i)); took > 2*alone+4*time.Second {
					t.Errorf("it took %s, and %s alone", took, alone)
				}
			}
		})
	}
}

// grantProbeRole permits the member's user to read the cluster's identity, and nothing else.
func (m *testMember) grantProbeRole(t *testing.T) {
	t.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}}
	name := m.name + "-identity"
	m.createObject(t, m.testEnv.member, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	m.createObject(t, m.testEnv.member, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: memberNamespace, Name: m.name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	})
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was followed, with Authorization %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(elsewhere.Close)
	redirected := make(chan string, 1000)
	m := env.newMember(t, env.operator, "redirecting")
	m.proxy.setFault(exceptProbes(func(w http.ResponseWriter, r *http.Request) {
		redirected <- r.URL.Path
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	m.createSecret(t, m.kubeconfig(t))
	for range 3 {
		select {
		case <-redirected:
		case <-time.After(20 * time.Second):
			t.Fatal("it was not asked")
		}
	}
	if engaged := env.operator.recorder.engagements(m.name); len(engaged) > 0 {
		t.Error("it was engaged")
	}
}
