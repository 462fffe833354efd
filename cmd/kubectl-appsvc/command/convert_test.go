package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

func TestConvert(t *testing.T) {
	const list = `{apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, template: {spec: {containers: [{name: web, image: nginx}]}}}}]}`
	got := runWith(t, list, "convert", "-f", "-")
	if got.code != 0 || !strings.Contains(got.out, "kind: AppService") || !strings.Contains(got.out, "image: nginx") {
		t.Errorf("%+v", got)
	}
	runWith(t, "", "convert").check(t, result{code: 1, errOut: "error: -f FILE is missing: kubectl appsvc convert -f FILE\n"})
	runWith(t, "", "convert", "-f", "-").check(t, result{code: 1, errOut: "error: there is no Deployment: give the file that has one\n"})
}

// TestConvert_makes_what_the_hub_accepts tests that the hub accepts each AppService that the tests of
// package convert expect.
func TestConvert_makes_what_the_hub_accepts(t *testing.T) {
	outputs, err := filepath.Glob("../convert/testdata/*.out.yaml")
	if err != nil || len(outputs) == 0 {
		t.Fatalf("%d outputs: %v", len(outputs), err)
	}
	for _, output := range outputs {
		content, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(content), "error:") {
			continue
		}
		app := &v1alpha1.AppService{}
		if err := yaml.UnmarshalStrict(content, app); err != nil {
			t.Fatal(err)
		}
		app.Namespace = "default"
		if err := hub.Create(t.Context(), app, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", output, err)
		}
	}
}

// TestConvert_makes_what_the_hub_accepts_from_a_managed_Deployment converts what the operator has applied
// on a member, as kubectl get -o yaml prints it.
func TestConvert_makes_what_the_hub_accepts_from_a_managed_Deployment(t *testing.T) {
	member := newMember(t)
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "converted", Namespace: "default", UID: "1", Generation: 3}}
	app.Spec = v1alpha1.AppServiceSpec{Image: "nginx:1.29", Replicas: new(int32(2)), Ports: []v1alpha1.ServicePort{{Port: 80}},
		EnvFrom:        []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}},
		PodAnnotations: map[string]string{"team": "shop"}}
	rendered, err := workload.Render(app, &v1alpha1.ClusterStatus{Replicas: 2}, &v1alpha1.MemberCluster{}, "hub-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service} {
		applied := workload.Stamp(object, app.Generation)
		createAll(t, member, applied)
		content, err := yaml.Marshal(applied.Object)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(content))
	}
	got := runWith(t, strings.Join(documents, "---\n"), "convert", "-f", "-")
	if got.code != 0 || strings.Contains(got.out, "fleetwright.dev/appservice") {
		t.Fatalf("%+v", got)
	}
	checkParts(t, got.out, []string{
		"# deleting the AppService deletes them, unless spec.deletionPolicy is Orphan.\n",
		"# - Deployment converted is managed by AppService converted already",
		"# - the pods use ConfigMap settings: to send it with the AppService, list it in spec.configuration, and its owner must label it on the hub: kubectl label configmap settings -n default fleetwright.dev/propagate=true ",
	})
	if strings.Contains(got.out, "# - Deployment metadata") || strings.Contains(got.out, "# - Service") {
		t.Errorf("fields of Fleetwright are listed as missing:\n%s", got.out)
	}
	created := &v1alpha1.AppService{}
	if err := yaml.UnmarshalStrict([]byte(got.out), created); err != nil {
		t.Fatal(err)
	}
	createAll(t, hub, created)
	if created.Spec.Image != "nginx:1.29" || created.Spec.PodAnnotations["team"] != "shop" {
		t.Errorf("%+v", created.Spec)
	}
}

func TestConvert_names_the_field_of_a_wrong_type(t *testing.T) {
	for spec, want := range map[string]string{
		`replicas: "two"`: "Deployment web: spec.replicas: want int32, got string",
		`paused: 3`:       "Deployment web: spec.paused: want bool, got number",
		`template: {spec: {containers: [{name: web, image: nginx, env: [{name: A, value: 5}]}]}}`:          "Deployment web: spec.template.spec.containers.env.value: want string, got number",
		`template: {spec: {containers: {name: web}}}`:                                                      "Deployment web: spec.template.spec.containers: want []v1.Container, got object",
		`template: {spec: {containers: [{name: web, image: nginx, resources: {limits: {memory: much}}}]}}`: "quantities must match",
		`replica: 2`: `unknown field "spec.replica"`,
	} {
		got := runWith(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {"+spec+"}}", "convert", "-f", "-")
		if got.code != 1 || !strings.Contains(got.errOut, want) {
			t.Errorf("%s: want %q, got %+v", spec, want, got)
		}
	}
}
