package v1alpha1_test

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// environment is a real API server with the CRDs, because only that evaluates the schema.
var environment = servertest.New("../../config/crd/bases")

// hub is a client of the API server. It uses strict validation.
var hub client.Client

// lenientHub is a client without strict validation: the API server drops unknown fields.
var lenientHub client.Client

// admin is an administrator of the API server, for kubectl.
var admin *envtest.AuthenticatedUser

// serverIsOlder is true if the API server is older than the one whose messages the tests expect.
var serverIsOlder bool

// scheme has the types of the hub that the tests and the examples use.
var scheme = runtime.NewScheme()

func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }

func connect() error {
	err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme))
	if err != nil {
		return err
	}
	if lenientHub, err = client.New(environment.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	hub = client.WithFieldValidation(lenientHub, metav1.FieldValidationStrict)
	if admin, err = environment.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, environment.Config); err != nil {
		return err
	}
	if serverIsOlder, err = isOlder(environment.Config); err != nil {
		return err
	}
	return prepareExamples(context.Background())
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
