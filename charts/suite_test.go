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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const namespace = "fleetwright-system"

var (
	hub        client.Client
	kubeconfig string // of an administrator of the hub
	home       string // of helm
)

// environment is an API server that has no CRDs of ours.
var environment = servertest.New()

func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }

func connect() (err error) {
	home = environment.ControlPlane.APIServer.CertDir
	kubeconfig = filepath.Join(home, "admin.kubeconfig")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		return err
	}
	hub, err = client.New(environment.Config, client.Options{Scheme: scheme.Scheme})
	return err
}

// tryRun runs one of our tools, and returns its output, or an error with all that it printed.
func tryRun(tool string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait.Patience) // not the context of t: it also runs in Cleanup
	defer cancel()
	path, err := filepath.Abs(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), tool))
	if err != nil {
		return nil, err
	}
	var out, stderr bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", tool, strings.Join(args, " "), err, out.Bytes(), stderr.Bytes())
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
