package workload_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

var update = flag.Bool("update", false, "write testdata/*.yaml again")

// The golden files hold the exact objects that a member gets. After an intended change, run go test
// ./controllers/workload -update and read the difference: a changed hash causes a write to every
// object on every member.
func TestRender(t *testing.T) {
	t.Parallel()
	for _, test := range goldens {
		t.Run(test.golden, func(t *testing.T) {
			compare(t, filepath.Join("testdata", test.golden+".yaml"), documents(t, test.render(t)))
		})
	}
}

func TestStamp(t *testing.T) {
	t.Parallel()
	rendered, err := workload.Render(app(t, `image: registry.example/web:1`), entry(1), &v1alpha1.MemberCluster{}, "hub-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	before := rendered.Deployment.DeepCopy()
	stamped := workload.Stamp(rendered.Deployment, 12)

	t.Run("does not change what it stamps", func(t *testing.T) {
		if diff := cmp.Diff(before, rendered.Deployment); diff != "" {
			t.Errorf("Deployment (-before +after):\n%s", diff)
		}
	})
	t.Run("adds the generation and nothing else", func(t *testing.T) {
		want := before.DeepCopy()
		annotations := want.GetAnnotations()
		annotations[v1alpha1.AnnotationGeneration] = "12"
		want.SetAnnotations(annotations)
		if diff := cmp.Diff(want, stamped); diff != "" {
			t.Errorf("Deployment (-want +got):\n%s", diff)
		}
	})
	t.Run("stamps a stamped object again", func(t *testing.T) {
		again := workload.Stamp(stamped, 13)
		if diff := cmp.Diff("13", again.GetAnnotations()[v1alpha1.AnnotationGeneration]); diff != "" {
			t.Errorf("generation (-want +got):\n%s", diff)
		}
	})
}

func compare(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got); if the change is intended, run with -update:\n%s", golden, diff)
	}
}

func documents(t *testing.T, rendered workload.Workload) []byte {
	t.Helper()
	var all [][]byte
	for _, object := range objects(rendered) {
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, document)
	}
	return bytes.Join(all, []byte("---\n"))
}

// app returns an AppService from a spec in YAML.
func app(t testing.TB, spec string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Generation = "shop", "web", "uid-1", 7
	if err := yaml.UnmarshalStrict([]byte(spec), &app.Spec); err != nil {
		t.Fatal(err)
	}
	return app
}

// member returns the cluster of the entry.
func member() *v1alpha1.MemberCluster {
	member := &v1alpha1.MemberCluster{}
	member.Name, member.Labels = "east", map[string]string{"region": "eu-1", "example.com/tier": "gold"}
	return member
}

func entry(replicas int32) *v1alpha1.ClusterStatus {
	return &v1alpha1.ClusterStatus{Name: "east", Generation: 7, Replicas: replicas}
}
