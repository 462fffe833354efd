package workload_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Invariant 5: an unchanged input renders the same bytes, so nothing is written again.
func TestRender_twice_gives_the_same_bytes_and_does_not_change_its_input(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		before := in.copy()
		first, second := in.render(t), in.copy().render(t)
		if diff := cmp.Diff(bytesOf(t, first), bytesOf(t, second)); diff != "" {
			t.Fatalf("rendered (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(before, in, cmp.AllowUnexported(input{})); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
	})
}

// Server-side apply owns every field that is sent: a null or an empty map would own a field that no
// spec requests.
func TestRender_sets_no_status_and_no_empty_field(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		rendered := anyInput.Draw(t, "input").render(t)
		for _, object := range objects(rendered) {
			if _, found := object.Object["status"]; found {
				t.Fatalf("%s has a status", object.GetKind())
			}
			if path := emptyIn(object.Object); path != "" {
				t.Fatalf("%s%s is empty", object.GetKind(), path)
			}
		}
	})
}

// If a rendered field were not part of the hash, its removal would go unnoticed. The test changes
// each field separately, on any AppService.
func TestRender_changes_the_hash_with_every_rendered_field(t *testing.T) {
	t.Parallel()
	// The excluded fields set the replicas and the clusters, which reach the workload through the
	// entry, or control how delivery handles the rendered objects. The configuration is rendered as the
	// names of copies.
	requireEach(t, reflect.TypeFor[v1alpha1.AppServiceSpec](), "spec.", "spec.replicas", "spec.replicaPolicy", "spec.placement",
		"spec.conflictPolicy", "spec.deletionPolicy", "spec.revisionHistoryLimit", "spec.rollout", "spec.suspend", "spec.configuration")
	requireEach(t, reflect.TypeFor[v1alpha1.ServicePort](), "a port's ")
	requireEach(t, reflect.TypeFor[v1alpha1.Service](), "service.")
	requireEach(t, reflect.TypeFor[v1alpha1.Deployment](), "deployment.")
	requireEach(t, reflect.TypeFor[v1alpha1.ContainerPort](), "a container port's ")
	requireEach(t, reflect.TypeFor[v1alpha1.InitContainer](), "an init container's ")
	requireEach(t, reflect.TypeFor[v1alpha1.Volume](), "a volume's ")
	requireEach(t, reflect.TypeFor[v1alpha1.Autoscaling](), "autoscaling.", "autoscaling.minReplicas", "autoscaling.maxReplicas")
	requireEach(t, reflect.TypeFor[v1alpha1.DisruptionBudget](), "disruptionBudget.")
	// An override's name is used only in messages, and its embedded ClusterMatch has no JSON name
	// of its own.
	requireEach(t, reflect.TypeFor[v1alpha1.Override](), "an override's ", "an override's name", "an override's ", "an override's replicas", "an override's configuration")
	requireEach(t, reflect.TypeFor[v1alpha1.ClusterMatch](), "an override's ")
	requireEach(t, reflect.TypeFor[v1alpha1.ResourceOverride](), "an override's resources.")
	requireEach(t, reflect.TypeFor[v1alpha1.Patch](), "a patch's ", "a patch's target")
	effective := map[string]bool{}
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		before := hashes(in.render(t))
		for name, change := range rendering {
			changed := in.copy()
			change(&changed)
			if reflect.DeepEqual(in, changed) {
				continue // the input lacks the field
			}
			effective[name] = true
			if slices.Equal(before, hashes(changed.render(t))) {
				t.Fatalf("after a change of %s, the hash stayed %s", name, before)
			}
		}
	})
	for name := range rendering {
		if !effective[name] {
			t.Errorf("%s was never changed", name)
		}
	}
}

// Invariant 5: a generation that changes nothing on a member causes no write there.
func TestRender_keeps_the_hash_when_no_rendered_field_changes(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*input){
		"the generation": func(in *input) { in.app.Generation++; in.entry.Generation++ },
		"spec.placement": func(in *input) {
			in.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"x"}}}
		},
		"spec.conflictPolicy":       func(in *input) { in.app.Spec.ConflictPolicy = v1alpha1.ConflictAdopt },
		"spec.deletionPolicy":       func(in *input) { in.app.Spec.DeletionPolicy = v1alpha1.DeletionOrphan },
		"spec.revisionHistoryLimit": func(in *input) { in.app.Spec.RevisionHistoryLimit = new(int32(3)) },
		"spec.rollout":              func(in *input) { in.app.Spec.Rollout = &v1alpha1.Rollout{Paused: true} },
		"spec.suspend":              func(in *input) { in.app.Spec.Suspend = true },
		"the entry's replicas of an autoscaled AppService": func(in *input) {
			if in.app.Spec.ExternallyScaled || in.makesAutoscaler() {
				in.entry.Replicas++
			}
		},
		"spec.replicas, which comes from the entry": func(in *input) { in.app.Spec.Replicas = new(in.entry.Replicas + 1) },
		"the AppService's labels":                   func(in *input) { in.app.Labels = map[string]string{"x": "x"} },
		"the AppService's annotations":              func(in *input) { in.app.Annotations = map[string]string{"x": "x"} },
		"the status":                                func(in *input) { in.app.Status.Replicas++ },
		"the cluster":                               func(in *input) { in.entry.Name += "x" },
		"the bounds of an AppService without an autoscaler": func(in *input) {
			if in.app.Spec.Autoscaling == nil {
				in.entry.MinReplicas, in.entry.MaxReplicas = in.entry.MinReplicas+1, in.entry.MaxReplicas+1
			}
		},
		"the bounds of autoscaling, which come from the entry": func(in *input) {
			if in.app.Spec.Autoscaling != nil {
				in.app.Spec.Autoscaling.MinReplicas, in.app.Spec.Autoscaling.MaxReplicas = new(int32(77)), 77
			}
		},
		"spec.replicaPolicy, which comes from the entry":    func(in *input) { in.app.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{} },
		"an override's replicas, which come from the entry": onOverride(func(override *v1alpha1.Override) { override.Replicas = new(int32(77)) }),
		"an override of other clusters": func(in *input) {
			in.override(v1alpha1.Override{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"x1"}}, Image: "changed:x"})
		},
		"an override of clusters with other labels": func(in *input) {
			selector := &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "x1"}}
			in.override(v1alpha1.Override{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: selector}, Image: "changed:x"})
		},
		"an override that changes nothing": func(in *input) { in.override(v1alpha1.Override{}) },
		"the name of a copy to which nothing refers": func(in *input) {
			if len(in.copies) > 0 {
				in.copies[workload.Reference{Kind: workload.Secret, Name: "x"}] = "x"
			}
		},
		"no copies instead of none": func(in *input) {
			if len(in.copies) == 0 {
				in.copies = workload.Copies{}
			}
		},
		"a label of the member that no variable names": func(in *input) { in.member.Labels["not-named"] = "x" },
		"what the entry observed":                      func(in *input) { in.entry.Phase, in.entry.ReadyReplicas = v1alpha1.ClusterFailed, 9 },
		"an explicit protocol TCP":                     onPort(func(port *v1alpha1.ServicePort) { port.Protocol = corev1.ProtocolTCP }, hasNoProtocol),
		"an explicit targetPort":                       onPort(func(port *v1alpha1.ServicePort) { port.TargetPort = intstr.FromInt32(port.Port) }, hasNoTargetPort),
		"a quantity written in another way":            func(in *input) { rewrite(in.app.Spec.Resources.Requests) },
		"an empty list instead of none": func(in *input) {
			if in.app.Spec.Args == nil {
				in.app.Spec.Args = []string{}
			}
		},
	}
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		before := hashes(in.render(t))
		for name, change := range changes {
			changed := in.copy()
			change(&changed)
			if diff := cmp.Diff(before, hashes(changed.render(t))); diff != "" {
				t.Fatalf("hash after a change of %s (-before +after):\n%s", name, diff)
			}
		}
	})
}

// input holds everything that a workload is rendered from.
type input struct {
	app    *v1alpha1.AppService
	entry  *v1alpha1.ClusterStatus
	member *v1alpha1.MemberCluster
	hub    string
	copies workload.Copies
}

func (in input) copy() input {
	return input{in.app.DeepCopy(), in.entry.DeepCopy(), in.member.DeepCopy(), in.hub, maps.Clone(in.copies)}
}

func (in input) render(t *rapid.T) workload.Workload {
	rendered, err := workload.Render(in.app, in.entry, in.member, in.hub, in.copies)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

func objects(rendered workload.Workload) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service, rendered.Autoscaler, rendered.DisruptionBudget} {
		if object != nil {
			all = append(all, object)
		}
	}
	return all
}

func hashes(rendered workload.Workload) []string {
	var hashes []string
	for _, object := range objects(rendered) {
		hashes = append(hashes, object.GetAnnotations()[v1alpha1.AnnotationHash])
	}
	return hashes
}

func bytesOf(t *rapid.T, rendered workload.Workload) string {
	content, err := json.Marshal(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// emptyIn returns the path of a null or empty value without meaning, or "".
func emptyIn(value any) string {
	switch value := value.(type) {
	case nil:
		return "<null>"
	case map[string]any:
		for key, inner := range value {
			if path := emptyIn(inner); path != "" && key+path != "emptyDir{}" && key+path != "labelSelector{}" {
				return "." + key + path
			}
		}
		if len(value) == 0 {
			return "{}"
		}
	case []any:
		for i, inner := range value {
			if path := emptyIn(inner); path != "" {
				return fmt.Sprintf("[%d]%s", i, path)
			}
		}
		if len(value) == 0 {
			return "[]"
		}
	}
	return ""
}

// requireEach fails if a field of the type is neither among the changes nor excluded, which is the
// case for a new field.
func requireEach(t *testing.T, owner reflect.Type, prefix string, except ...string) {
	t.Helper()
	for field := range owner.Fields() {
		name := prefix + jsonName(field)
		if _, known := rendering[name]; !known && !slices.Contains(except, name) {
			t.Errorf("%s is neither in rendering nor excluded", name)
		}
	}
}

// onPort changes the first port, if it exists and meets the conditions.
func onPort(change func(*v1alpha1.ServicePort), when ...func(v1alpha1.ServicePort) bool) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.Ports) == 0 {
			return
		}
		port := &in.app.Spec.Ports[0]
		for _, is := range when {
			if !is(*port) {
				return
			}
		}
		change(port)
	}
}

func hasNoProtocol(port v1alpha1.ServicePort) bool { return port.Protocol == "" }

func hasNoTargetPort(port v1alpha1.ServicePort) bool { return port.TargetPort.IntVal == 0 }

// jsonName returns the JSON name of a field.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
