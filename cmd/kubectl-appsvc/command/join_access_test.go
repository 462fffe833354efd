package command_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
)

// createAll creates objects until the test ends.
func createAll(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.Background(), object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
}

// createRoles creates the roles of a file of config/rbac on the hub until the test ends.
func createRoles(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../../config/rbac", file))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range decode(t, string(content)) {
		createAll(t, hub, object)
	}
}

// createFleetAdmin creates the roles of config/rbac/fleet_admin.yaml, bound to a user.
func createFleetAdmin(t *testing.T, user string) {
	t.Helper()
	createRoles(t, "fleet_admin.yaml")
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	createAll(t, hub,
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "fleet-admin"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleetwright-fleet-admin"}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "fleet-admin", Namespace: secretNamespace}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "fleetwright-fleet-admin"}})
}

func TestJoin_permissions_on_the_hub(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	user := userOf(t, hubEnvironment, "fleet-admin")
	file := m.contexts(t, map[string][]byte{"hub": user, "east": m.environment.KubeConfig})

	t.Run("a user who may only view cannot join", func(t *testing.T) {
		createAll(t, hub,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "views"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "views"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "fleet-admin"}},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "views"}})
		eventually(t, func() bool {
			got := runAs(t, file, "join", "east", "--allow-loopback")
			return got.code == 1 && got.out == "" && strings.Contains(got.errOut, `cannot get resource "secrets" in API group "" in the namespace "fleetwright-system": ask an administrator of the hub for the Role fleetwright-fleet-admin`)
		})
	})

	t.Run("fleetwright-fleet-admin is enough for join, doctor and unjoin", func(t *testing.T) {
		createFleetAdmin(t, "fleet-admin")
		eventually(t, func() bool { return runAs(t, file, "join", "east", "--allow-loopback", "--dry-run").code == 0 })
		m.connect(t, "east")()
		for _, args := range [][]string{
			{"join", "east", "--allow-loopback", "--timeout", "0"},
			{"join", "east", "--allow-loopback", "--timeout", "0", "--labels", "region=eu"},
			{"unjoin", "east", "--delete", "--yes"},
		} {
			if got := runAs(t, file, args...); got.code != 0 || strings.Contains(got.out+got.errOut, "forbidden") || strings.Contains(got.out, "# Not if") {
				t.Errorf("%v: %v", args, got)
			}
		}
	})
}

func TestJoin_a_hub_as_its_own_member(t *testing.T) {
	m := newMember(t) // only for its kubeconfig
	deleteSecret(t, "hub")
	objects := m.objects(t)
	t.Cleanup(func() {
		for _, object := range objects[1:] {
			if err := hub.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}
	})
	namespace := &corev1.Namespace{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: secretNamespace}, namespace); err != nil {
		t.Fatal(err)
	}
	got := m.run(t, "join", "hub", "--allow-loopback", "--timeout", "0")
	if got.code != 0 || !strings.Contains(got.out, "  namespace/fleetwright-system exists\n") {
		t.Fatal(got)
	}
	before := namespace.ResourceVersion
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace); err != nil || namespace.ResourceVersion != before {
		t.Errorf("the namespace of the operator was changed: %v", err)
	}
	t.Run("unjoin does not print that the namespace is to be deleted", func(t *testing.T) {
		cluster := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "hub"}}
		createAll(t, hub, cluster)
		system := &corev1.Namespace{}
		if err := hub.Get(t.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			t.Fatal(err)
		}
		cluster.Status = v1alpha1.MemberClusterStatus{ClusterID: system.UID, SecretMissingSince: &metav1.Time{Time: system.CreationTimestamp.Time}}
		if err := hub.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		m.run(t, "unjoin", "hub", "--retain", "--yes").checkGolden(t, "unjoin-hub")
	})
}

// TestJoin_permissions_on_the_member tests that nothing is written without all of them.
func TestJoin_permissions_on_the_member(t *testing.T) {
	m := newMember(t)
	file := m.contexts(t, map[string][]byte{"hub": hubEnvironment.KubeConfig, "east": userOf(t, m.environment, "installer")})
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "create", "patch"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, Verbs: []string{"get", "create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "installer"}}
	createAll(t, m, role, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "installer"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "installer"}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "installer"}})
	deleteSecret(t, "east")
	for count, want := range []string{
		`namespaces "kube-system" is forbidden`,
		"rolebindings.rbac.authorization.k8s.io is forbidden",
		`serviceaccounts "fleetwright" is forbidden`,
		`serviceaccounts/token "fleetwright" is forbidden: you have no permission to create it: use a context of an administrator of this cluster`,
		"",
	} {
		role.Rules = rules[:count]
		if err := m.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		var got result
		eventually(t, func() bool { // the API server takes a moment to read a changed role
			got = runAs(t, file, "join", "east", "--allow-loopback", "--timeout", "0")
			return want == "" && got.code == 0 || want != "" && strings.Contains(got.errOut, want)
		})
		if want != "" && got.out != "" || t.Failed() {
			t.Fatalf("want %q, got %v", want, got)
		}
	}
}

// TestJoin_with_a_member_that_never_answers tests that each request has a limit: join ends.
func TestJoin_with_a_member_that_never_answers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") // it accepts connections
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	m := newMember(t)
	file := m.editKubeconfig(t, func(c *clientcmdapi.Config) { c.Clusters["east"].Server = "https://" + listener.Addr().String() })
	got := runAs(t, file, "join", "east", "--allow-loopback", "--request-timeout", "1s").scrub()
	if got.code != 1 || !strings.HasPrefix(got.errOut, "error: the cluster of context east: https://ADDRESS does not answer (") {
		t.Error(got)
	}
}

// TestJoin_with_watches_that_end tests that the hub is not asked without a pause when each watch ends
// at once.
func TestJoin_with_watches_that_end(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	var lists atomic.Int32
	file := m.throughProxy(t, hubEnvironment, "hub", func(response http.ResponseWriter, request *http.Request) bool {
		if !strings.HasSuffix(request.URL.Path, "/memberclusters") {
			return false
		}
		if request.URL.Query().Get("watch") == "" {
			lists.Add(1)
			return false
		}
		response.Header().Set("Content-Type", "application/json")
		return true
	})
	got := runAs(t, file, "join", "east", "--allow-loopback", "--timeout", "2500ms")
	if count := lists.Load(); got.code != 3 || !strings.Contains(got.errOut, "the hub has no MemberCluster east") || count < 3 || count > 6 {
		t.Errorf("%d lists: %v", count, got)
	}
}

// whileRefused calls do while the member refuses to create a resource, although the caller has the
// permission.
func whileRefused(t *testing.T, m *memberEnv, group, resource string, probe func() error, do func()) {
	t.Helper()
	name := metav1.ObjectMeta{Name: "refuses"}
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		Validations: []admissionv1.Validation{{Expression: "false", Message: "never"}},
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource}},
		}}}},
	}}
	createAll(t, m, policy, &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: name, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
	isRefused := func() bool { err := probe(); return err != nil && strings.Contains(err.Error(), "never") }
	eventually(t, isRefused)
	do()
	if err := m.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !isRefused() })
}

func TestJoin_says_what_was_done(t *testing.T) {
	m := newMember(t)
	t.Run("the member refuses a part of the permissions", func(t *testing.T) {
		create := func() error {
			return m.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "probe"}}, client.DryRunAll)
		}
		whileRefused(t, m, rbacv1.GroupName, "roles", create, func() {
			m.run(t, "join", "east", "--allow-loopback").checkGolden(t, "join-partial")
		})
	})
	t.Run("the member refuses the token", func(t *testing.T) {
		request := func() error {
			account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: member.ServiceAccount}}
			return m.SubResource("token").Create(t.Context(), account, &authenticationv1.TokenRequest{})
		}
		whileRefused(t, m, "", "serviceaccounts/token", request, func() {
			m.run(t, "join", "east", "--allow-loopback").checkGolden(t, "join-unfinished")
		})
		if readSecret(t, "east") != nil {
			t.Error("the Secret was written")
		}
	})
	t.Run("the Secret of another cluster, also with --force", func(t *testing.T) {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "east", Annotations: map[string]string{v1alpha1.AnnotationClusterID: "other"}}}
		createAll(t, hub, other)
		m.run(t, "join", "east", "--allow-loopback", "--force").check(t, result{code: 1,
			errOut: "error: the hub has a Secret fleetwright-system/east of another cluster (other): use --name, or delete that Secret\n"})
	})
	t.Run("another manager has other permissions", func(t *testing.T) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: member.Role}}
		if err := m.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		role.Rules = role.Rules[:1]
		if err := m.Update(t.Context(), role, client.FieldOwner("git")); err != nil {
			t.Fatal(err)
		}
		got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0")
		if got.code != 1 || got.out != "" || !strings.Contains(got.errOut, "clusterrole/fleetwright-member has other values from another field manager; to take it over, use --force") {
			t.Error(got)
		}
		deleteSecret(t, "east")
		if got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0", "--force"); got.code != 0 || !strings.Contains(got.out, "  clusterrole/fleetwright-member configured\n") {
			t.Error(got)
		}
	})
	t.Run("a context with a program that fails", func(t *testing.T) {
		file := m.editKubeconfig(t, func(c *clientcmdapi.Config) {
			c.AuthInfos["east"] = &clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{APIVersion: "client.authentication.k8s.io/v1", Command: "false", InteractiveMode: clientcmdapi.NeverExecInteractiveMode}}
		})
		got := runAs(t, file, "join", "east", "--allow-loopback")
		if got.code != 1 || !strings.Contains(got.errOut, "executable false failed with exit code 1") {
			t.Error(got)
		}
	})
}
