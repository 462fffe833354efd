package workload_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// deploymentWith returns a Deployment on a member with this selector and these pod labels.
func deploymentWith(name string, selector metav1.LabelSelector, pods map[string]string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &selector}}
	deployment.Name, deployment.Spec.Template.Labels = name, pods
	return deployment
}

var anyLabels = rapid.MapOfN(rapid.OneOf(anyWord, rapid.Just("app.kubernetes.io/name")), anyWord, 1, 3)

// Only the selector shows whether a Deployment was adopted. Other managers may have changed the
// labels of its pods and the selector of the Service: they are drift, which KeepSelector must not
// keep.
func TestKeepSelector_changes_nothing_without_an_adopted_Deployment(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		rendered := in.render(t)
		before := bytesOf(t, rendered)
		selector := metav1.LabelSelector{MatchLabels: workload.Selector(in.app.Name)}
		deployment := rapid.SampledFrom([]*appsv1.Deployment{
			nil,
			deploymentWith(in.app.Name, selector, workload.Selector(in.app.Name)),
			deploymentWith(in.app.Name, selector, anyLabels.Draw(t, "labels of the pods")),
		}).Draw(t, "deployment")
		service := rapid.SampledFrom([]*corev1.Service{
			nil,
			{Spec: corev1.ServiceSpec{Selector: workload.Selector(in.app.Name)}},
			{Spec: corev1.ServiceSpec{Selector: anyLabels.Draw(t, "selector of the Service")}},
		}).Draw(t, "service")
		kept, err := rendered.KeepSelector(deployment, service)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{before, before}, []string{bytesOf(t, rendered), bytesOf(t, kept)}); diff != "" {
			t.Fatalf("the argument and the result (-before +after):\n%s", diff)
		}
	})
}

// Every rendered selector matches the pods of the Deployment's selector. The pods get only the
// labels of that selector and of the AppService.
func TestKeepSelector_of_an_adopted_Deployment(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		rendered := in.render(t)
		before := bytesOf(t, rendered)
		existing := anyLabels.Draw(t, "selector")
		kept, err := rendered.KeepSelector(deploymentWith(in.app.Name, metav1.LabelSelector{MatchLabels: existing}, existing), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, bytesOf(t, rendered)); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(existing, stringsAt(kept.Deployment, "spec", "selector", "matchLabels")); diff != "" {
			t.Fatalf("selector of the Deployment (-want +got):\n%s", diff)
		}
		want := map[string]string{}
		for key, value := range in.app.Spec.PodLabels {
			if !strings.HasPrefix(key, "app.kubernetes.io/") {
				want[key] = value
			}
		}
		for key, value := range existing {
			want[key] = value
		}
		if diff := cmp.Diff(want, stringsAt(kept.Deployment, "spec", "template", "metadata", "labels")); diff != "" {
			t.Fatalf("labels of the pods (-want +got):\n%s", diff)
		}
		if kept.Service != nil {
			if diff := cmp.Diff(existing, stringsAt(kept.Service, "spec", "selector")); diff != "" {
				t.Fatalf("selector of the Service (-want +got):\n%s", diff)
			}
		}
		if kept.DisruptionBudget != nil {
			if diff := cmp.Diff(existing, stringsAt(kept.DisruptionBudget, "spec", "selector", "matchLabels")); diff != "" {
				t.Fatalf("selector of the PodDisruptionBudget (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff(hashes(rendered), hashes(kept)); diff != "" {
			t.Fatalf("hashes (-before +after):\n%s", diff)
		}
	})
}

// An earlier version added Fleetwright's labels to the pods of an adopted Deployment, and its Service
// selects them by these labels. An upgrade changes neither.
func TestKeepSelector_keeps_the_labels_that_the_Service_selects(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		rendered := in.render(t)
		existing := anyLabels.Draw(t, "selector")
		deployment := deploymentWith(in.app.Name, metav1.LabelSelector{MatchLabels: existing}, workload.Selector(in.app.Name))
		service := &corev1.Service{Spec: corev1.ServiceSpec{Selector: workload.Selector(in.app.Name)}}
		kept, err := rendered.KeepSelector(deployment, service)
		if err != nil {
			t.Fatal(err)
		}
		if got := stringsAt(kept.Deployment, "spec", "template", "metadata", "labels")[v1alpha1.LabelAppService]; got != in.app.Name {
			t.Fatalf("the AppService label of the pods is %q", got)
		}
		kept.Deployment, rendered.Deployment = nil, nil
		if diff := cmp.Diff(bytesOf(t, rendered), bytesOf(t, kept)); diff != "" {
			t.Fatalf("the other objects (-before +after):\n%s", diff)
		}
	})
}

func TestKeepSelector_refuses_a_Service_that_cannot_select_the_pods(t *testing.T) {
	t.Parallel()
	rendered, err := workload.Render(app(t, `{image: web, ports: [{port: 80}]}`), entry(1), member(), "hub-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = rendered.KeepSelector(deploymentWith("web", metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist},
	}}, nil), nil)
	if !errors.Is(err, workload.ErrNoLabels) {
		t.Errorf("error %v, want %v", err, workload.ErrNoLabels)
	}
}

func stringsAt(object *unstructured.Unstructured, path ...string) map[string]string {
	found, _, _ := unstructured.NestedStringMap(object.Object, path...)
	if found == nil {
		found = map[string]string{}
	}
	return found
}

func TestKeepSelector_golden(t *testing.T) {
	t.Parallel()
	rendered, err := workload.Render(app(t, `
image: registry.example/web:1
ports: [{port: 80}]
podLabels: {team: shop}
disruptionBudget: {minAvailable: 1}
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {tier: front}}}
`), entry(1), &v1alpha1.MemberCluster{}, "hub-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := rendered.KeepSelector(deploymentWith("web", metav1.LabelSelector{
		MatchLabels: map[string]string{"app": "shop"},
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}},
			{Key: "old", Operator: metav1.LabelSelectorOpDoesNotExist},
		},
	}, map[string]string{"app": "shop", "tier": "a", "other": "x"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "selector-kept.yaml"), documents(t, kept))
}
