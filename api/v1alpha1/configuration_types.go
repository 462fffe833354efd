package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConfigurationKind is the kind of an object that travels from the hub to the members.
// +kubebuilder:validation:Enum=ConfigMap;Secret
type ConfigurationKind string

// The kinds of objects that travel.
const (
	ConfigurationConfigMap ConfigurationKind = "ConfigMap"
	ConfigurationSecret    ConfigurationKind = "Secret"
)

// ConfigurationUpdate defines how a change of the content reaches the clusters.
// +kubebuilder:validation:Enum=Versioned;InPlace
type ConfigurationUpdate string

const (
	// ConfigurationVersioned: a change is a new revision. It is rolled out like an edit of the
	// image, and replaces pods.
	ConfigurationVersioned ConfigurationUpdate = "Versioned"
	// ConfigurationInPlace: a change reaches all clusters at once, and replaces no pod. Volumes
	// follow within the kubelet's minute; environment variables and subPath mounts only in new pods.
	ConfigurationInPlace ConfigurationUpdate = "InPlace"
)

// ConfigurationSource names a ConfigMap or a Secret of the hub that travels with the AppService.
// The owner of the object agrees to it with the label fleetwright.dev/propagate=true.
// Objects that no ConfigurationSource names stay the member's own.
type ConfigurationSource struct {
	// Kind is ConfigMap or Secret.
	// +required
	Kind ConfigurationKind `json:"kind"`

	// Name is the name by which the pod template refers to the object.
	// On a member, the name of a copy replaces it.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+((-+|[.])[a-z0-9]+)*$')",message="name must have only lower-case letters, digits, '-' and '.', such as settings"
	Name string `json:"name"`

	// From is the name of the object on the hub, in the namespace of the AppService.
	// It defaults to name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+((-+|[.])[a-z0-9]+)*$')",message="from must have only lower-case letters, digits, '-' and '.', such as settings"
	From string `json:"from,omitempty"`

	// Update is Versioned or InPlace.
	// Versioned: a change is a new revision, and replaces pods.
	// InPlace: a change reaches all clusters at once, and replaces no pod.
	// It is InPlace by default for a Secret in imagePullSecrets, otherwise Versioned.
	// +optional
	Update ConfigurationUpdate `json:"update,omitempty"`

	// Optional is true if the AppService does not wait for an object that has never existed.
	// +optional
	Optional bool `json:"optional,omitempty"`
}

// ConfigurationOverride takes the content of a source from another object of the hub.
type ConfigurationOverride struct {
	// Kind is the kind of an item of spec.configuration.
	// +required
	Kind ConfigurationKind `json:"kind"`

	// Name is the name of that item.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// From is the name of the object on the hub whose content replaces that of the item.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+((-+|[.])[a-z0-9]+)*$')",message="from must have only lower-case letters, digits, '-' and '.', such as settings"
	From string `json:"from"`
}

// ConfigurationStatus describes a source: an object of the hub that travels.
// There is one for each kind and from, of the spec, its overrides and the revisions in use.
type ConfigurationStatus struct {
	// Kind is ConfigMap or Secret.
	Kind ConfigurationKind `json:"kind"`
	// From is the name of the source, in the namespace of the AppService.
	From string `json:"from"`
	// Snapshot is the name of the immutable object on the hub with the content in use.
	// One that ends in .absent stands for an optional source that has never existed.
	// +optional
	Snapshot string `json:"snapshot,omitempty"`
	// ObservedVersion is UID/resourceVersion of the source when it last had that content.
	// +optional
	ObservedVersion string `json:"observedVersion,omitempty"`
	// Serial counts the contents of a source that is updated in place.
	// +optional
	Serial int64 `json:"serial,omitempty"`
	// UpToDate is "clusters with this content/clusters", for a source that is updated in place.
	// +optional
	UpToDate string `json:"upToDate,omitempty"`
	// Reason is why the snapshot does not have the present content of the source.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason and names the next step.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Since is when the reason began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}
