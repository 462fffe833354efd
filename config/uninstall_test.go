package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// The CRDs wait for AppServices, and an AppService waits for the operator, which does not run here.
func TestUninstall_deletes_the_CRDs_or_says_what_they_wait_for(t *testing.T) {
	own := servertest.New("crd/bases")
	servertest.Start(t, own)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, own.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		return runScript(t, "env", append([]string{"KUBECONFIG=" + file}, args...)...)
	}
	uninstall := func(timeout string) (string, error) {
		return run("TIMEOUT="+timeout, "../tools/manifests.sh", os.Getenv("KUBEBUILDER_ASSETS"), "uninstall")
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hub, err := client.New(own.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.Finalizers = "default", "web", []string{v1alpha1.Finalizer}
	app.Spec.Image = "registry.example/web:1"
	if err := hub.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}

	out, err := uninstall("2s")
	if err == nil || !strings.Contains(out, "docs/install.md#uninstall") {
		t.Fatalf("with an AppService that waits: %v\n%s", err, out)
	}
	if err := hub.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`))); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, there is nothing
		out, err = uninstall("50s")
		mustSucceed(t, out, err)
		out, err = run("kubectl", "get", "crds", "-o", "name")
		mustSucceed(t, out, err)
		if strings.Contains(out, "fleetwright.dev") {
			t.Errorf("not deleted:\n%s", out)
		}
	}
}
