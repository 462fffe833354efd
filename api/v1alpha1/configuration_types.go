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
	// On a member, the reference is replaced by the name of a copy.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name must be the name of a ConfigMap or Secret: lower-case letters, digits, '-' and '.', such as settings or web.settings"
	Name string `json:"name"`

	// From is the name of the object on the hub, in the namespace of the AppService.
	// It defaults to name.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="from must be the name of a ConfigMap or Secret: lower-case letters, digits, '-' and '.', such as settings or web.settings"
	From string `json:"from,omitempty"`

	// Update is Versioned or InPlace.
	// With Versioned, a change of the content is a new revision, and replaces pods.
	// With InPlace, a change reaches all clusters at once, and replaces no pod.
	// It defaults to InPlace for a Secret in imagePullSecrets, and to Versioned otherwise.
	// +optional
	Update ConfigurationUpdate `json:"update,omitempty"`

	// Optional is true if the AppService can run without the object.
	// It does not wait for an object that has never existed.
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
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="from must be the name of a ConfigMap or Secret: lower-case letters, digits, '-' and '.', such as settings or web.settings"
	From string `json:"from"`
}

// ConfigurationStatus describes a source: an object of the hub that travels.
// There is one for each kind and from, of the spec, its overrides and the revisions in use.
type ConfigurationStatus struct {
	// Kind is ConfigMap or Secret.
	Kind ConfigurationKind `json:"kind"`
	// From is the name of the source, in the namespace of the AppService.
	From string `json:"from"`
	// Snapshot is the name of the immutable object on the hub that has the content in use.
	// A name that ends in .absent stands for an optional source that has never existed.
	// It is empty before the first content.
	// +optional
	Snapshot string `json:"snapshot,omitempty"`
	// ObservedVersion is UID/resourceVersion of the source when it last had that content.
	// A source with this version is not read again.
	// +optional
	ObservedVersion string `json:"observedVersion,omitempty"`
	// Serial counts the contents of a source that is updated in place.
	// A member does not replace content by content with a lower serial.
	// +optional
	Serial int64 `json:"serial,omitempty"`
	// UpToDate is "up to date/clusters", for a source that is updated in place.
	// A cluster is up to date if it has the content of the snapshot.
	// +optional
	UpToDate string `json:"upToDate,omitempty"`
	// Reason is why the snapshot does not have the present content of the source.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason and names the next step. It never has content of the source.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Since is when the reason began. It is absent without a reason.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// ConditionConfigured is True when the snapshots have the present content of all sources in
// spec.configuration. It says nothing about the clusters. The condition is absent without
// spec.configuration.
const ConditionConfigured = "Configured"

// Reasons of the condition Configured, and of an item of status.configuration. The worst of them is
// the reason of the condition. [ReasonHubBehind] is one of them too. No reason changes what runs. If
// an item has no snapshot yet, a new revision waits for it, and Ready is False with the same reason.
const (
	// ReasonConfigured: the snapshots have the present content of all sources. No action is
	// required.
	ReasonConfigured = "Configured"
	// ReasonConfigurationMissing: the source does not exist. Create it, or remove it from
	// spec.configuration.
	ReasonConfigurationMissing = "ConfigurationMissing"
	// ReasonSourceDeleted: the source was deleted. The last snapshot stays in use, for new clusters
	// too. Create the source again, or remove it from spec.configuration to withdraw its content.
	ReasonSourceDeleted = "SourceDeleted"
	// ReasonNotPropagated: the source does not have the label fleetwright.dev/propagate=true. Its
	// owner can add it.
	ReasonNotPropagated = "NotPropagated"
	// ReasonTypeRefused: the source must not leave the hub: its type is not one of those that
	// travel, it has the kubeconfig of a member, or it is in Fleetwright's own namespace. A Secret
	// that is updated in place also must keep its type. The message says which.
	ReasonTypeRefused = "TypeRefused"
	// ReasonTooLarge: the AppService would have more than 2 MiB of configuration, or more than 64
	// sources. Make them smaller, or divide the AppService.
	ReasonTooLarge = "TooLarge"
	// ReasonConfigurationForbidden: the operator has no permission for this kind in the namespace.
	// Grant the permissions in config/propagation.
	ReasonConfigurationForbidden = "ConfigurationForbidden"
	// ReasonPropagationDisabled: the flag --propagate-from of the operator does not name the
	// namespace.
	ReasonPropagationDisabled = "PropagationDisabled"
	// ReasonSnapshotMissing: a snapshot in use was deleted, and the source does not have its content
	// any more. The clusters keep what they run, and nothing rolls back to it.
	ReasonSnapshotMissing = "SnapshotMissing"
	// ReasonNameTaken: an object with the name of the snapshot exists, and it is no snapshot of this
	// content. It is not changed. Delete it.
	ReasonNameTaken = "NameTaken"
	// ReasonConfigurationChanged: the source has changed, and is read when no change has followed for
	// a second. It is a reason of Reconciling too. Wait.
	ReasonConfigurationChanged = "ConfigurationChanged"
	// ReasonConfigurationChangesOften: the configuration has changed too often. Its content is used
	// once a minute. Find out what changes it.
	ReasonConfigurationChangesOften = "ConfigurationChangesOften"
)

// ReasonConfigurationRefused: the member refused the copy of a ConfigMap or Secret (forbidden,
// quota, admission). The cluster keeps its Deployment. Fleetwright retries within minutes.
const ReasonConfigurationRefused = "ConfigurationRefused"
