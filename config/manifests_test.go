package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const namespace = "fleetwright-system"

// apply has the API server say what it would make of an object.
func apply(ctx context.Context, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	return hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), append(options, client.FieldOwner("test"))...)
}

// home makes our namespace, with the labels that we ship.
func home(t *testing.T) {
	t.Helper()
	for _, object := range built(t, "default") {
		if object.GetKind() == "Namespace" {
			if err := apply(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// taken fails the test when the API server would not take an object, or not without a warning.
func taken(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	warned.take()
	// As people do it; and strictly, which a server-side apply cannot be.
	err := errors.Join(apply(t.Context(), object, client.DryRunAll),
		client.IgnoreAlreadyExists(hub.Create(t.Context(), object.DeepCopy(), client.DryRunAll)))
	if err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	if said := warned.take(); len(said) > 0 {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), said)
	}
}

func TestManifests(t *testing.T) {
	home(t)
	for _, directory := range kustomizations(t) {
		t.Run(directory+" is built, and taken without a warning", func(t *testing.T) {
			objects := built(t, directory)
			if len(objects) == 0 {
				t.Error("nothing came of it")
			}
			for _, object := range objects {
				if object.GroupVersionKind().Group == monitoring {
					continue // not known here: see TestAlerts and TestServiceMonitor
				}
				taken(t, object)
			}
		})
	}
	for _, file := range []string{"member/token.yaml", "member/named-namespaces/rbac.yaml", "member/named-namespaces/namespace.yaml"} {
		t.Run(file+" is taken without a warning", func(t *testing.T) {
			for _, object := range read(t, file) {
				if object.GetKind() == "RoleBinding" {
					object.SetNamespace(namespace) // as kubectl apply -n does
				}
				taken(t, object)
			}
		})
	}
	t.Run("with a mistake would not be taken", func(t *testing.T) {
		for _, object := range built(t, "default") {
			if object.GetKind() != "Deployment" {
				continue
			}
			if err := unstructured.SetNestedField(object.Object, "x", "spec", "template", "spec", "readOnly"); err != nil {
				t.Fatal(err)
			}
			if err := hub.Create(t.Context(), object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), `unknown field "spec.template.spec.readOnly"`) {
				t.Errorf("the API server says %v", err)
			}
		}
	})
}

// The directories that there are to build are part of what people rely on.
func TestEveryDirectoryIsBuilt(t *testing.T) {
	got := kustomizations(t)
	slices.Sort(got)
	want := []string{"admission", "crd", "default", "grafana", "manager", "member", "networkpolicy", "prometheus", "rbac", "samples"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	files, err := filepath.Glob("samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if samples := built(t, "samples"); len(samples) != len(files) {
		t.Errorf("samples/Kustomization has %d objects, and there are %d files", len(samples), len(files))
	}
}

func TestThePod(t *testing.T) {
	home(t)
	template := one[appsv1.Deployment](t, built(t, "default"), "Deployment").Spec.Template
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tried", Labels: template.Labels}, Spec: *template.Spec.DeepCopy()}
	}
	t.Run("is taken where the restricted standard is enforced", func(t *testing.T) {
		if err := hub.Create(t.Context(), pod(), client.DryRunAll); err != nil {
			t.Error(err)
		}
	})
	for name, change := range map[string]func(*corev1.Container){
		"escalation": func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = new(true) },
		"rights":     func(c *corev1.Container) { c.SecurityContext.Capabilities = nil },
		"root":       func(c *corev1.Container) { c.SecurityContext.RunAsNonRoot = new(false) },
	} {
		t.Run("would not be taken with "+name, func(t *testing.T) {
			bad := pod()
			change(&bad.Spec.Containers[0])
			if err := hub.Create(t.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
				t.Errorf("the API server says %v", err)
			}
		})
	}
	t.Run("cannot write to its root, which the standard does not ask", func(t *testing.T) {
		for _, c := range template.Spec.Containers {
			if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Error(c.Name)
			}
		}
	})
	t.Run("leaves the user to the image, and OpenShift another", func(t *testing.T) {
		if c := template.Spec.SecurityContext; c.RunAsUser != nil || c.RunAsGroup != nil || c.FSGroup != nil {
			t.Errorf("it asks for user %v, groups %v and %v", c.RunAsUser, c.RunAsGroup, c.FSGroup)
		}
		// runAsNonRoot is satisfied by a number only.
		if dockerfile, err := os.ReadFile("../Dockerfile"); err != nil || !regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).Match(dockerfile) {
			t.Errorf("the image has no user that is a number, or root: %v", err)
		}
	})
	t.Run("has a memory limit, from which the operator derives that of Go", func(t *testing.T) {
		container := template.Spec.Containers[0]
		if container.Resources.Limits.Memory().IsZero() {
			t.Error("the container has no memory limit")
		}
		for _, env := range container.Env { // either would take precedence, and not follow an edit of the limit
			if env.Name == "GOMEMLIMIT" || env.Name == "AUTOMEMLIMIT" {
				t.Errorf("it sets %s", env.Name)
			}
		}
	})
	t.Run("has no flag that the operator has not", func(t *testing.T) {
		source, err := os.ReadFile("../cmd/fleetwright/command.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range template.Spec.Containers[0].Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !strings.Contains(string(source), `, "`+name+`", `) {
				t.Errorf("%s is no flag", arg)
			}
		}
	})
}

// What names another object by label or name names one that there is.
func TestReferences(t *testing.T) {
	objects := append(built(t, "default"), built(t, "prometheus")...)
	deployment := one[appsv1.Deployment](t, objects, "Deployment")
	pod := deployment.Spec.Template
	ports := map[string]bool{}
	for _, port := range pod.Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	selects := func(what string, selector labels.Selector) {
		if selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
			t.Errorf("the %s does not select the operator's pods", what)
		}
	}
	budget := one[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
	network := one[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
	service := one[corev1.Service](t, objects, "Service")
	selects("Service", labels.SelectorFromSet(service.Spec.Selector))
	for what, selector := range map[string]*metav1.LabelSelector{
		"PodDisruptionBudget": budget.Spec.Selector, "NetworkPolicy": &network.Spec.PodSelector,
		"anti-affinity":     pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector,
		"topology's spread": pod.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		selects(what, parsed)
	}
	named := []string{service.Spec.Ports[0].TargetPort.StrVal}
	for _, rule := range network.Spec.Ingress {
		named = append(named, rule.Ports[0].Port.StrVal)
	}
	for _, probe := range []*corev1.Probe{pod.Spec.Containers[0].StartupProbe, pod.Spec.Containers[0].LivenessProbe, pod.Spec.Containers[0].ReadinessProbe} {
		named = append(named, probe.HTTPGet.Port.StrVal)
	}
	for _, port := range named {
		if !ports[port] {
			t.Errorf("no port of the operator is called %q", port)
		}
	}
}

func TestTheOperatorHasItsRightsAndNobodyElse(t *testing.T) {
	objects := built(t, "default")
	account := one[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.ServiceAccountName
	_ = one[corev1.ServiceAccount](t, objects, "ServiceAccount", account)
	cluster := one[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	local := one[rbacv1.RoleBinding](t, objects, "RoleBinding")
	_ = one[rbacv1.ClusterRole](t, objects, "ClusterRole", cluster.RoleRef.Name)
	_ = one[rbacv1.Role](t, objects, "Role", local.RoleRef.Name)
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
	for _, subjects := range [][]rbacv1.Subject{cluster.Subjects, local.Subjects} {
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
	}
	member := one[corev1.ServiceAccount](t, built(t, "member"), "ServiceAccount")
	if member.Name == account {
		t.Error("a hub that is a member too would give the operator a member's rights on the hub")
	}
}

// A member's rights may be applied again at any time, and those for named namespaces in the place of those for all.
func TestTheRightsOfAMember(t *testing.T) {
	everywhere, named, binding := built(t, "member"), read(t, "member/named-namespaces/rbac.yaml"), read(t, "member/named-namespaces/namespace.yaml")
	role := one[rbacv1.ClusterRole](t, everywhere, "ClusterRole", "fleetwright-member")
	reads := one[rbacv1.ClusterRole](t, named, "ClusterRole", "fleetwright-member")
	writes := one[rbacv1.ClusterRole](t, named, "ClusterRole", "fleetwright-member-namespace")

	t.Run("are the same in named namespaces, but for making them", func(t *testing.T) {
		makes := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create"}}
		if diff := cmp.Diff(role.Rules, slices.Concat(reads.Rules, []rbacv1.PolicyRule{makes}, writes.Rules)); diff != "" {
			t.Errorf("(-everywhere +named):\n%s", diff)
		}
	})
	t.Run("change nothing without the namespace's own binding", func(t *testing.T) {
		for _, rule := range reads.Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s %v is granted everywhere", verb, rule.Resources)
				}
			}
		}
		bound := one[rbacv1.RoleBinding](t, binding, "RoleBinding")
		if bound.Namespace != "" || bound.RoleRef != (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: writes.Name}) {
			t.Errorf("the binding in %q is of %+v", bound.Namespace, bound.RoleRef)
		}
		if diff := cmp.Diff(one[rbacv1.ClusterRoleBinding](t, everywhere, "ClusterRoleBinding").Subjects, bound.Subjects); diff != "" {
			t.Errorf("(-everywhere +named):\n%s", diff)
		}
	})
	t.Run("are for the same account, and bring no token", func(t *testing.T) {
		without := func(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
			return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" })
		}
		others := without(everywhere)
		if diff := cmp.Diff(others, without(named)); diff != "" {
			t.Errorf("(-everywhere +named):\n%s", diff)
		}
		for _, object := range others {
			if object.GetKind() == "Secret" {
				t.Error("one that was taken out of use would come back")
			}
		}
		token := one[corev1.Secret](t, read(t, "member/token.yaml"), "Secret")
		if account := one[corev1.ServiceAccount](t, others, "ServiceAccount"); token.Annotations[corev1.ServiceAccountNameKey] != account.Name || token.Namespace != account.Namespace {
			t.Errorf("the token is of %s in %s", token.Annotations[corev1.ServiceAccountNameKey], token.Namespace)
		}
	})
}

func TestTheImage(t *testing.T) {
	const digest = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	for given, want := range map[string]string{
		"registry.example:5000/fleetwright:v1":        "registry.example:5000/fleetwright:v1",
		"registry.example:5000/fleetwright":           "registry.example:5000/fleetwright:latest",
		"registry.example/x/fleetwright:v1@" + digest: "registry.example/x/fleetwright@" + digest,
		"registry.example:5000/fleetwright@" + digest: "registry.example:5000/fleetwright@" + digest,
	} {
		t.Run(given, func(t *testing.T) {
			rendered := output(t, "../tools/manifests.sh", os.Getenv("KUBEBUILDER_ASSETS"), "render", given)
			if got := one[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Image; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if len(rendered) != len(built(t, "default")) {
				t.Error("something else than the image differs")
			}
		})
	}
}

// docs/install.md has a table for each role, and nothing in it that is not granted.
func TestEveryRightIsExplained(t *testing.T) {
	onHub, onMember := built(t, "rbac"), built(t, "member")
	var granted []string
	for _, rules := range [][]rbacv1.PolicyRule{
		one[rbacv1.ClusterRole](t, onHub, "ClusterRole", "fleetwright").Rules,
		one[rbacv1.Role](t, onHub, "Role").Rules,
		one[rbacv1.ClusterRole](t, onMember, "ClusterRole").Rules,
	} {
		for _, rule := range rules {
			for _, resource := range rule.Resources {
				cell := "`" + strings.TrimSuffix(resource+"."+rule.APIGroups[0], ".") + "`"
				if len(rule.ResourceNames) > 0 {
					cell += " named `" + strings.Join(rule.ResourceNames, "`, `") + "`"
				}
				granted = append(granted, cell+" | "+strings.Join(rule.Verbs, ", "))
			}
		}
	}
	content, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, match := range regexp.MustCompile("(?m)^\\| (`[^|]* \\| (?:create|get|list|patch|update)[^|]*) \\| .+ \\|$").FindAllStringSubmatch(string(content), -1) {
		explained = append(explained, match[1])
	}
	slices.Sort(granted)
	slices.Sort(explained)
	if diff := cmp.Diff(granted, explained); diff != "" {
		t.Errorf("(-granted +explained):\n%s", diff)
	}
}
