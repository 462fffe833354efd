package workload_test

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// An AppService that says that it is autoscaled, and one whose autoscaler is found, are the same to a member: going from one to the
// other costs no write.
func TestWithoutReplicas_is_as_if_the_AppService_said_so(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		in.app.Spec.Autoscaled = false
		rendered := in.render(t).Deployment
		before := rendered.DeepCopy()
		got, err := workload.WithoutReplicas(rendered)
		if err != nil {
			t.Fatal(err)
		}
		in.app.Spec.Autoscaled = true
		if diff := cmp.Diff(in.render(t).Deployment, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, rendered); diff != "" {
			t.Fatalf("its input changed (-before +after):\n%s", diff)
		}
		again, err := workload.WithoutReplicas(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("a second time (-first +second):\n%s", diff)
		}
	})
}

// What an autoscaled Deployment begins with is no part of what is compared later: the hash stays.
func TestWithReplicas_adds_the_replicas_and_nothing_else(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		replicas := rapid.Int32Range(0, 9).Draw(t, "begins with")
		rendered := in.render(t).Deployment
		before := rendered.DeepCopy()
		got := workload.WithReplicas(rendered, replicas)
		want := before.DeepCopy()
		want.Object["spec"].(map[string]any)["replicas"] = int64(replicas)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, rendered); diff != "" {
			t.Fatalf("its input changed (-before +after):\n%s", diff)
		}
	})
}

var anyLabels = rapid.MapOfN(rapid.OneOf(anyWord, rapid.Just("app.kubernetes.io/name")), anyWord, 0, 3)

func TestKeepSelector(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		rendered := in.render(t).Deployment
		before := rendered.DeepCopy()
		own, err := workload.KeepSelector(rendered, &metav1.LabelSelector{MatchLabels: workload.Selector(in.app.Name)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, own); diff != "" {
			t.Fatalf("our own selector changes it (-before +after):\n%s", diff)
		}
		theirs := anyLabels.Draw(t, "selector")
		kept, err := workload.KeepSelector(rendered, &metav1.LabelSelector{MatchLabels: theirs})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, rendered); diff != "" {
			t.Fatalf("its input changed (-before +after):\n%s", diff)
		}
		pods := stringsAt(kept, "spec", "template", "metadata", "labels")
		want := stringsAt(before, "spec", "template", "metadata", "labels")
		maps.Copy(want, theirs)
		if diff := cmp.Diff(want, pods); diff != "" {
			t.Fatalf("labels of the pods (-want +got):\n%s", diff)
		}
		if got := stringsAt(kept, "spec", "selector", "matchLabels"); !maps.Equal(got, theirs) {
			t.Fatalf("selector %v, want %v", got, theirs)
		}
		if diff := cmp.Diff(before.GetAnnotations(), kept.GetAnnotations()); diff != "" {
			t.Fatalf("the marks changed (-before +after):\n%s", diff)
		}
	})
}

func stringsAt(object *unstructured.Unstructured, path ...string) map[string]string {
	found, _, _ := unstructured.NestedStringMap(object.Object, path...)
	if found == nil {
		found = map[string]string{}
	}
	return found
}

func TestKeepSelector_to_the_letter(t *testing.T) {
	rendered, err := workload.Render(app(t, `image: registry.example/web:1`), row(1), &v1alpha1.MemberCluster{}, "hub-1")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := workload.KeepSelector(rendered.Deployment, &metav1.LabelSelector{
		MatchLabels:      map[string]string{"app": "shop"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: []string{"a", "b"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, filepath.Join("testdata", "selector-kept.yaml"), documents(t, workload.Workload{Deployment: kept}))
}
