package clusters_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// Invariant 1: one bad member never slows another.
//
// A healthy member joins an operator that has more bad members than may connect at the same time.
// Another healthy member joins an operator without bad members at the same time, so that the load
// of the machine affects both. A connection attempt that hangs is not ended during the test.
func TestMember_connects_next_to_more_bad_members_than_may_connect_at_a_time(t *testing.T) {
	t.Parallel()
	const slots = 4
	fewSlots := func(o *setup) { o.MaxConnecting, o.ConnectTimeout = slots, 20*time.Minute }
	for name, newBadMember := range map[string]func(*testing.T, *operator, string) *testMember{
		"silent":     withLinkMode(modeSilent),
		"refusing":   withLinkMode(modeRefuse),
		"forbidding": withProbeRoleOnly,
		"hanging":    withHangingLists,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			baseline, loaded := env.newOperator(t, "fleet-beside-no-"+name, fewSlots), env.newOperator(t, "fleet-"+name, fewSlots)
			for i := range slots * 3 / 2 {
				m := newBadMember(t, loaded, fmt.Sprintf("%s-%d", name, i))
				m.createSecret(t, m.kubeconfig(t))
			}
			for i := range 3 { // a single fast connection may be chance
				other, healthy := env.newMember(t, baseline, fmt.Sprintf("alone-%s-%d", name, i)), env.newMember(t, loaded, fmt.Sprintf("beside-%s-%d", name, i))
				other.createSecret(t, other.kubeconfig(t))
				healthy.createSecret(t, healthy.kubeconfig(t))
				// A member that waited for the bad ones would wait for 20 minutes.
				other.waitForEngagement(t, 1)
				healthy.waitForEngagement(t, 1)
			}
		})
	}
}

func withLinkMode(mode mode) func(*testing.T, *operator, string) *testMember {
	return func(t *testing.T, o *operator, name string) *testMember {
		t.Helper()
		m := sharedEnv(t).newMember(t, o, name)
		m.link.setMode(t, mode)
		return m
	}
}

func withProbeRoleOnly(t *testing.T, o *operator, name string) *testMember {
	t.Helper()
	m := sharedEnv(t).newMemberWithoutRole(t, o, name)
	m.grantProbeRole(t)
	return m
}

func withHangingLists(t *testing.T, o *operator, name string) *testMember {
	t.Helper()
	m := sharedEnv(t).newMember(t, o, name)
	m.proxy.setFault(exceptProbes(hang))
	return m
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

func TestRedirect_is_not_followed(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the redirect to %s was followed, with Authorization %q", r.URL, r.Header.Get("Authorization"))
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
		wait.Receive(t, redirected, "a list")
	}
	if engaged := env.operator.recorder.engagements(m.name); len(engaged) > 0 {
		t.Error("the member was engaged")
	}
}
