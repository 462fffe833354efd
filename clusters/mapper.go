package clusters

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// NewMapper returns a mapper that knows every kind of a scheme, for [Options]. A member is never asked
// for its API, so one that lies or does not answer costs nothing here.
//
// It knows the scope of the kinds of Kubernetes and of Fleetwright. Other kinds are namespaced, except
// those in clusterScoped. The resource of a kind is its regular plural in lower case, as for most CRDs.
// A kind with another one, as indices of Index, is added to the mapper with AddSpecific.
func NewMapper(scheme *runtime.Scheme, clusterScoped ...schema.GroupKind) *meta.DefaultRESTMapper {
	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for gvk := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || !isObject(scheme, gvk) {
			continue
		}
		var scope meta.RESTScope = meta.RESTScopeNamespace
		if slices.Contains(clusterScoped, gvk.GroupKind()) || slices.Contains(clusterScopedKinds[gvk.Group], gvk.Kind) {
			scope = meta.RESTScopeRoot
		}
		plural, singular := meta.UnsafeGuessKindToResource(gvk)
		plural.Resource = regularPlural(singular.Resource, plural.Resource)
		if list := gvk.GroupVersion().WithKind(gvk.Kind + "List"); scheme.Recognizes(list) {
			mapper.AddSpecific(list, plural, singular, scope) // first: the resource is mapped to the last kind
		}
		mapper.AddSpecific(gvk, plural, singular, scope)
	}
	return mapper
}

// regularPlural returns the plural of a resource. It corrects the guess of apimachinery, which is gatewaies
// for a gateway, and meshs for a mesh.
func regularPlural(singular, guess string) string {
	for _, ending := range []string{"ay", "ey", "oy", "uy"} {
		if strings.HasSuffix(singular, ending) {
			return singular + "s"
		}
	}
	for _, ending := range []string{"x", "z", "ch", "sh"} {
		if strings.HasSuffix(singular, ending) {
			return singular + "es"
		}
	}
	return guess
}

// isObject reports whether a kind has metadata, which the kinds of lists and of options have not.
func isObject(scheme *runtime.Scheme, gvk schema.GroupVersionKind) bool {
	object, err := scheme.New(gvk)
	if err != nil {
		return false
	}
	_, has := object.(metav1.Object)
	return has
}

// clusterScopedKinds has, by group, the kinds of Kubernetes and of Fleetwright without a namespace.
var clusterScopedKinds = map[string][]string{
	"": {"ComponentStatus", "Namespace", "Node", "PersistentVolume"},
	"admissionregistration.k8s.io": {
		"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
	},
	"apiextensions.k8s.io":         {"CustomResourceDefinition"},
	"apiregistration.k8s.io":       {"APIService"},
	"authentication.k8s.io":        {"SelfSubjectReview", "TokenReview"},
	"authorization.k8s.io":         {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"},
	"certificates.k8s.io":          {"CertificateSigningRequest", "ClusterTrustBundle"},
	"flowcontrol.apiserver.k8s.io": {"FlowSchema", "PriorityLevelConfiguration"},
	"imagepolicy.k8s.io":           {"ImageReview"},
	"internal.apiserver.k8s.io":    {"StorageVersion"},
	"networking.k8s.io":            {"IPAddress", "IngressClass", "ServiceCIDR"},
	"node.k8s.io":                  {"RuntimeClass"},
	"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
	"resource.k8s.io":              {"DeviceClass", "DeviceTaintRule", "ResourcePoolStatusRequest", "ResourceSlice"},
	"scheduling.k8s.io":            {"PriorityClass"},
	"storage.k8s.io":               {"CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"},
	"storagemigration.k8s.io":      {"StorageVersionMigration"},
	v1alpha1.GroupVersion.Group:    {"MemberCluster"},
}
