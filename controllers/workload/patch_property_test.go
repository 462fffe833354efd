package workload_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Invariant 2, and ownership: any patch is either refused, or leaves the fields unchanged that no
// patch may change. Nothing panics.
func TestRender_no_patch_changes_a_fixed_field(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		in.app.Spec.Overrides = nil
		before := in.render(t)
		patches := rapid.SliceOfN(anyPatch, 1, 2).Draw(t, "patches")
		in.app.Spec.Overrides = []v1alpha1.Override{{Name: "a", Patches: patches}}
		after, err := workload.Render(in.app, in.entry, in.member, in.hub, in.copies)
		if err != nil {
			var override *workload.OverrideError
			if !errors.As(err, &override) {
				t.Fatalf("%v is no OverrideError", err)
			}
			return
		}
		was, is := objects(before), objects(after)
		for i := range was {
			if diff := cmp.Diff(fixedFields(was[i]), fixedFields(is[i])); diff != "" {
				t.Fatalf("%s (-before +after):\n%s", was[i].GetKind(), diff)
			}
		}
	})
}

// fixedFields returns the fields that no patch may change.
func fixedFields(object *unstructured.Unstructured) map[string]any {
	fields := map[string]any{}
	for _, path := range [][]string{
		{"apiVersion"}, {"kind"}, {"status"},
		{"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "ownerReferences"}, {"metadata", "finalizers"},
		{"metadata", "labels", "app.kubernetes.io/name"}, {"metadata", "labels", "app.kubernetes.io/managed-by"},
		{"metadata", "labels", "fleetwright.dev/appservice"},
		{"metadata", "annotations", "fleetwright.dev/hub"}, {"metadata", "annotations", "fleetwright.dev/appservice-uid"},
		{"spec", "selector"}, {"spec", "scaleTargetRef"}, {"spec", "maxReplicas"},
		{"spec", "template", "metadata", "labels", "fleetwright.dev/appservice"},
	} {
		fields[path[0]+"/"+path[len(path)-1]], _, _ = unstructured.NestedFieldNoCopy(object.Object, path...)
	}
	if object.GetKind() == "Deployment" {
		fields["spec/replicas"], _, _ = unstructured.NestedFieldNoCopy(object.Object, "spec", "replicas")
	}
	return fields
}

var (
	anyPointer = rapid.OneOf(
		rapid.SampledFrom([]string{
			"/spec", "/metadata", "/metadata/labels", "/metadata/annotations", "/metadata/labels/a", "/metadata/annotations/a", "/metadata/name",
			"/metadata/labels/fleetwright.dev~1appservice", "/metadata/finalizers", "/spec/selector", "/spec/selector/matchLabels", "/spec/replicas",
			"/spec/paused", "/spec/template", "/spec/template/metadata", "/spec/template/metadata/labels", "/spec/template/spec",
			"/spec/template/spec/containers", "/spec/template/spec/containers/0", "/spec/template/spec/containers/-", "/spec/template/spec/hostAliases",
			"/spec/template/spec/containers/0/args", "/spec/template/spec/containers/0/args/0", "/spec/template/spec/containers/0/env/0/name",
			"/spec/ports", "/spec/ports/0", "/spec/ports/0/port", "/spec/ports/-", "/spec/type", "/spec/minAvailable", "/spec/metrics", "/spec/maxReplicas",
			"/status", "/kind",
		}),
		rapid.StringMatching(`(/(spec|template|metadata|-?[0-9]|-|~[01]|a|)){1,4}`),
	)

	anyPatch = rapid.Custom(func(t *rapid.T) v1alpha1.Patch {
		return v1alpha1.Patch{
			Target: rapid.SampledFrom([]v1alpha1.PatchTarget{
				v1alpha1.PatchDeployment, v1alpha1.PatchDeployment, v1alpha1.PatchDeployment, v1alpha1.PatchService,
				v1alpha1.PatchHorizontalPodAutoscaler, v1alpha1.PatchPodDisruptionBudget,
			}).Draw(t, "target"),
			Operations: rapid.SliceOfN(anyOperation, 1, 4).Draw(t, "operations"),
		}
	})

	anyOperation = rapid.Custom(func(t *rapid.T) v1alpha1.PatchOperation {
		operation := v1alpha1.PatchOperation{
			Op:   rapid.SampledFrom([]string{"add", "remove", "replace", "move", "copy", "test"}).Draw(t, "op"),
			Path: anyPointer.Draw(t, "path"),
		}
		switch operation.Op {
		case "move", "copy":
			operation.From = anyPointer.Draw(t, "from")
		case "add", "replace", "test":
			value, err := json.Marshal(anyJSON(2).Draw(t, "value"))
			if err != nil {
				t.Fatal(err)
			}
			operation.Value = &v1alpha1.JSON{Raw: value}
		}
		return operation
	})
)

func anyJSON(depth int) *rapid.Generator[any] {
	simple := rapid.SampledFrom([]any{nil, true, 0, 1, -1, 1.5, 80, 1 << 40, "", "a", "1"})
	if depth == 0 {
		return simple
	}
	inner := anyJSON(depth - 1)
	return rapid.OneOf(simple,
		rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(inner, 0, 2).Draw(t, "list") }),
		rapid.Custom(func(t *rapid.T) any {
			return rapid.MapOfN(rapid.SampledFrom([]string{"a", "name", "port", "containers", "labels"}), inner, 0, 2).Draw(t, "map")
		}),
	)
}
