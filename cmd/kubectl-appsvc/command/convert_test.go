package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestConvert(t *testing.T) {
	const list = `{apiVersion: v1, kind: List, items: [{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, template: {spec: {containers: [{name: web, image: nginx}]}}}}]}`
	got := runWith(t, list, "convert", "-f", "-")
	if got.code != 0 || !strings.Contains(got.out, "kind: AppService") || !strings.Contains(got.out, "image: nginx") {
		t.Errorf("%+v", got)
	}
	runWith(t, "", "convert").check(t, result{code: 1, errOut: "error: required flag(s) \"filename\" not set\n"})
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
