package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion is the API group and version of this package.
	GroupVersion = schema.GroupVersion{Group: "fleetwright.dev", Version: "v1alpha1"}

	// SchemeGroupVersion is [GroupVersion], under the name that generated clients use.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder registers the types of this package. A client adds it to a SchemeBuilder of its own.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
)

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error { return SchemeBuilder.AddToScheme(scheme) }

// Resource returns a resource of this API group, for errors about it. Generated listers use it.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&AppService{}, &AppServiceList{},
		&AppServiceSlice{}, &AppServiceSliceList{},
		&MemberCluster{}, &MemberClusterList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
