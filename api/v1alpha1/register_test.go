package v1alpha1_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestSchemeBuilder_registers_the_kinds_that_AddToScheme_registers(t *testing.T) {
	builder := slices.Concat(runtime.SchemeBuilder{}, v1alpha1.SchemeBuilder) // as a client adds it to its own
	for title, register := range map[string]func(*runtime.Scheme) error{"AddToScheme": v1alpha1.AddToScheme, "SchemeBuilder": builder.AddToScheme} {
		scheme := runtime.NewScheme()
		if err := register(scheme); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"AppService", "AppServiceList", "AppServiceSlice", "AppServiceSliceList", "MemberCluster", "MemberClusterList", "ListOptions"} {
			if !scheme.Recognizes(v1alpha1.GroupVersion.WithKind(kind)) {
				t.Errorf("%s does not register %s", title, kind)
			}
		}
	}
}

// Generated clients and listers need these two names.
func TestNames_of_generated_clients(t *testing.T) {
	if got := v1alpha1.Resource("appservices").String(); got != "appservices.fleetwright.dev" {
		t.Errorf("the resource is %s", got)
	}
	if v1alpha1.SchemeGroupVersion != v1alpha1.GroupVersion {
		t.Errorf("SchemeGroupVersion is %s", v1alpha1.SchemeGroupVersion)
	}
}
