// Package charts_test compares what the Helm charts render with config/, and installs, upgrades and
// removes them with the real helm on a real API server.
package charts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

const namespace = "fleetwright-system"

var (
	hub        client.Client
	kubeconfig string // of an administrator of the hub
	home       string // of helm
)

func TestMain(m *testing.M) { os.Exit(withHub(m.Run)) }

// withHub runs the tests with an API server that has no CRDs of ours.
func withHub(run func() int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must be the directory of etcd, kube-apiserver, kubectl and helm: run `make manifests-check`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
		return 1
	}
	environment := &envtest.Environment{UseExistingCluster: new(false)}
	code, err := func() (int, error) {
		config, err := environment.Start()
		if err != nil {
			return 1, fmt.Errorf("start the API server: %w", err)
		}
		home = environment.ControlPlane.APIServer.CertDir
		kubeconfig = filepath.Join(home, "admin.kubeconfig")
		if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
			return 1, err
		}
		if hub, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
			return 1, err
		}
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

// tryRun runs one of our tools, and returns its output, or an error with all that it printed.
func tryRun(tool string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // not the context of t: it also runs in Cleanup
	defer cancel()
	path, err := filepath.Abs(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), tool))
	if err != nil {
		return nil, err
	}
	var out, complaint bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	command.Stdout, command.Stderr = &out, &complaint
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", tool, strings.Join(args, " "), err, out.Bytes(), complaint.Bytes())
	}
	return out.Bytes(), nil
}

// run runs one of our tools, which must succeed.
func run(t *testing.T, tool string, args ...string) string {
	t.Helper()
	out, err := tryRun(tool, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// render returns the objects that a chart renders, without those of `helm test`.
func render(t *testing.T, chart, releaseNamespace string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, run(t, "helm", append([]string{"template", "fleetwright", chart, "--namespace", releaseNamespace, "--skip-tests"}, args...)...))
}

// kustomize returns the objects of a directory in config/.
func kustomize(t *testing.T, directory string) []*unstructured.Unstructured {
	t.Helper()
	return decode(t, run(t, "kubectl", "kustomize", "../config/"+directory))
}

// read returns the objects of a file in config/.
func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("../config/" + file)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(content))
}

func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// find returns the only object of a kind.
func find(t *testing.T, objects []*unstructured.Unstructured, kind string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		if found != nil {
			t.Fatalf("there are several objects of kind %s", kind)
		}
		found = object
	}
	if found == nil {
		t.Fatalf("there is no %s", kind)
	}
	return found
}
