package clusters_test

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/fleetwright/fleetwright/clusters"
)

// The mapper of a scheme says of every kind what a real API server says of it.
func TestNewMapper_agrees_with_an_API_server(t *testing.T) {
	t.Parallel()
	client, err := discovery.NewDiscoveryClientForConfig(sharedEnv(t).hub.environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	_, served, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	mapper, compared := clusters.NewMapper(testScheme), 0
	for _, list := range served {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			gvk := version.WithKind(resource.Kind)
			if strings.Contains(resource.Name, "/") || !testScheme.Recognizes(gvk) {
				continue // a subresource, or a kind that the scheme lacks
			}
			mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			if err != nil {
				t.Errorf("%s: %v", gvk, err)
				continue
			}
			compared++
			if kinds, err := mapper.KindsFor(mapping.Resource); err != nil || !slices.Contains(kinds, gvk) {
				t.Errorf("%s is %s (%v), want %s", mapping.Resource, kinds, err, gvk)
			}
			if list := version.WithKind(resource.Kind + "List"); testScheme.Recognizes(list) {
				// A cache of some namespaces asks for it.
				if of, err := mapper.RESTMapping(list.GroupKind(), list.Version); err != nil || of.Scope != mapping.Scope {
					t.Errorf("%s: %v (%v)", list, of, err)
				}
			}
			if namespaced := mapping.Scope.Name() == meta.RESTScopeNameNamespace; mapping.Resource.Resource != resource.Name || namespaced != resource.Namespaced {
				t.Errorf("%s is %s (namespaced: %v), want %s (namespaced: %v)", gvk, mapping.Resource.Resource, namespaced, resource.Name, resource.Namespaced)
			}
		}
	}
	if compared < 60 {
		t.Errorf("compared %d kinds only", compared)
	}
}

// The API server above does not serve alpha versions.
func TestNewMapper_knows_cluster_scoped_kinds_of_alpha_versions(t *testing.T) {
	mapper := clusters.NewMapper(testScheme)
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "internal.apiserver.k8s.io", Version: "v1alpha1", Kind: "StorageVersion"},
		{Group: "resource.k8s.io", Version: "v1alpha3", Kind: "ResourcePoolStatusRequest"},
	} {
		if got, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version); err != nil || got.Scope.Name() != meta.RESTScopeNameRoot {
			t.Errorf("%s: got %+v (%v)", gvk, got, err)
		}
	}
}

// The plurals of apimachinery are wrong for some of these kinds.
func TestNewMapper_makes_regular_plurals(t *testing.T) {
	group := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme := runtime.NewScheme()
	plurals := map[string]string{
		"Gateway": "gateways", "HTTPRoute": "httproutes", "Mesh": "meshes", "Sandbox": "sandboxes", "Batch": "batches",
		"GatewayClass": "gatewayclasses", "Proxy": "proxies", "BackendTLSPolicy": "backendtlspolicies", "VaultKey": "vaultkeys",
	}
	for kind := range plurals {
		scheme.AddKnownTypeWithName(group.WithKind(kind), &appsv1.Deployment{}) // any type with metadata
	}
	mapper := clusters.NewMapper(scheme)
	for kind, want := range plurals {
		got, err := mapper.RESTMapping(schema.GroupKind{Group: group.Group, Kind: kind})
		if err != nil || got.Resource.Resource != want {
			t.Errorf("%s: got %+v (%v), want %s", kind, got, err, want)
		}
	}
}

func TestNewMapper_knows_only_kinds_of_the_scheme(t *testing.T) {
	group := schema.GroupVersion{Group: "example.com", Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(group.WithKind("Site"), &appsv1.Deployment{}) // any type with metadata
	scheme.AddKnownTypeWithName(group.WithKind("Rack"), &appsv1.Deployment{})
	metav1.AddToGroupVersion(scheme, group)
	mapper := clusters.NewMapper(scheme, schema.GroupKind{Group: group.Group, Kind: "Site"})
	for kind, want := range map[string]meta.RESTScopeName{"Site": meta.RESTScopeNameRoot, "Rack": meta.RESTScopeNameNamespace} {
		if got, err := mapper.RESTMapping(schema.GroupKind{Group: group.Group, Kind: kind}); err != nil || got.Scope.Name() != want {
			t.Errorf("%s: got %+v (%v), want scope %s", kind, got, err, want)
		}
	}
	for _, kind := range []string{"ListOptions", "WatchEvent", "Pod"} {
		if got, err := mapper.RESTMapping(schema.GroupKind{Group: group.Group, Kind: kind}); !meta.IsNoMatchError(err) {
			t.Errorf("%s: got %+v (%v), want no mapping", kind, got, err)
		}
	}
}
