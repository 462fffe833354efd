// Package config_test builds every kustomization here and asks a real API server whether it would take what comes out. What the alerts and
// the dashboard ask for is compared with docs/metrics.md.
package config_test

import (
	"bytes"
	"errors"
	"fmt"
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
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	hub        client.Client // refuses fields that it does not know
	kubeconfig string        // the hub's, a file
	warned     = &warnings{}
)

// warnings are what the API server says about what it takes.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader is part of [rest.WarningHandler].
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

// take returns what was said since the last time.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}

func TestMain(m *testing.M) { os.Exit(withHub(m.Run)) }

// withHub runs the tests on an API server that has our CRDs and the namespace that we ship.
func withHub(run func() int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must name the directory of etcd, kube-apiserver and kubectl: use `make manifests-check`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
		return 1
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"crd/bases"}, ErrorIfCRDPathMissing: true, UseExistingCluster: new(false)}
	code, err := func() (int, error) {
		config, err := environment.Start()
		if err != nil {
			return 1, fmt.Errorf("start the API server: %w", err)
		}
		kubeconfig = filepath.Join(environment.ControlPlane.APIServer.CertDir, "admin.kubeconfig")
		if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
			return 1, err
		}
		config = rest.CopyConfig(config)
		config.WarningHandler = warned
		careless, err := client.New(config, client.Options{Scheme: scheme.Scheme})
		if err != nil {
			return 1, err
		}
		hub = client.WithFieldValidation(careless, metav1.FieldValidationStrict)
		return run(), nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		return 1
	}
	return code
}

// kustomizations are the directories that can be built.
func kustomizations(t *testing.T) []string {
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

// built is what kubectl makes of a kustomization. It is the kubectl of the tools: what users have is no newer.
func built(t *testing.T, directory string) []*unstructured.Unstructured {
	t.Helper()
	return output(t, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "kustomize", directory)
}

// output is what a program prints, as objects.
func output(t *testing.T, program string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	var out, complaint bytes.Buffer
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil || complaint.Len() > 0 {
		t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, complaint.String())
	}
	return decoded(t, &out)
}

// read is what a file holds that is no part of a kustomization.
func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return decoded(t, bytes.NewReader(content))
}

func decoded(t *testing.T, from io.Reader) []*unstructured.Unstructured {
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

// one is the only object of a kind, as that type; with a name, the one that is called so.
func one[T any](t *testing.T, objects []*unstructured.Unstructured, kind string, name ...string) *T {
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
		t.Fatalf("there are %d objects of kind %s %v", len(found), kind, name)
	}
	return found[0]
}
