package clusters_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/clusters"
)

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

// pemOf is the certificate of a server in PEM form.
func pemOf(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// One bad member never slows another.
func TestIsolation(t *testing.T) {
	t.Parallel()
	const places = 4
	few := func(o *clusters.Options) { o.MaxConnecting = places }
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	bad := map[string]func(*testing.T, *world, *operator, int) (*member, []edit){
		"silent": func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			m := w.newMember(t, o, fmt.Sprintf("silent-%d", i))
			m.link.turn(t, silent)
			return m, nil
		},
		"refusing": func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			m := w.newMember(t, o, fmt.Sprintf("refusing-%d", i))
			m.link.turn(t, refuse)
			return m, nil
		},
		"forbidding": func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			m := w.newStranger(t, o, fmt.Sprintf("forbidding-%d", i))
			m.allowIdentityOnly(t)
			return m, nil
		},
		"hanging": func(t *testing.T, w *world, o *operator, i int) (*member, []edit) {
			return w.newStranger(t, o, fmt.Sprintf("hanging-%d", i)), []edit{stub(t, hang)}
		},
	}
	for name, bad := range bad {
		t.Run("more "+name+" members than may connect at the same time cost a healthy one nothing", func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			o := w.own(t, "fleet-"+name, few)
			join := func(name string) time.Duration {
				m := w.newMember(t, o, name)
				begun := time.Now()
				return m.join(t).at.Sub(begun)
			}
			alone := join("before-" + name)
			for i := range places * 3 / 2 {
				m, edits := bad(t, w, o, i)
				m.create(t, m.kubeconfig(t, edits...))
			}
			for i := range 3 { // each of them, not only one that is lucky
				// A probe of a member that is silent takes five seconds, a list thirty.
				if took := join(fmt.Sprintf("beside-%s-%d", name, i)); took > 2*alone+4*time.Second {
					t.Errorf("it took %s, and %s alone", took, alone)
				}
			}
		})
	}
}

// allowIdentityOnly lets the member's user know which cluster it is, and nothing more.
func (m *member) allowIdentityOnly(t *testing.T) {
	t.Helper()
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}}
	name := m.name + "-identity"
	m.make(t, m.world.member, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
	m.make(t, m.world.member, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: memberNamespace, Name: m.name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
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
