// Package config_test builds every kustomization in config and sends the objects to a real API
// server. It compares the queries of the alerts and of the dashboard with docs/metrics.md.
package config_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/servertest"
)

var (
	environment = servertest.New("crd/bases")
	hub         client.Client // refuses unknown fields
	hubConfig   *rest.Config  // of an administrator of the hub
	kubeconfig  string        // path of the kubeconfig of the hub
	warned      = &warnings{}
)

// warnings collects the warnings of the API server.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// HandleWarningHeader is part of [rest.WarningHandler].
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// take returns the warnings since the last call.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }

func connect() error {
	kubeconfig = filepath.Join(environment.ControlPlane.APIServer.CertDir, "admin.kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		return err
	}
	hubConfig = environment.Config
	config := rest.CopyConfig(hubConfig)
	config.WarningHandler = warned
	lenient, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	hub = client.WithFieldValidation(lenient, metav1.FieldValidationStrict)
	return err
}

// findKustomizations returns the directories with a kustomization.
func findKustomizations(t *testing.T) []string {
	t.Helper()
	var found []string
	if err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); name == "kustomization.yaml" || name == "Kustomization" {
			found = append(found, filepath.Dir(path))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// buildKustomization returns the objects that our kubectl renders from a kustomization.
func buildKustomization(t *testing.T, directory string) []*unstructured.Unstructured {
	t.Helper()
	return runForObjects(t, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", directory)
}

// runForObjects returns the objects that a program prints.
func runForObjects(t *testing.T, program string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	var out, stderr bytes.Buffer
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil || stderr.Len() > 0 {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, stderr.String())
	}
	return decodeObjects(t, &out)
}

// readObjects returns the objects in a file.
func readObjects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return decodeObjects(t, bytes.NewReader(content))
}

func decodeObjects(t *testing.T, from io.Reader) []*unstructured.Unstructured {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(from, 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// findOne returns the only object of a kind, or of a kind and name, as a typed object.
func findOne[T any](t *testing.T, objects []*unstructured.Unstructured, kind string, name ...string) *T {
	t.Helper()
	var found []*T
	for _, object := range objects {
		if object.GetKind() != kind || len(name) > 0 && object.GetName() != name[0] {
			continue
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, typed, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, typed)
	}
	if len(found) != 1 {
		t.Fatalf("%d objects of kind %s %v, want one", len(found), kind, name)
	}
	return found[0]
}
