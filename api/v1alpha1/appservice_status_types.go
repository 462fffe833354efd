package v1alpha1

import (
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AppServiceStatus is the state of the AppService on all clusters.
// The entries of clusters are also the plan: an entry is written before anything is created on its cluster, and removed after the deletion of everything there is confirmed.
type AppServiceStatus struct {
	// ObservedGeneration is the generation that the status describes.
	// It is -1 before the first reconciliation.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Placed and, while they are true, Reconciling, Stalled and Suspended.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Replicas is the number of pods in the unit of spec.replicas.
	// If replicaPolicy divides the replicas, it is the sum over the clusters of the plan.
	// Otherwise it is the mean over the clusters, rounded up.
	// +optional
	Replicas int32 `json:"replicas"`

	// Selector is the label selector of the pods on every member, for the scale subresource. Pods of a Deployment that was adopted lack its label where the Deployment's own selector was kept.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Summary counts the entries of clusters, and sums up their replicas.
	// +optional
	Summary ClusterSummary `json:"summary,omitzero"`

	// Placement explains why clusters are not in the plan.
	// +optional
	Placement PlacementStatus `json:"placement,omitzero"`

	// PlannedSpecs are the specs that this hub has planned, newest first, the last 64.
	// An object on a member that was applied for another spec since the oldest of them is evidence that the hub was restored from a backup.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PlannedSpecs []PlannedSpec `json:"plannedSpecs,omitempty"`

	// AcceptedStamps lists the stamps that the annotation fleetwright.dev/accept-hub accepts, if the annotation contains a digest.
	// The list applies as long as the annotation contains the digest.
	// +optional
	// +listType=atomic
	AcceptedStamps []string `json:"acceptedStamps,omitempty"`

	// Removals counts recent removals, because they limit further removals.
	// +optional
	Removals RemovalsStatus `json:"removals,omitzero"`

	// Clusters has an entry for each cluster that runs this AppService, is to run it, or may still have objects of it.
	// The entries are sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []ClusterStatus `json:"clusters,omitempty"`
}

// PlannedSpec identifies a spec that was planned.
type PlannedSpec struct {
	// Generation is the generation of the AppService that had the spec.
	Generation int64 `json:"generation"`
	// Hash is a hash of the spec. It is empty where the history begins with a generation that an older version planned.
	Hash string `json:"hash"`
}

// ClusterSummary counts the entries of status.clusters, and sums up their replicas.
type ClusterSummary struct {
	// Clusters is the number of clusters in the plan: all entries except those that are Removing or Detached.
	Clusters int32 `json:"clusters"`
	// Ready is the number of these clusters that are Ready at the current generation.
	Ready int32 `json:"ready"`
	// Display is "ready/clusters", for the printer column.
	Display string `json:"display"`
	// Replicas is the number of desired pods on all clusters of the plan.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of ready pods on all clusters that can be observed, including clusters that are Removing.
	ReadyReplicas int32 `json:"readyReplicas"`
	// LastKnownReadyReplicas is the last known number of ready pods on clusters that cannot be observed.
	// These clusters are Unknown, Detached, or unreachable while Removing.
	// ReadyReplicas does not count these pods.
	// +optional
	LastKnownReadyReplicas int32 `json:"lastKnownReadyReplicas,omitempty"`
	// Progressing is the number of entries that are Pending or Progressing.
	// +optional
	Progressing int32 `json:"progressing,omitempty"`
	// Failed is the number of entries that are Failed.
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Unknown is the number of entries that are Unknown.
	// +optional
	Unknown int32 `json:"unknown,omitempty"`
	// Detached is the number of entries that are Detached.
	// +optional
	Detached int32 `json:"detached,omitempty"`
	// Removing is the number of entries that are Removing.
	// +optional
	Removing int32 `json:"removing,omitempty"`
}

// PlacementStatus explains why clusters are not in the plan.
type PlacementStatus struct {
	// SpecHash is a hash of the spec.placement by which the clusters were chosen.
	// Only an edit of spec.placement shows the intent to remove the AppService from a cluster.
	// +optional
	SpecHash string `json:"specHash,omitempty"`
	// Excluded has an entry for each reason, sorted by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	Excluded []ExcludedClusters `json:"excluded,omitempty"`
}

// RemovalsStatus counts the removals that have started: those that a user approved, and those without an edit.
type RemovalsStatus struct {
	// Accepted is how many removals the annotation fleetwright.dev/accept-removals has allowed at AcceptedGeneration.
	// A new generation begins at none.
	// +optional
	Accepted int32 `json:"accepted,omitempty"`
	// AcceptedGeneration is the generation of the AppService that Accepted is about.
	// +optional
	AcceptedGeneration int64 `json:"acceptedGeneration,omitempty"`
	// WithoutEdit are the removals of the last hour that followed from no edit and that nobody accepted.
	// Further ones wait when they are too many.
	// +optional
	// +listType=atomic
	WithoutEdit []RemovalCount `json:"withoutEdit,omitempty"`
}

// RemovalCount counts the removals that began within five minutes.
type RemovalCount struct {
	// StartTime is when the five minutes began.
	StartTime metav1.Time `json:"startTime"`
	// Count is the number of removals that started.
	Count int32 `json:"count"`
}

// ExcludedClusters are the clusters that are excluded from the plan for one reason.
type ExcludedClusters struct {
	// Reason is one of the documented reasons, such as SelectorMismatch.
	Reason string `json:"reason"`
	// Count is the number of clusters with this reason.
	Count int32 `json:"count"`
	// Examples are the first three of these clusters by name.
	// +listType=atomic
	Examples []string `json:"examples"`
	// Requirements are the requirements that these clusters do not meet, such as region=eu.
	// It lists at most three, the most frequent first.
	// +optional
	// +listType=atomic
	Requirements []string `json:"requirements,omitempty"`
}

// ClusterPhase is the state of an AppService on one cluster.
// +kubebuilder:validation:Enum=Pending;Progressing;Ready;Failed;Unknown;Removing;Detached
type ClusterPhase string

const (
	// ClusterPending: the cluster is in the plan, and the workload was not observed yet.
	ClusterPending ClusterPhase = "Pending"
	// ClusterProgressing: the cluster is rolling out the plan, or its removal is pending.
	ClusterProgressing ClusterPhase = "Progressing"
	// ClusterReady: the cluster runs the plan, and all replicas are available.
	ClusterReady ClusterPhase = "Ready"
	// ClusterFailed: the workload needs intervention. The entry has the reason.
	ClusterFailed ClusterPhase = "Failed"
	// ClusterUnknown: the cluster cannot be observed. The entry keeps the last known state.
	ClusterUnknown ClusterPhase = "Unknown"
	// ClusterRemoving: the cluster is no longer in the plan. Its objects are being deleted.
	ClusterRemoving ClusterPhase = "Removing"
	// ClusterDetached: the Secret of the cluster is missing.
	// The workload keeps running, and the entry keeps the last known state.
	ClusterDetached ClusterPhase = "Detached"
)

// TransitionType is what is under way between an AppService and a cluster.
// +kubebuilder:validation:Enum=ScaleDownPending;RemovalPending;RemovalNeedsApproval;Removing
type TransitionType string

const (
	// TransitionScaleDownPending: the cluster keeps more replicas than its share until others are ready elsewhere.
	TransitionScaleDownPending TransitionType = "ScaleDownPending"
	// TransitionRemovalPending: the cluster is no longer in the plan, and its removal waits for clusters to become ready, or for its turn.
	TransitionRemovalPending TransitionType = "RemovalPending"
	// TransitionRemovalNeedsApproval: the cluster is no longer in the plan, and keeps the workload until somebody accepts its removal.
	TransitionRemovalNeedsApproval TransitionType = "RemovalNeedsApproval"
	// TransitionRemoving: the workload is being removed from the cluster.
	TransitionRemoving TransitionType = "Removing"
)

// TransitionCause is why a cluster left the plan, or is to run fewer replicas.
// +kubebuilder:validation:Enum=Edit;Deletion;Drift;Displaced;Recovered;Rejoined
type TransitionCause string

const (
	// CauseEdit: spec.placement was edited, so that it leaves the cluster; or the AppService was, so that it runs fewer replicas there.
	CauseEdit TransitionCause = "Edit"
	// CauseDeletion: the AppService is being deleted.
	CauseDeletion TransitionCause = "Deletion"
	// CauseDrift: clusters changed, such as their labels or taints, and the AppService was not edited.
	CauseDrift TransitionCause = "Drift"
	// CauseDisplaced: spec.placement.limit is reached by other clusters, such as one that has returned.
	CauseDisplaced TransitionCause = "Displaced"
	// CauseRecovered: the workload was found on a cluster that had no entry, as after a restore.
	CauseRecovered TransitionCause = "Recovered"
	// CauseRejoined: the cluster had left the fleet and joined it again.
	CauseRejoined TransitionCause = "Rejoined"
)

// ClusterTransition is what is under way between an AppService and a cluster, and why.
// The planner remembers it from one decision to the next.
type ClusterTransition struct {
	// Type is ScaleDownPending, RemovalPending, RemovalNeedsApproval or Removing.
	Type TransitionType `json:"type"`
	// Cause is why: Edit, Deletion, Drift, Displaced, Recovered or Rejoined.
	Cause TransitionCause `json:"cause"`
	// Accepted reports that the annotation fleetwright.dev/accept-removals covers the removal.
	// +optional
	Accepted bool `json:"accepted,omitempty"`
}

// ClusterStatus is the entry of one cluster: its desired state, its transition, and its observed state.
// Everything that the planner remembers about a cluster is a field; nothing is read back from a reason or a message.
//
// +structType=atomic
type ClusterStatus struct {
	// Name is that of the MemberCluster.
	Name string `json:"name"`

	// Desired: what the cluster is to run.

	// Generation is the generation of the AppService that the cluster is to run.
	// An entry that leaves the plan keeps its generation.
	// It is 0 if objects were found on a cluster without an entry.
	Generation int64 `json:"generation"`
	// Replicas is how many pods the cluster is to run, or to begin with where an autoscaler scales them.
	Replicas int32 `json:"replicas"`
	// MinReplicas is the least that the cluster's HorizontalPodAutoscaler scales to; absent without spec.autoscaling.
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is the most that the cluster's HorizontalPodAutoscaler scales to; absent without spec.autoscaling.
	// +optional
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
	// Weight is the CPU of the cluster, in thousandths, that its share was computed from; absent unless replicaPolicy.weights is Allocatable.
	// It follows the cluster when that changes by a tenth or more.
	// +optional
	Weight int64 `json:"weight,omitempty"`

	// Transition: what is under way on the cluster.

	// Surging reports that the AppService is new on the cluster, or that its share was raised, and that not all of that is ready yet.
	// Removals and scale-downs on other clusters wait for it. It may be so during a transition too.
	// +optional
	Surging bool `json:"surging,omitempty"`
	// Transition is what is under way on the cluster; absent while the cluster is as planned.
	// +optional
	Transition ClusterTransition `json:"transition,omitzero"`

	// Observed: what was seen on the cluster.

	// Phase is the state there: Pending, Progressing, Ready, Failed, Unknown, Removing or Detached.
	Phase ClusterPhase `json:"phase"`
	// LastTransitionTime is when the phase last changed.
	// While the phase is Unknown, the observed state is as old as this time.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// LastKnownPhase is the phase when the cluster was observed last; present only while it cannot be observed.
	// +optional
	LastKnownPhase ClusterPhase `json:"lastKnownPhase,omitempty"`
	// ObservedGeneration is the newest generation that the cluster is known to have taken on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyReplicas is how many pods of the cluster are ready, as last known.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// UnreadyReplicas is how many pods of the cluster are not ready, as last known.
	// +optional
	UnreadyReplicas int32 `json:"unreadyReplicas,omitempty"`
	// Reason is why the phase is not Ready, in one word of those that docs/operations.md explains.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says more, for people.
	// The first 50 entries of a reason, by name, have one, as long as all of them together stay below 256 KiB.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// HubBehind says that the cluster holds what this hub has never planned, so the hub is behind, as after a restore.
	// It stays until somebody accepts it, also when the AppService is edited.
	// While any cluster has it, nothing of the AppService is created, changed or deleted on any cluster.
	// +optional
	HubBehind *HubBehind `json:"hubBehind,omitempty"`
	// Addresses are where a Service of type LoadBalancer is reached from outside: IPs or host names, sorted, the first eight, as last known.
	// They are left out, in order of name, where those of all clusters together would exceed 256 KiB.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
}

// CurrentReplicas returns how many pods the cluster has, as last known.
func (c *ClusterStatus) CurrentReplicas() int32 { return c.ReadyReplicas + c.UnreadyReplicas }

// HubBehind describes the objects on a cluster that are newer than the hub.
type HubBehind struct {
	// Kind is the kind of the newest of these objects.
	Kind string `json:"kind"`
	// Generation is the generation of the AppService that the newest of these objects was applied for.
	Generation int64 `json:"generation"`
	// UID is that of the AppService that the object was applied for, where it is another one of the same name that was created later.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Accept is the value of the annotation fleetwright.dev/accept-hub that accepts it: the objects are then overwritten with what the hub has.
	Accept string `json:"accept"`
}

// IsHubBehind reports whether any cluster has objects that this hub never planned.
func (s *AppServiceStatus) IsHubBehind() bool {
	return slices.ContainsFunc(s.Clusters, func(c ClusterStatus) bool { return c.HubBehind != nil })
}

// Cluster returns the entry of the named cluster, or nil. The entries must be sorted by name, as the
// operator writes them.
func (s *AppServiceStatus) Cluster(name string) *ClusterStatus {
	i := sort.Search(len(s.Clusters), func(i int) bool { return s.Clusters[i].Name >= name })
	if i == len(s.Clusters) || s.Clusters[i].Name != name {
		return nil
	}
	return &s.Clusters[i]
}

// SortClusters sorts the entries by name.
func (s *AppServiceStatus) SortClusters() {
	slices.SortFunc(s.Clusters, func(a, b ClusterStatus) int { return strings.Compare(a.Name, b.Name) })
}

// HasSortedClusters reports whether the entries are sorted by name.
func (s *AppServiceStatus) HasSortedClusters() bool {
	return slices.IsSortedFunc(s.Clusters, func(a, b ClusterStatus) int { return strings.Compare(a.Name, b.Name) })
}

// SamePlan reports whether two entries have the same desired state, regardless of what was observed.
func (c ClusterStatus) SamePlan(other ClusterStatus) bool {
	return c.Name == other.Name &&
		c.Generation == other.Generation &&
		c.Replicas == other.Replicas &&
		c.MinReplicas == other.MinReplicas &&
		c.MaxReplicas == other.MaxReplicas &&
		(c.HubBehind == nil) == (other.HubBehind == nil) &&
		(c.Phase == ClusterRemoving) == (other.Phase == ClusterRemoving) &&
		(c.Phase == ClusterDetached) == (other.Phase == ClusterDetached)
}
