package convert_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/convert"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

var update = flag.Bool("update", false, "write the golden files")

// objectsIn returns the objects in a text of YAML documents.
func objectsIn(t *testing.T, content []byte) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); err != nil {
			return objects
		}
		objects = append(objects, object)
	}
}

// TestToAppService_returns_what_was_rendered renders each sample and converts the objects: nothing is
// missing, and the result renders the same objects.
func TestToAppService_returns_what_was_rendered(t *testing.T) {
	samples, err := filepath.Glob("../../../config/samples/*.yaml")
	if err != nil || len(samples) < 10 {
		t.Fatalf("%d samples: %v", len(samples), err)
	}
	for _, sample := range samples {
		content, err := os.ReadFile(sample)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objectsIn(t, content) {
			if object.GetKind() != "AppService" {
				continue
			}
			t.Run(filepath.Base(sample)+"/"+object.GetName(), func(t *testing.T) {
				app := &v1alpha1.AppService{}
				text, err := yaml.Marshal(object.Object)
				if err != nil {
					t.Fatal(err)
				}
				if err := yaml.UnmarshalStrict(text, app); err != nil {
					t.Fatal(err)
				}
				app.Spec.ExternallyScaled, app.Spec.Overrides = false, nil // they are not in the objects
				want := render(t, app)
				converted, notes, err := convert.ToAppService(want)
				if err != nil {
					t.Fatal(err)
				}
				notes = slices.DeleteFunc(notes, func(note string) bool {
					return strings.HasPrefix(note, "the pods use ") || strings.Contains(note, "is managed by")
				})
				if len(notes) > 0 {
					t.Errorf("missing: %s", strings.Join(notes, "\n"))
				}
				if diff := cmp.Diff(want, render(t, converted)); diff != "" {
					t.Errorf("(-original +converted):\n%s", diff)
				}
			})
		}
	}
}

// render returns the objects of an AppService without the annotations of Fleetwright.
func render(t *testing.T, app *v1alpha1.AppService) []*unstructured.Unstructured {
	t.Helper()
	entry := &v1alpha1.ClusterStatus{Replicas: app.DesiredReplicas()}
	if s := app.Spec.Autoscaling; s != nil {
		entry.MinReplicas, entry.MaxReplicas = 1, s.MaxReplicas
		if s.MinReplicas != nil {
			entry.MinReplicas = *s.MinReplicas
		}
	}
	rendered, err := workload.Render(app, entry, &v1alpha1.MemberCluster{}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service, rendered.Autoscaler, rendered.DisruptionBudget} {
		if object == nil {
			continue
		}
		annotations := object.GetAnnotations()
		for key := range annotations {
			if strings.HasPrefix(key, "fleetwright.dev/") {
				delete(annotations, key)
			}
		}
		labels := object.GetLabels()
		delete(labels, v1alpha1.LabelAppService)
		object.SetAnnotations(annotations)
		object.SetLabels(labels)
		objects = append(objects, object)
	}
	return objects
}

func TestToAppService(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("%d inputs: %v", len(inputs), err)
	}
	for _, input := range inputs {
		t.Run(filepath.Base(input), func(t *testing.T) {
			content, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			got := convertedText(t, content)
			golden := strings.Replace(input, ".in.", ".out.", 1)
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// convertedText returns what the command prints for a file: the AppService, or the error.
func convertedText(t *testing.T, content []byte) string {
	t.Helper()
	app, notes, err := convert.ToAppService(objectsIn(t, content))
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	text, err := convert.Text(app, notes)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
