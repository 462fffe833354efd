package command_test

import (
	"context"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
)

// TestJoin_configuration grants, keeps and takes back the permissions for ConfigMaps and Secrets. Each
// step continues where the previous one ended.
func TestJoin_configuration(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	ensureNamespace(t, m, "shop")
	m.join(t)
	m.connect(t, "east")()
	createConfigured(t, "travelling") // it needs both kinds in namespace default, on east
	second := &v1alpha1.AppService{}
	create(t, second, "{metadata: {name: second, namespace: kube-public}, spec: {image: nginx, configuration: [{kind: Secret, name: db}]}}")
	setStatus(t, second, func(s *v1alpha1.AppServiceStatus) {
		s.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()}}
	})

	t.Run("without the permissions, doctor says who needs them", func(t *testing.T) {
		m.checkMayWrite(t, "secrets", "default", false)
		want := "FAIL configuration these permissions are missing: create configmaps in default, create secrets in default, create secrets in kube-public, delete configmaps in default, delete secrets in default, delete secrets in kube-public, " +
			"patch configmaps in default, patch secrets in default, patch secrets in kube-public. They are needed by default/travelling,kube-public/second. Run: kubectl appsvc join east --allow-loopback --configuration --name east"
		if got := m.doctor(t); !strings.Contains(got, want) {
			t.Errorf("want %q in %s", want, got)
		}
	})
	t.Run("with the flag", func(t *testing.T) {
		m.join(t, "--configuration").checkGolden(t, "join-configuration")
		for _, resource := range []string{"configmaps", "secrets"} {
			m.checkMayWrite(t, resource, "default", true)
			for _, verb := range []string{"get", "list", "watch"} {
				if m.may(t, verb, resource, "default") {
					t.Errorf("Fleetwright may %s %s", verb, resource)
				}
			}
		}
		if got := m.doctor(t); !strings.Contains(got, "ok configuration Fleetwright may write ConfigMaps and Secrets") {
			t.Error(got)
		}
	})
	t.Run("without the flag, they stay, also in named namespaces only", func(t *testing.T) {
		got := m.join(t, "--namespaces", "shop")
		if want := "Fleetwright may write ConfigMaps and Secrets on the member, and join keeps that. --configuration=false takes it back.\n"; got.errOut != want {
			t.Errorf("want %q, got %q", want, got.errOut)
		}
		for _, want := range []string{"  rolebinding/fleetwright-member-configuration in namespace shop created\n", "  clusterrolebinding/fleetwright-member-configuration deleted\n"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("want %q in %s", want, got.out)
			}
		}
		m.checkMayWrite(t, "secrets", "shop", true)
		m.checkMayWrite(t, "secrets", "default", false)
	})
	t.Run("they are printed for GitOps", func(t *testing.T) {
		got := m.run(t, "join", "east", "--print-only", "member", "--namespaces", "shop", "--configuration")
		if strings.Count(got.out, "name: "+member.ConfigurationRole) != 3 { // the role, and the binding with its role
			t.Error(got)
		}
	})
	t.Run("a kind that the administrator has taken out", func(t *testing.T) {
		m.join(t, "--namespaces", "*")
		m.checkMayWrite(t, "secrets", "default", true)
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: member.ConfigurationRole}}
		if err := m.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		role.Rules = role.Rules[:1] // ConfigMaps
		if err := m.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		m.checkMayWrite(t, "secrets", "default", false)
		if got := m.doctor(t); !strings.Contains(got, "FAIL configuration these permissions are missing: create secrets in default, create secrets in kube-public, delete secrets in default, ") {
			t.Error(got)
		}
		travelling := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "travelling", Namespace: "default"}}
		for _, app := range []*v1alpha1.AppService{travelling, second} {
			setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) { s.Clusters = nil })
		}
		if got := m.doctor(t); !strings.Contains(got, "note configuration these permissions are missing, and no AppService needs them now: create secrets, delete secrets, patch secrets") {
			t.Error(got)
		}
	})
	t.Run("they are taken back", func(t *testing.T) {
		got := m.join(t, "--configuration=false")
		for _, want := range []string{"  clusterrole/fleetwright-member-configuration deleted\n", "  clusterrolebinding/fleetwright-member-configuration deleted\n"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("want %q in %s", want, got.out)
			}
		}
		m.checkObjects(t)
		m.checkMayWrite(t, "configmaps", "default", false)
		if got := m.doctor(t); strings.Contains(got, " configuration ") {
			t.Error(got)
		}
	})
	t.Run("unjoin says how to remove them", func(t *testing.T) {
		m.join(t, "--configuration")
		got := m.run(t, "unjoin", "east", "--retain", "--yes")
		if got.code != 0 || !strings.Contains(got.out, "kubectl appsvc join east --print-only member --configuration --restrict |\n") {
			t.Error(got)
		}
	})
}

// may reports whether the ServiceAccount of Fleetwright has a permission on a member.
func (m *memberEnv) may(t *testing.T, verb, resource, namespace string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + member.Namespace + ":" + member.ServiceAccount,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Namespace: namespace},
	}}
	if err := m.Create(context.Background(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// checkMayWrite waits until the ServiceAccount may, or may not, create, patch and delete objects: the
// API server takes a moment to read new roles.
func (m *memberEnv) checkMayWrite(t *testing.T, resource, namespace string, want bool) {
	t.Helper()
	for _, verb := range []string{"create", "patch", "delete"} {
		eventually(t, func() bool { return m.may(t, verb, resource, namespace) == want })
	}
}
