package workload_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// testdata/samples.txt has a hash of the pod template of each sample. If it changes although the
// samples do not, an upgrade of the operator restarts the pods of all AppServices on all clusters at
// once: a rollout does not stage a change of this package. So change the golden file only with a
// reason, and write the reason into the notes of the release.
func TestRender_keeps_the_pod_templates_of_the_samples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no samples (%v)", err)
	}
	var hashes bytes.Buffer
	for _, file := range files {
		for _, app := range readAppServices(t, file) {
			fmt.Fprintf(&hashes, "%s  %s %s\n", hashTemplate(t, app), filepath.Base(file), app.Name)
		}
	}
	compare(t, filepath.Join("testdata", "samples.txt"), hashes.Bytes())
}

// hashTemplate returns a hash of the pod template that a cluster gets.
func hashTemplate(t *testing.T, app *v1alpha1.AppService) string {
	t.Helper()
	rendered, err := workload.Render(app, entry(3), member(), "hub-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	template, found, err := unstructured.NestedMap(rendered.Deployment.Object, "spec", "template")
	if err != nil || !found {
		t.Fatalf("the Deployment of %s has no template (%v)", app.Name, err)
	}
	content, err := json.Marshal(template)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(content))
}

// readAppServices returns the AppServices in a file, as they are written: without the defaults of
// the CRD.
func readAppServices(t *testing.T, file string) []*v1alpha1.AppService {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var apps []*v1alpha1.AppService
	for {
		app := &v1alpha1.AppService{}
		if err := decoder.Decode(app); errors.Is(err, io.EOF) {
			return apps
		} else if err != nil {
			t.Fatal(err)
		}
		if app.Kind == "AppService" {
			app.UID, app.Generation = "uid-1", 7
			apps = append(apps, app)
		}
	}
}
