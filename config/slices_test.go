package config_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

// The commands of docs/maintenance.md that read the entries in AppServiceSlices must work.
func TestDocumentedCommandsReadSlices(t *testing.T) {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.Spec.Image = "default", "web", "web:1"
	entries := []v1alpha1.ClusterStatus{
		{Name: "east", Phase: v1alpha1.ClusterReady},
		{Name: "north", Phase: v1alpha1.ClusterFailed, Reason: v1alpha1.ReasonImagePullBackOff, Message: "no such image"},
		{Name: "west", Phase: v1alpha1.ClusterReady},
	}
	for i := range entries {
		entries[i].LastTransitionTime = metav1.Unix(1, 0)
	}
	create(t, app, "AppService")
	app.Status.ClustersIn, app.Status.WorstClusters = v1alpha1.ClustersInSlices, entries[1:2]
	content := toUnstructured(t, app, "AppService")
	if err := hub.Status().Update(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	for _, slice := range appslice.Split(app, entries) {
		create(t, slice, "AppServiceSlice")
	}
	run := func(start string) []string {
		t.Helper()
		block := strings.NewReplacer("NAME", "web", "CLUSTER", "north").Replace(findBlock(t, "../docs/maintenance.md", start))
		out, err := runScript(t, "bash", "-euo", "pipefail", "-c", block)
		mustSucceed(t, out, err)
		return strings.Split(strings.TrimSpace(out), "\n")
	}

	const failed = "north\tFailed\tImagePullBackOff\tno such image"
	lines := run("kubectl get appservice NAME -o jsonpath='{.status.clustersIn}'")
	if lines[0] != "Slices"+failed || lines[len(lines)-1] != failed {
		t.Errorf("the entries that are not Ready are missing:\n%s", strings.Join(lines, "\n"))
	}
	var printed []string
	for _, line := range lines[1 : len(lines)-1] {
		if columns := strings.Fields(line); len(columns) > 4 && columns[2] != "0/0" {
			printed = append(printed, strings.Join(columns[1:5], " "))
		}
	}
	want := []string{"SLOT CLUSTERS FAILED UNKNOWN"}
	for slot := range v1alpha1.SliceCount {
		for _, entry := range entries {
			if v1alpha1.SlotOf(entry.Name) == int32(slot) {
				want = append(want, map[bool]string{true: "1/1 0 0", false: "0/1 1 0"}[entry.Phase == v1alpha1.ClusterReady])
			}
		}
	}
	for i := range printed[1:] {
		_, printed[i+1], _ = strings.Cut(printed[i+1], " ") // without the slot
	}
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}

	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed")
	}
	lines = run("kubectl get appserviceslices -l fleetwright.dev/appservice=NAME -o json | jq")
	wantLines := []string{
		"{", `"generation": 0,`, `"lastTransitionTime": "1970-01-01T00:00:01Z",`, `"message": "no such image",`, `"name": "north",`,
		`"phase": "Failed",`, `"reason": "ImagePullBackOff",`, `"replicas": 0`, "}",
		"1\tFailed\tImagePullBackOff", "2\tReady",
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if diff := cmp.Diff(wantLines, lines); diff != "" {
		t.Errorf("printed by jq (-want +got):\n%s", diff)
	}
}

// create creates an object on the hub until the test ends, and updates it.
func create(t *testing.T, object client.Object, kind string) {
	t.Helper()
	content := toUnstructured(t, object, kind)
	if err := hub.Create(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), content); err != nil {
			t.Error(err)
		}
	})
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, object); err != nil {
		t.Fatal(err)
	}
}

func toUnstructured(t *testing.T, object client.Object, kind string) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	converted := &unstructured.Unstructured{Object: content}
	converted.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	return converted
}
