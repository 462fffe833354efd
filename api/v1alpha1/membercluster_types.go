package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MemberCluster is a cluster that AppServices can run on.
// Fleetwright creates it from a kubeconfig Secret and copies the Secret's labels to it, but not the labels of tools (see docs/kubeconfig.md). Its spec belongs to the administrator.
// It outlives its Secret: see status.secretMissingSince.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=memberclusters,singular=membercluster,shortName=mc,scope=Cluster,categories={fleet}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Credentials",type=string,JSONPath=`.status.conditions[?(@.type=="CredentialsValid")].reason`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.metadata.labels.topology\.kubernetes\.io/region`
// +kubebuilder:printcolumn:name="Apps",type=integer,JSONPath=`.status.appServices`,description="AppServices that have an entry for the cluster"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Unschedulable",type=boolean,priority=1,JSONPath=`.spec.unschedulable`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.credentialsExpirationTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type MemberCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the administrator's: Fleetwright never writes it.
	// +optional
	Spec MemberClusterSpec `json:"spec,omitzero"`

	// Status is what is known of the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MemberClusterStatus `json:"status,omitzero"`
}

// MemberClusterSpec is what an administrator says of a member.
type MemberClusterSpec struct {
	// Unschedulable keeps new AppServices away. Those already there stay and are kept up to date.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`

	// Taints keep away AppServices whose placement does not tolerate them.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`
}

// Taint of a member keeps away AppServices whose placement does not tolerate it.
type Taint struct {
	// Key of the taint, as of a label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Value of the taint, as of a label.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule, which keeps new AppServices away, or NoExecute, which also removes those that are there.
	// +required
	Effect TaintEffect `json:"effect"`
}

// TaintEffect says what a taint does to an AppService that does not tolerate it.
// +kubebuilder:validation:Enum=NoSchedule;NoExecute
type TaintEffect string

const (
	// TaintNoSchedule keeps new AppServices away. Those already there stay.
	TaintNoSchedule TaintEffect = "NoSchedule"
	// TaintNoExecute keeps new AppServices away, and removes those that are there.
	TaintNoExecute TaintEffect = "NoExecute"
)

// MemberClusterStatus is what is known of a member.
type MemberClusterStatus struct {
	// ObservedGeneration is the generation that the conditions speak of; -1 before the first look.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, CredentialsValid and AllocatableKnown.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ClusterID is the UID of the cluster's kube-system namespace: the identity of the cluster itself.
	// +optional
	ClusterID types.UID `json:"clusterID,omitempty"`

	// Version is the cluster's Kubernetes version.
	// +optional
	Version string `json:"version,omitempty"`

	// Allocatable is what the cluster's nodes that take pods can hold, all together.
	// When the credentials may not list nodes it is as last known, or absent; condition AllocatableKnown says so.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// CredentialsExpirationTime is when the credentials in use end, by their own word; absent when they do not say.
	// +optional
	CredentialsExpirationTime *metav1.Time `json:"credentialsExpirationTime,omitempty"`

	// SecretMissingSince is when the Secret was first found missing: it was deleted, or it is no longer selected, or it holds another member. It is absent while there is a Secret.
	// The cluster is disengaged meanwhile, and its workloads keep running. When the Secret returns, the MemberCluster continues with its spec, its labels, its tombstones and its identity.
	// Fleetwright deletes the MemberCluster 10 minutes after this time, but only if its spec and status.abandoned are empty and nobody else has set labels or annotations on it.
	// +optional
	SecretMissingSince *metav1.Time `json:"secretMissingSince,omitempty"`

	// AppServices is the number of AppServices that have an entry for the cluster in their status.
	// +optional
	AppServices int32 `json:"appServices,omitempty"`

	// Abandoned are the AppServices that were let go of while the cluster could not be reached, by their annotation fleetwright.dev/abandon. When the cluster is back, the objects of those that were deleted are removed.
	// +optional
	// +listType=map
	// +listMapKey=uid
	Abandoned []AbandonedAppService `json:"abandoned,omitempty"`
}

// AbandonedAppService is one whose objects may still be on a cluster that could not be reached when they were to be removed.
type AbandonedAppService struct {
	// Namespace of the AppService and of its objects.
	Namespace string `json:"namespace"`
	// Name of the AppService and of its objects.
	Name string `json:"name"`
	// UID of the AppService: objects of another one of that name are not removed.
	UID types.UID `json:"uid"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []MemberCluster `json:"items"`
}

// IsAbandoned reports whether the member has a tombstone of the AppService with that UID. A nil member has none.
func (m *MemberCluster) IsAbandoned(app types.UID) bool {
	return m != nil && slices.ContainsFunc(m.Status.Abandoned, func(a AbandonedAppService) bool { return a.UID == app })
}

// IsReady tells whether the member is connected and answers.
func (m *MemberCluster) IsReady() bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, ConditionReady)
}

// HasSecret reports whether a Secret holds the member's credentials, or nothing is known yet. A MemberCluster without
// its Secret runs no new workloads, and its entries in AppServices are Detached.
func (m *MemberCluster) HasSecret() bool { return m.Status.SecretMissingSince == nil }
