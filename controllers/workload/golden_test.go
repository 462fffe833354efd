package workload_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

var update = flag.Bool("update", false, "write testdata/*.yaml anew")

// What a member gets, to the letter. After a change that is meant: go test ./controllers/workload -update,
// and read the difference: a changed hash means a write to every object on every member.
func TestRender(t *testing.T) {
	tests := []struct {
		golden   string
		spec     string
		replicas int32
	}{
		{
			golden:   "least",
			spec:     `image: registry.example/web:1`,
			replicas: 1,
		},
		{
			golden: "full",
			spec: `
image: registry.example/web:1
replicas: 99 # the row decides
command: [/web]
args: [--verbose, --port=8080]
env:
- {name: MODE, value: production}
- {name: EMPTY}
- name: PASSWORD
  valueFrom: {secretKeyRef: {name: web, key: password}}
- name: NODE
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
ports:
- {name: http, port: 80, targetPort: 8080, appProtocol: http}
- {name: dns, port: 53, protocol: UDP}
resources:
  requests: {cpu: 250m, memory: 64Mi}
  limits: {memory: 128Mi}
placement:
  clusterNames: [east]
`,
			replicas: 3,
		},
		{
			golden:   "no-replicas",
			spec:     `image: registry.example/web:1`,
			replicas: 0,
		},
		{
			golden: "no-ports",
			spec: `
image: registry.example/worker:1
command: [/work]
ports: []
`,
			replicas: 2,
		},
		{
			golden: "node-port",
			spec: `
image: registry.example/web:1
ports:
- {name: http, port: 80}
- {name: metrics, port: 9090, nodePort: 30090}
`,
			replicas: 1,
		},
		{
			golden: "two-ports-to-one",
			spec: `
image: registry.example/web:1
ports:
- {name: http, port: 80, targetPort: 8080}
- {name: alternative, port: 8080}
- {name: quic, port: 443, targetPort: 8080, protocol: UDP}
`,
			replicas: 1,
		},
		{
			golden:   "autoscaled",
			spec:     `{image: "registry.example/web:1", replicas: 3, autoscaled: true}`,
			replicas: 3,
		},
		{
			golden: "odd-quantities",
			spec: `
image: registry.example/web:1
resources:
  requests: {cpu: 0.5, memory: 1024Mi, ephemeral-storage: 0.5Gi}
  limits: {cpu: "2000m", memory: 2e9, example.com/gpu: "1.0"}
`,
			replicas: 1,
		},
	}
	for _, test := range tests {
		t.Run(test.golden, func(t *testing.T) {
			rendered, err := workload.Render(app(t, test.spec), row(test.replicas), "hub-1")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, filepath.Join("testdata", test.golden+".yaml"), documents(t, rendered))
		})
	}
}

func TestStamp(t *testing.T) {
	rendered, err := workload.Render(app(t, `image: registry.example/web:1`), row(1), "hub-1")
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
	t.Run("stamps anew what is stamped already", func(t *testing.T) {
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
		t.Errorf("%s (-want +got); if it is meant, run with -update:\n%s", golden, diff)
	}
}

func documents(t *testing.T, rendered workload.Workload) []byte {
	t.Helper()
	var all [][]byte
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service} {
		if object == nil {
			continue
		}
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, document)
	}
	return bytes.Join(all, []byte("---\n"))
}

// app is an AppService with a spec as people write it.
func app(t *testing.T, spec string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Generation = "shop", "web", "uid-1", 7
	if err := yaml.UnmarshalStrict([]byte(spec), &app.Spec); err != nil {
		t.Fatal(err)
	}
	return app
}

func row(replicas int32) *v1alpha1.ClusterStatus {
	return &v1alpha1.ClusterStatus{Name: "east", Generation: 7, Replicas: replicas}
}
