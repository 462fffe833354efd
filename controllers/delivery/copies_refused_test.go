package delivery

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// A quota of the member refuses a copy. The cluster keeps its Deployment, and continues afterwards.
func TestCopies_that_a_quota_refuses(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	before, copies := c.observedDeployment(), c.allCopies("1", "1", "1")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: "small"}}
	quota.Spec.Hard = corev1.ResourceList{"count/configmaps": resource.MustParse("1")}
	c.must(onMember.Create(t.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
	c.must(onMember.Status().Update(t.Context(), quota))
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.planRevision()
	c.expectRefused("exceeded quota: small")
	c.expectUnchanged(before)
	c.expectCopies(copies)

	c.must(onMember.Delete(t.Context(), quota))
	c.restart()
	c.expectCopies(c.allCopies("2", "1", "1"))
	c.expectReport(c.readyWith(1))
}

// An admission policy of the member refuses a Secret, and quotes it. The text is in no log at any
// verbosity, in no report and in no event.
func TestCopies_that_a_policy_refuses_and_quotes(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.connect()
	w := c.newReconciler()
	c.settle(w, firstRevision(c))
	before := c.observedDeployment()
	c.refuseSecrets()
	c.revision++
	c.change(v1alpha1.ConfigurationSecret, "db", "2")
	c.changeInPlace("registry", "2", 2)
	c.planRevision()
	c.catchUp()
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 10})
	_, err := w.Reconcile(logr.NewContext(t.Context(), log), requestFor(c.clusterName(), c.key()))
	c.must(err)
	seen := w.reported.last(c.key(), c.cluster)
	if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonConfigurationRefused {
		t.Errorf("reported %+v", seen)
	}
	mu.Lock()
	defer mu.Unlock()
	texts := append(slices.Clone(lines), seen.Message)
	for _, server := range []*server{onHub, onMember} {
		var events eventsv1.EventList
		c.must(server.List(t.Context(), &events, client.InNamespace(c.app.Namespace)))
		for _, event := range events.Items {
			texts = append(texts, event.Note)
		}
	}
	for _, text := range texts {
		if quotes(text) {
			t.Errorf("a text has content: %s", text[:min(len(text), 300)])
		}
	}
	c.expectUnchanged(before)
	c.expectNoMissingCopy()
}

// quotes reports whether a text has the beginning of a Secret.
func quotes(text string) bool {
	return strings.Contains(text, canary) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary))[:20])
}

// refuseSecrets makes the member refuse all Secrets of the namespace with a text that has their content.
func (c *configured) refuseSecrets() {
	c.Helper()
	name := c.app.Namespace
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
		ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
		}}},
	}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "false", MessageExpression: "'weak password: ' + string(object.data.password)"}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = name, []admissionv1.ValidationAction{admissionv1.Deny}
	c.must(onMember.Create(c.Context(), policy))
	c.must(onMember.Create(c.Context(), binding))
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "probe"}, Data: map[string][]byte{"password": []byte(canary)}}
	wait.Eventually(c.T, func() error {
		if err := onMember.Create(c.Context(), probe.DeepCopy(), client.DryRunAll); err == nil || !quotes(err.Error()) {
			return fmt.Errorf("the policy does not quote the Secret: %w", err)
		}
		return nil
	})
}

// An object of somebody else that has the name of a copy is not changed, under any conflict policy:
// its keys would stay beside the content.
func TestCopies_whose_names_are_taken(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictFail, v1alpha1.ConflictAdopt} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			c := deliveredConfigured(t, withConflictPolicy(policy))
			before := c.observedDeployment()
			c.revision++
			c.change(v1alpha1.ConfigurationSecret, "db", "2")
			foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: c.ofDB()}, Data: map[string][]byte{"other": []byte("x")}}
			c.must(onMember.Create(t.Context(), foreign))
			c.planRevision()
			want := "Secret " + c.ofDB() + " exists and was not created by Fleetwright: delete it, so that the copy can be created"
			wait.Eventually(t, func() error {
				seen := c.reported.last(c.key(), c.cluster)
				if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonConflict || !strings.Contains(seen.Message, want) {
					return fmt.Errorf("reported %+v", seen)
				}
				return nil
			})
			c.expectUnchanged(before)
			found := &corev1.Secret{}
			c.must(onMember.Get(t.Context(), client.ObjectKeyFromObject(foreign), found))
			if diff := cmp.Diff(foreign, found); diff != "" {
				t.Errorf("the Secret changed (-before +after):\n%s", diff)
			}
			c.must(onMember.Delete(t.Context(), foreign))
			c.restart()
			c.expectCopies(c.allCopies("1", "2", "1"))
			c.expectReport(c.readyWith(1))
		})
	}
}

// Somebody replaces a copy that is updated in place by an object of the same name. The next content does
// not change that object, whether this process has applied the copy or an earlier one.
func TestCopy_in_place_whose_name_was_taken(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*configured){"since this process applied it": func(*configured) {}, "before a restart": func(c *configured) { c.restart() }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := deliveredConfigured(t)
			foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: c.ofRegistry()}, Data: map[string][]byte{"password": []byte("x"), "other": []byte("x")}}
			c.must(onMember.Delete(t.Context(), foreign.DeepCopy()))
			c.must(onMember.Create(t.Context(), foreign))
			begin(c)
			c.expectReport(c.readyWith(1))
			c.changeInPlace("registry", "2", 2)
			c.planConfigured()
			want := "Secret " + c.ofRegistry() + " exists and was not created by Fleetwright: delete it, so that the copy can be created"
			wait.Eventually(t, func() error {
				seen := c.reported.last(c.key(), c.cluster)
				if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonConflict || !strings.Contains(seen.Message, want) {
					return fmt.Errorf("reported %+v", seen)
				}
				return nil
			})
			found := &corev1.Secret{}
			c.must(onMember.Get(t.Context(), client.ObjectKeyFromObject(foreign), found))
			if diff := cmp.Diff(foreign, found); diff != "" {
				t.Errorf("the Secret changed (-before +after):\n%s", diff)
			}
			c.must(onMember.Delete(t.Context(), foreign))
			c.restart()
			c.expectCopies(c.allCopies("1", "1", "2"))
			c.expectReport(c.readyWith(2))
			c.expectAtRestWithCopies()
		})
	}
}

// A content that is updated in place costs one request if this process has applied the one before. A copy
// that is gone is created.
func TestCopy_in_place_is_updated_by_its_UID(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	c.sent.reset()
	c.changeInPlace("registry", "2", 2)
	c.planConfigured()
	c.expectReport(c.readyWith(2))
	if n := c.sent.count("PATCH secrets/" + c.ofRegistry()); n != 1 {
		t.Errorf("sent %d requests for the copy", n)
	}
	c.must(onMember.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: c.ofRegistry()}}))
	c.changeInPlace("registry", "3", 3)
	c.planConfigured()
	c.expectReport(c.readyWith(3))
	c.expectCopies(c.allCopies("1", "1", "3"))
}

// A member grants the permissions in named namespaces only.
func TestCopies_with_the_permissions_in_named_namespaces(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.must(onMember.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.app.Namespace}}))
	c.config = c.namedNamespacesUser("named-namespaces/rbac.yaml")
	c.start()
	c.planRevision()
	c.expectRefused("is forbidden")
	c.grantInNamespace("configuration/named-namespaces/rbac.yaml")
	c.restart()
	c.expectCopies(c.allCopies("1", "1", "1"))
	c.expectReport(c.readyWith(1))
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.change(v1alpha1.ConfigurationSecret, "db", "2")
	c.planRevision()
	c.expectReferences()
	c.expectCopies(c.allCopies("2", "2", "1"))
	c.expectReport(c.readyWith(1))
	c.expectAtRestWithCopies()
	c.expectNoRequests(t, "GET configmaps", "GET secrets")
}

// namedNamespacesUser returns a config for a user with exactly the permissions of the file: those of its
// last ClusterRole only in the namespace of the AppService.
func (c *configured) namedNamespacesUser(file string) *rest.Config {
	c.Helper()
	roles := c.memberRoles(file)
	if len(roles) != 2 {
		c.Fatalf("%s has %d ClusterRoles", file, len(roles))
	}
	config, err := onMember.user(c.Context(), "named-"+c.app.Namespace, roles[0].Rules)
	c.must(err)
	c.bindInNamespace(roles[1])
	return config
}

// grantInNamespace grants the ClusterRoles of a file in the namespace of the AppService.
func (c *configured) grantInNamespace(file string) {
	c.Helper()
	for _, role := range c.memberRoles(file) {
		c.bindInNamespace(role)
	}
}

func (c *configured) bindInNamespace(role rbacv1.ClusterRole) {
	c.Helper()
	namespaced := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: role.Name}, Rules: role.Rules}
	c.must(onMember.Create(c.Context(), namespaced))
	c.must(onMember.Create(c.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: role.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "named-" + c.app.Namespace}},
	}))
}

func (c *configured) memberRoles(file string) []rbacv1.ClusterRole {
	c.Helper()
	content, err := os.ReadFile("../../config/member/" + file)
	c.must(err)
	var roles []rbacv1.ClusterRole
	for document := range strings.SplitSeq(string(content), "---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.UnmarshalStrict([]byte(document), &role); err == nil && role.Kind == "ClusterRole" {
			roles = append(roles, role)
		}
	}
	if len(roles) == 0 {
		c.Fatal(errors.New(file + " has no ClusterRole"))
	}
	return roles
}
