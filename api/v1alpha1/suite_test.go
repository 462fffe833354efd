package v1alpha1_test

import (
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// hub is a client of an API server with the CRDs. It uses strict validation.
var hub client.Client

// lenientHub is a client without strict validation: the API server drops unknown fields.
var lenientHub client.Client

// admin is an administrator of the API server, for kubectl.
var admin *envtest.AuthenticatedUser

// serverIsOlder is true if the API server is older than the one whose messages the tests expect.
var serverIsOlder bool

func TestMain(m *testing.M) { os.Exit(withHub(m.Run)) }

// withHub runs the tests with a real API server, because only that evaluates the schema.
func withHub(run func() int) int {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS must name the directory of etcd and kube-apiserver: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
		return 1
	}
	environment := servertest.New("../../config/crd/bases")
	code, err := func() (int, error) {
		config, err := environment.Start()
		if err != nil {
			return 1, fmt.Errorf("start the API server: %w", err)
		}
		scheme := runtime.NewScheme()
		if err := v1alpha1.AddToScheme(scheme); err != nil {
			return 1, err
		}
		lenientHub, err = client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			return 1, err
		}
		hub = client.WithFieldValidation(lenientHub, metav1.FieldValidationStrict)
		admin, err = environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, config)
		if err != nil {
			return 1, err
		}
		if serverIsOlder, err = isOlder(config); err != nil {
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

func isOlder(config *rest.Config) (bool, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return false, err
	}
	server, err := discoverer.ServerVersion()
	if err != nil {
		return false, err
	}
	release, err := version.ParseGeneric(server.GitVersion)
	return err == nil && release.LessThan(version.MajorMinor(1, 36)), err
}

// newManifest returns an AppService like a user's manifest.
func newManifest(t *testing.T, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "AppService",
		"metadata":   map[string]any{"namespace": "default", "name": name},
		"spec":       parseYAML(t, spec),
	}}
}

func parseYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	var parsed map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// dryRunCreate returns the object that the API server would store.
func dryRunCreate(t *testing.T, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	t.Helper()
	answer := object.DeepCopy()
	err := hub.Create(t.Context(), answer, client.DryRunAll)
	return answer, err
}

// asYAML returns a value as YAML, in which 1 and 1.0 are the same.
func asYAML(t *testing.T, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
