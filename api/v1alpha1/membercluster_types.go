package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// MemberCluster is a cluster that AppServices can run on.
// Fleetwright creates it from a kubeconfig Secret and copies the labels of the Secret.
// It does not copy the labels of tools (see docs/kubeconfig.md).
// The spec belongs to the administrator.
// A MemberCluster outlives its Secret: see status.secretMissingSince.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=memberclusters,singular=membercluster,shortName=mc,scope=Cluster,categories={fleet}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Credentials",type=string,JSONPath=`.status.conditions[?(@.type=="CredentialsValid")].reason`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.metadata.labels.topology\.kubernetes\.io/region`
// +kubebuilder:printcolumn:name="Apps",type=integer,JSONPath=`.status.appServices`,description="AppServices that have an entry for the cluster"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Ready",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Unschedulable",type=boolean,priority=1,JSONPath=`.spec.unschedulable`
// +kubebuilder:printcolumn:name="Expires",type=string,priority=1,JSONPath=`.status.credentialsExpirationTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type MemberCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec belongs to the administrator. Fleetwright never writes it.
	// +optional
	Spec MemberClusterSpec `json:"spec,omitzero"`

	// Status is the observed state of the cluster.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MemberClusterStatus `json:"status,omitzero"`
}

// MemberClusterSpec is the administrator's configuration of a member.
type MemberClusterSpec struct {
	// Unschedulable prevents new AppServices from being placed on the cluster.
	// AppServices that already run there stay and are kept up to date.
	// +optional
	Unschedulable bool `json:"unschedulable,omitempty"`

	// Taints repel AppServices whose placement does not tolerate them.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MaxItems=64
	Taints []Taint `json:"taints,omitempty"`
}

// Taint of a member repels AppServices whose placement does not tolerate it.
type Taint struct {
	// Key of the taint. It has the format of a label key.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Value of the taint. It has the format of a label value.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule or NoExecute.
	// NoSchedule repels new AppServices.
	// NoExecute also removes AppServices that already run on the cluster.
	// +required
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is the effect of a taint on an AppService that does not tolerate it.
// +kubebuilder:validation:Enum=NoSchedule;NoExecute
type TaintEffect string

const (
	// TaintNoSchedule repels new AppServices. AppServices that already run on the cluster stay.
	TaintNoSchedule TaintEffect = "NoSchedule"
	// TaintNoExecute repels new AppServices, and removes AppServices that already run on the
	// cluster.
	TaintNoExecute TaintEffect = "NoExecute"
)

// MemberClusterStatus is the observed state of a member.
type MemberClusterStatus struct {
	// ObservedGeneration is the generation that the conditions describe.
	// It is -1 before the first reconciliation.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, CredentialsValid and AllocatableKnown.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ClusterID is the UID of the cluster's kube-system namespace, which identifies the cluster.
	// +optional
	ClusterID types.UID `json:"clusterID,omitempty"`

	// Version is the cluster's Kubernetes version.
	// +optional
	Version string `json:"version,omitempty"`

	// Allocatable is the sum of the allocatable resources of the cluster's schedulable nodes.
	// If the credentials may not list nodes, it is the last known value, or absent.
	// See condition AllocatableKnown.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// CredentialsExpirationTime is the expiration time that the credentials in use state.
	// It is absent if they state none.
	// +optional
	CredentialsExpirationTime *metav1.Time `json:"credentialsExpirationTime,omitempty"`

	// SecretMissingSince is the time since which the Secret is missing.
	// A Secret is missing if it was deleted, is no longer selected, or belongs to another member.
	// The field is absent while the Secret exists.
	// While the Secret is missing, the cluster is disengaged and its workloads keep running.
	// Meanwhile, the MemberCluster keeps its spec, labels, tombstones and identity.
	// Fleetwright deletes the MemberCluster 10 minutes after this time if it holds no settings.
	// It holds settings if its spec or status.abandoned is not empty.
	// Labels or annotations that others have set on it are settings too.
	// +optional
	SecretMissingSince *metav1.Time `json:"secretMissingSince,omitempty"`

	// AppServices is the number of AppServices with an entry for the cluster in status.clusters.
	// +optional
	AppServices int32 `json:"appServices,omitempty"`

	// Abandoned are the tombstones of AppServices that no longer wait for the cluster.
	// The cluster was unreachable when they were released, for example by fleetwright.dev/abandon.
	// When the cluster is reachable again, the objects of deleted AppServices are deleted.
	// +optional
	// +listType=map
	// +listMapKey=uid
	Abandoned []AbandonedAppService `json:"abandoned,omitempty"`
}

// AbandonedAppService is the tombstone of an AppService on a cluster.
// Objects of the AppService may still exist there, because the cluster was unreachable.
type AbandonedAppService struct {
	// Namespace of the AppService and of its objects.
	Namespace string `json:"namespace"`
	// Name of the AppService and of its objects.
	Name string `json:"name"`
	// UID of the AppService. Objects of another AppService with the same name are not deleted.
	UID types.UID `json:"uid"`
	// Placement is the number of the placement that ended.
	// Objects with a higher number were placed later, and are not deleted.
	// It is absent if all objects are to be deleted, because the AppService was being deleted.
	// +optional
	Placement *int64 `json:"placement,omitempty"`
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

// IsAbandoned reports whether the member has a tombstone of the AppService with that UID.
// A nil member has none.
func (m *MemberCluster) IsAbandoned(app types.UID) bool {
	return m != nil && slices.ContainsFunc(m.Status.Abandoned, func(a AbandonedAppService) bool { return a.UID == app })
}

// IsReady reports whether the member is connected and responds.
func (m *MemberCluster) IsReady() bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, ConditionReady)
}

// HasSecret reports whether the member's Secret exists, or was not looked up yet.
// A MemberCluster without its Secret gets no new workloads, and its entries in AppServices are
// Detached.
func (m *MemberCluster) HasSecret() bool { return m.Status.SecretMissingSince == nil }
