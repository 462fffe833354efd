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

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const namespace = "fleetwright-system"

// apply applies an object server-side.
func apply(ctx context.Context, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	return hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), append(options, client.FieldOwner("test"))...)
}

// createNamespace creates the namespace of config/default.
func createNamespace(t *testing.T) {
	t.Helper()
	for _, object := range buildKustomization(t, "default") {
		if object.GetKind() == "Namespace" {
			if err := apply(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// checkAccepted fails the test if the API server refuses an object or warns about it.
func checkAccepted(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	warned.take()
	// Apply as users do, and also create with strict validation, which server-side apply does not
	// have.
	err := errors.Join(apply(t.Context(), object, client.DryRunAll),
		client.IgnoreAlreadyExists(hub.Create(t.Context(), object.DeepCopy(), client.DryRunAll)))
	if err != nil {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
	if texts := warned.take(); len(texts) > 0 {
		t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), texts)
	}
}

func TestManifests(t *testing.T) {
	createNamespace(t)
	for _, directory := range findKustomizations(t) {
		t.Run(directory+" is accepted without a warning", func(t *testing.T) {
			objects := buildKustomization(t, directory)
			if len(objects) == 0 {
				t.Error("the kustomization has no objects")
			}
			for _, object := range objects {
				if object.GroupVersionKind().Group == monitoring {
					continue // no CRD here: see TestAlerts and TestServiceMonitor
				}
				checkAccepted(t, object)
			}
		})
	}
	for _, file := range []string{
		"member/token.yaml", "member/named-namespaces/rbac.yaml", "member/named-namespaces/namespace.yaml",
		"member/configuration/named-namespaces/rbac.yaml", "member/configuration/named-namespaces/namespace.yaml",
		"propagation/namespace.yaml", "propagation/all-namespaces.yaml", "samples/rollout.yaml", "samples/configuration.yaml",
	} {
		t.Run(file+" is accepted without a warning", func(t *testing.T) {
			for _, object := range readObjects(t, file) {
				if object.GetKind() == "RoleBinding" {
					object.SetNamespace(namespace) // as kubectl apply -n does
				}
				checkAccepted(t, object)
			}
		})
	}
	t.Run("an unknown field is refused", func(t *testing.T) {
		for _, object := range buildKustomization(t, "default") {
			if object.GetKind() != "Deployment" {
				continue
			}
			if err := unstructured.SetNestedField(object.Object, "x", "spec", "template", "spec", "readOnly"); err != nil {
				t.Fatal(err)
			}
			if err := hub.Create(t.Context(), object, client.DryRunAll); err == nil || !strings.Contains(err.Error(), `unknown field "spec.template.spec.readOnly"`) {
				t.Errorf("got error %v", err)
			}
		}
	})
}

// Users depend on the paths of these directories.
func TestKustomizationDirectories(t *testing.T) {
	got := findKustomizations(t)
	slices.Sort(got)
	want := []string{"admission", "approval", "crd", "default", "grafana", "manager", "member", "member/configuration", "member/policy", "networkpolicy", "prometheus", "propagation", "rbac", "samples"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	files, err := filepath.Glob("samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if samples := buildKustomization(t, "samples"); len(samples) != len(files)-2 { // without rollout.yaml and configuration.yaml
		t.Errorf("samples/Kustomization has %d objects, and there are %d files", len(samples), len(files))
	}
}

// The demo runs the AppService of appservice.yaml. The sample with stages must not restart its pods.
func TestRolloutSampleIsTheFirstSampleWithStages(t *testing.T) {
	staged := findOne[v1alpha1.AppService](t, readObjects(t, "samples/rollout.yaml"), "AppService")
	if staged.Spec.Rollout == nil || staged.Spec.ProgressDeadlineSeconds == nil {
		t.Fatalf("the sample lacks stages or a deadline: %+v", staged.Spec)
	}
	staged.Spec.Rollout, staged.Spec.ProgressDeadlineSeconds = nil, nil
	first := findOne[v1alpha1.AppService](t, readObjects(t, "samples/appservice.yaml"), "AppService")
	if diff := cmp.Diff(first, staged); diff != "" {
		t.Errorf("(-appservice.yaml +rollout.yaml):\n%s", diff)
	}
}

func TestOperatorPod(t *testing.T) {
	createNamespace(t)
	template := findOne[appsv1.Deployment](t, buildKustomization(t, "default"), "Deployment").Spec.Template
	pod := func() *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "test", Labels: template.Labels}, Spec: *template.Spec.DeepCopy()}
	}
	t.Run("complies with the restricted Pod Security Standard", func(t *testing.T) {
		if err := hub.Create(t.Context(), pod(), client.DryRunAll); err != nil {
			t.Error(err)
		}
	})
	for name, change := range map[string]func(*corev1.Container){
		"escalation":   func(c *corev1.Container) { c.SecurityContext.AllowPrivilegeEscalation = new(true) },
		"capabilities": func(c *corev1.Container) { c.SecurityContext.Capabilities = nil },
		"root":         func(c *corev1.Container) { c.SecurityContext.RunAsNonRoot = new(false) },
	} {
		t.Run("would be refused with "+name, func(t *testing.T) {
			bad := pod()
			change(&bad.Spec.Containers[0])
			if err := hub.Create(t.Context(), bad, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
				t.Errorf("got error %v", err)
			}
		})
	}
	t.Run("has a read-only root file system", func(t *testing.T) {
		for _, c := range template.Spec.Containers {
			if c.SecurityContext.ReadOnlyRootFilesystem == nil || !*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("container %s has a writable root file system", c.Name)
			}
		}
	})
	t.Run("sets no user, because OpenShift assigns one", func(t *testing.T) {
		if c := template.Spec.SecurityContext; c.RunAsUser != nil || c.RunAsGroup != nil || c.FSGroup != nil {
			t.Errorf("the pod sets user %v, groups %v and %v", c.RunAsUser, c.RunAsGroup, c.FSGroup)
		}
		// runAsNonRoot requires a numeric user in the image.
		if dockerfile, err := os.ReadFile("../Dockerfile"); err != nil || !regexp.MustCompile(`(?m)^USER [1-9][0-9]*:[1-9][0-9]*$`).Match(dockerfile) {
			t.Errorf("the Dockerfile has no numeric user other than root: %v", err)
		}
	})
	t.Run("has a memory limit, from which the operator derives GOMEMLIMIT", func(t *testing.T) {
		container := template.Spec.Containers[0]
		if container.Resources.Limits.Memory().IsZero() {
			t.Error("the container has no memory limit")
		}
		for _, env := range container.Env { // it would take precedence over the container's limit
			if env.Name == "GOMEMLIMIT" || env.Name == "AUTOMEMLIMIT" {
				t.Errorf("the container sets %s", env.Name)
			}
		}
	})
	t.Run("has only flags of the operator", func(t *testing.T) {
		source, err := os.ReadFile("../cmd/fleetwright/command.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, arg := range template.Spec.Containers[0].Args {
			name, _, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
			if !strings.Contains(string(source), `, "`+name+`", `) {
				t.Errorf("the operator has no flag %s", arg)
			}
		}
	})
}

// Selectors and names must refer to existing objects.
func TestReferences(t *testing.T) {
	objects := append(buildKustomization(t, "default"), buildKustomization(t, "prometheus")...)
	deployment := findOne[appsv1.Deployment](t, objects, "Deployment")
	pod := deployment.Spec.Template
	ports := map[string]bool{}
	for _, port := range pod.Spec.Containers[0].Ports {
		ports[port.Name] = true
	}
	checkSelector := func(what string, selector labels.Selector) {
		if selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
			t.Errorf("the %s does not select the operator's pods", what)
		}
	}
	budget := findOne[policyv1.PodDisruptionBudget](t, objects, "PodDisruptionBudget")
	network := findOne[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
	service := findOne[corev1.Service](t, objects, "Service")
	checkSelector("Service", labels.SelectorFromSet(service.Spec.Selector))
	for what, selector := range map[string]*metav1.LabelSelector{
		"PodDisruptionBudget": budget.Spec.Selector, "NetworkPolicy": &network.Spec.PodSelector,
		"anti-affinity":   pod.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector,
		"topology spread": pod.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		checkSelector(what, parsed)
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
			t.Errorf("the operator has no port %q", port)
		}
	}
}

func TestOnlyTheOperatorHasItsPermissions(t *testing.T) {
	objects := buildKustomization(t, "default")
	account := findOne[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec.ServiceAccountName
	_ = findOne[corev1.ServiceAccount](t, objects, "ServiceAccount", account)
	cluster := findOne[rbacv1.ClusterRoleBinding](t, objects, "ClusterRoleBinding")
	local := findOne[rbacv1.RoleBinding](t, objects, "RoleBinding")
	_ = findOne[rbacv1.ClusterRole](t, objects, "ClusterRole", cluster.RoleRef.Name)
	_ = findOne[rbacv1.Role](t, objects, "Role", local.RoleRef.Name)
	want := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}}
	for _, subjects := range [][]rbacv1.Subject{cluster.Subjects, local.Subjects} {
		if diff := cmp.Diff(want, subjects); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
	}
	member := findOne[corev1.ServiceAccount](t, buildKustomization(t, "member"), "ServiceAccount")
	if member.Name == account {
		t.Error("on a hub that is a member too, the operator would have the permissions of a member")
	}
}

// The permissions for spec.configuration are granted nowhere by the kustomization itself, and only to
// the operator.
func TestPropagationPermissions(t *testing.T) {
	objects := buildKustomization(t, "propagation")
	role := findOne[rbacv1.ClusterRole](t, objects, "ClusterRole")
	key := findOne[rbacv1.Role](t, objects, "Role")
	bound := findOne[rbacv1.RoleBinding](t, objects, "RoleBinding")
	oneNamespace := findOne[rbacv1.RoleBinding](t, readObjects(t, "propagation/namespace.yaml"), "RoleBinding")
	everywhere := findOne[rbacv1.ClusterRoleBinding](t, readObjects(t, "propagation/all-namespaces.yaml"), "ClusterRoleBinding")
	if len(objects) != 3 || oneNamespace.Namespace != "" {
		t.Errorf("the kustomization has %d objects, and the binding the namespace %q", len(objects), oneNamespace.Namespace)
	}
	want := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}
	if oneNamespace.RoleRef != want || everywhere.RoleRef != want || bound.RoleRef.Name != key.Name || key.Namespace != namespace || bound.Namespace != namespace {
		t.Errorf("the roles are %+v, %+v and %+v in %s", oneNamespace.RoleRef, everywhere.RoleRef, bound.RoleRef, bound.Namespace)
	}
	operator := findOne[rbacv1.ClusterRoleBinding](t, buildKustomization(t, "rbac"), "ClusterRoleBinding").Subjects
	for _, subjects := range [][]rbacv1.Subject{bound.Subjects, oneNamespace.Subjects, everywhere.Subjects} {
		if diff := cmp.Diff(operator, subjects); diff != "" {
			t.Errorf("subjects (-want +got):\n%s", diff)
		}
	}
}

// rbac.yaml and named-namespaces/rbac.yaml replace each other, and may be applied at any time.
func TestMemberPermissions(t *testing.T) {
	everywhere, named, binding := buildKustomization(t, "member"), readObjects(t, "member/named-namespaces/rbac.yaml"), readObjects(t, "member/named-namespaces/namespace.yaml")
	role := findOne[rbacv1.ClusterRole](t, everywhere, "ClusterRole", "fleetwright-member")
	reads := findOne[rbacv1.ClusterRole](t, named, "ClusterRole", "fleetwright-member")
	writes := findOne[rbacv1.ClusterRole](t, named, "ClusterRole", "fleetwright-member-namespace")

	t.Run("are the same in named namespaces, except the creation of namespaces", func(t *testing.T) {
		makes := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"create"}}
		if diff := cmp.Diff(role.Rules, slices.Concat(reads.Rules, []rbacv1.PolicyRule{makes}, writes.Rules)); diff != "" {
			t.Errorf("(-everywhere +named):\n%s", diff)
		}
	})
	t.Run("are read-only without the binding of the namespace", func(t *testing.T) {
		for _, rule := range reads.Rules {
			for _, verb := range rule.Verbs {
				if !slices.Contains([]string{"get", "list", "watch"}, verb) {
					t.Errorf("%s %v is granted everywhere", verb, rule.Resources)
				}
			}
		}
		bound := findOne[rbacv1.RoleBinding](t, binding, "RoleBinding")
		if bound.Namespace != "" || bound.RoleRef != (rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: writes.Name}) {
			t.Errorf("the binding in %q has role %+v", bound.Namespace, bound.RoleRef)
		}
		if diff := cmp.Diff(findOne[rbacv1.ClusterRoleBinding](t, everywhere, "ClusterRoleBinding").Subjects, bound.Subjects); diff != "" {
			t.Errorf("(-everywhere +named):\n%s", diff)
		}
	})
	t.Run("let the ServiceAccount request tokens of itself only", func(t *testing.T) {
		account := findOne[corev1.ServiceAccount](t, everywhere, "ServiceAccount")
		token := findOne[rbacv1.Role](t, everywhere, "Role")
		want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account.Name}, Verbs: []string{"create"}}}
		if diff := cmp.Diff(want, token.Rules); diff != "" || token.Namespace != account.Namespace {
			t.Errorf("in namespace %s (-want +got):\n%s", token.Namespace, diff)
		}
		bound := findOne[rbacv1.RoleBinding](t, everywhere, "RoleBinding")
		if subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}; bound.RoleRef.Name != token.Name ||
			bound.Namespace != token.Namespace || !slices.Equal(bound.Subjects, subjects) {
			t.Errorf("the binding is %+v", bound)
		}
	})
	t.Run("are for the same ServiceAccount, without its token", func(t *testing.T) {
		without := func(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
			others := slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterRole" })
			slices.SortFunc(others, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetKind(), b.GetKind()) })
			return others
		}
		others := without(everywhere)
		if diff := cmp.Diff(others, without(named)); diff != "" {
			t.Errorf("(-everywhere +named):\n%s", diff)
		}
		for _, object := range others {
			if object.GetKind() == "Secret" {
				t.Error("a revoked token would be created again")
			}
		}
		token := findOne[corev1.Secret](t, readObjects(t, "member/token.yaml"), "Secret")
		if account := findOne[corev1.ServiceAccount](t, others, "ServiceAccount"); token.Annotations[corev1.ServiceAccountNameKey] != account.Name || token.Namespace != account.Namespace {
			t.Errorf("the token is for ServiceAccount %s in %s", token.Annotations[corev1.ServiceAccountNameKey], token.Namespace)
		}
	})
}

func TestRenderedImage(t *testing.T) {
	const digest = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	for given, want := range map[string]string{
		"registry.example:5000/fleetwright:v1":        "registry.example:5000/fleetwright:v1",
		"registry.example:5000/fleetwright":           "registry.example:5000/fleetwright:latest",
		"registry.example/x/fleetwright:v1@" + digest: "registry.example/x/fleetwright@" + digest,
		"registry.example:5000/fleetwright@" + digest: "registry.example:5000/fleetwright@" + digest,
	} {
		t.Run(given, func(t *testing.T) {
			rendered := runForObjects(t, "../tools/manifests.sh", os.Getenv("KUBEBUILDER_ASSETS"), "render", given)
			if got := findOne[appsv1.Deployment](t, rendered, "Deployment").Spec.Template.Spec.Containers[0].Image; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if len(rendered) != len(buildKustomization(t, "default")) {
				t.Error("the number of objects differs from config/default")
			}
		})
	}
}

// The tables in docs/permissions.md must list exactly the granted permissions.
func TestEveryPermissionIsDocumented(t *testing.T) {
	onHub, onMember, propagation := buildKustomization(t, "rbac"), buildKustomization(t, "member"), buildKustomization(t, "propagation")
	var granted []string
	for _, rules := range [][]rbacv1.PolicyRule{
		findOne[rbacv1.ClusterRole](t, onHub, "ClusterRole", "fleetwright").Rules,
		findOne[rbacv1.Role](t, onHub, "Role", "fleetwright").Rules,
		findOne[rbacv1.ClusterRole](t, propagation, "ClusterRole").Rules,
		findOne[rbacv1.Role](t, propagation, "Role").Rules,
		findOne[rbacv1.ClusterRole](t, onMember, "ClusterRole").Rules,
		findOne[rbacv1.Role](t, onMember, "Role").Rules,
		findOne[rbacv1.ClusterRole](t, buildKustomization(t, "member/configuration"), "ClusterRole").Rules,
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
	content, err := os.ReadFile("../docs/permissions.md")
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
