package v1alpha1

import (
	"slices"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AppServiceStatus is the state of the AppService on all clusters.
// The entries of clusters are also the plan.
// A large AppService has them in AppServiceSlices (see clustersIn).
// Fleetwright writes an entry before it creates anything on the cluster.
// It removes the entry after the deletion of all objects there is confirmed.
type AppServiceStatus struct {
	// ObservedGeneration is the generation that the status describes.
	// It is -1 before the first reconciliation.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Placed and, while they are true, Reconciling, Stalled and Suspended.
	// With spec.rollout there is RolledOut, and with spec.configuration there is Configured.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Replicas is the number of pods in the unit of spec.replicas.
	// If replicaPolicy divides the replicas, it is the sum over the clusters of the plan.
	// Otherwise it is the mean over the clusters, rounded up.
	// +optional
	Replicas int32 `json:"replicas"`

	// AvailableReplicas is the number of available pods on all clusters that can be observed.
	// A pod is available when it has been ready for minReadySeconds of its Deployment.
	// The field is not in the unit of replicas. It is at most summary.readyReplicas.
	// It is absent until a version of Fleetwright that knows it has written the status.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// Selector is the label selector of the pods on every member, for the scale subresource.
	// It does not select the pods of an adopted Deployment that kept its own selector.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Summary counts the entries of clusters, and sums up their replicas.
	// +optional
	Summary ClusterSummary `json:"summary,omitzero"`

	// Placement explains why clusters are not in the plan.
	// +optional
	Placement PlacementStatus `json:"placement,omitzero"`

	// PlannedSpecs are the last 64 specs that this hub has planned, newest first.
	// If a member has an object for a later spec that is not listed, the hub was restored.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	PlannedSpecs []PlannedSpec `json:"plannedSpecs,omitempty"`

	// AcceptedStamps lists the stamps that the annotation fleetwright.dev/accept-hub accepts.
	// It is present if the annotation contains a digest.
	// The list applies as long as the annotation contains the digest.
	// +optional
	// +listType=atomic
	AcceptedStamps []string `json:"acceptedStamps,omitempty"`

	// Rollout describes the revisions of the AppService, and the rollout of the latest one.
	// +optional
	Rollout RolloutStatus `json:"rollout,omitzero"`

	// Configuration describes the objects of the hub that travel with the AppService.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=from
	Configuration []ConfigurationStatus `json:"configuration,omitempty"`

	// ConfigurationSerial is the highest serial that a content of an InPlace source has had.
	// It stays after the source was removed from the spec, and the next content has a higher one.
	// If a member has a content with a higher serial, the hub was restored.
	// +optional
	ConfigurationSerial int64 `json:"configurationSerial,omitempty"`

	// Removals counts recent removals, because they limit further removals.
	// +optional
	Removals RemovalsStatus `json:"removals,omitzero"`

	// ClustersIn is Slices if the entries of clusters are in AppServiceSlices.
	// Above 1000 entries, they move there, because an object must not exceed 1.5 MiB.
	// Below 800 entries, they move back.
	// +optional
	ClustersIn ClustersIn `json:"clustersIn,omitempty"`

	// WorstClusters are the 20 entries that need attention most, if the entries are in slices.
	// Entries that are Ready are omitted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	WorstClusters []ClusterStatus `json:"worstClusters,omitempty"`

	// Clusters has an entry for each cluster of the plan.
	// It also has an entry for each cluster that may still have objects of the AppService.
	// The entries are sorted by name.
	// It is empty if the entries are in slices (see clustersIn).
	// +optional
	// +listType=atomic
	Clusters []ClusterStatus `json:"clusters,omitempty"`
}

// ClustersIn says which objects have the entries of an AppService.
// +kubebuilder:validation:Enum=Slices
type ClustersIn string

// ClustersInSlices: the entries are in AppServiceSlices, and status.clusters is empty.
const ClustersInSlices ClustersIn = "Slices"

// PlannedSpec identifies a spec that was planned.
type PlannedSpec struct {
	// Generation is the generation of the AppService that had the spec.
	Generation int64 `json:"generation"`
	// Hash is a hash of the spec.
	// It is empty in the oldest item if an older version of Fleetwright planned that generation.
	Hash string `json:"hash"`
}

// ClusterSummary counts the entries of status.clusters, and sums up their replicas.
type ClusterSummary struct {
	// Clusters is the number of clusters in the plan.
	// It counts all entries except those that are Removing or Detached.
	Clusters int32 `json:"clusters"`
	// Ready is the number of these clusters that are Ready at the current generation.
	Ready int32 `json:"ready"`
	// Display is "ready/clusters", for the printer column.
	Display string `json:"display"`
	// UpToDate is "up to date/clusters", for the printer column.
	// A cluster is up to date if the latest revision is applied there.
	// +optional
	UpToDate string `json:"upToDate,omitempty"`
	// Replicas is the number of desired pods on all clusters of the plan.
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is the number of ready pods on all clusters that can be observed.
	// It includes clusters that are Removing.
	ReadyReplicas int32 `json:"readyReplicas"`
	// LastKnownReadyReplicas is the last known number of ready pods on unobservable clusters.
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
	// HubBehind is the number of entries with hubBehind.
	// +optional
	HubBehind int32 `json:"hubBehind,omitempty"`
}

// PlacementStatus explains why clusters are not in the plan.
type PlacementStatus struct {
	// SpecHash is a hash of the spec.placement by which the clusters were chosen.
	// Only an edit of spec.placement shows the intent to remove the AppService from a cluster.
	// +optional
	SpecHash string `json:"specHash,omitempty"`
	// ReplicasHash is a hash of the fields of the spec that set the replicas of each cluster.
	// +optional
	ReplicasHash string `json:"replicasHash,omitempty"`
	// Count is the highest number of a placement (see placement of the entries of clusters).
	// After a lost status, it goes on from the highest number that the members report.
	// +optional
	Count int64 `json:"count,omitempty"`
	// Excluded has an entry for each reason, sorted by reason.
	// +optional
	// +listType=map
	// +listMapKey=reason
	Excluded []ExcludedClusters `json:"excluded,omitempty"`
}

// RemovalsStatus counts the removals that have started.
// It counts those that a user approved, and those that no edit caused.
type RemovalsStatus struct {
	// Accepted is the number of started removals that fleetwright.dev/accept-removals approved.
	// It counts from zero for each generation.
	// +optional
	Accepted int32 `json:"accepted,omitempty"`
	// AcceptedGeneration is the generation of the AppService that Accepted counts for.
	// +optional
	AcceptedGeneration int64 `json:"acceptedGeneration,omitempty"`
	// WithoutEdit counts the removals of the last hour that no edit caused and no user approved.
	// If there are too many, further removals wait for approval.
	// +optional
	// +listType=atomic
	WithoutEdit []RemovalCount `json:"withoutEdit,omitempty"`
}

// RemovalCount counts the removals that started within five minutes.
type RemovalCount struct {
	// StartTime is the start of the five minutes.
	StartTime metav1.Time `json:"startTime"`
	// Count is the number of removals that started.
	Count int32 `json:"count"`
	// ScaleDowns is the number of scale-downs that started.
	// +optional
	ScaleDowns int32 `json:"scaleDowns,omitempty"`
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
	// Requirements are what these clusters do not meet: labels, taints or the limit.
	// Examples are region=eu, gpu:NoSchedule and limit=3.
	// The list has at most three, the most frequent first.
	// All other reasons name their field or their condition already, and have no requirements.
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

// TransitionType is the kind of change that is in progress on a cluster.
// +kubebuilder:validation:Enum=ScaleDownPending;RemovalPending;RemovalNeedsApproval;Removing
type TransitionType string

const (
	// TransitionScaleDownPending: the cluster keeps more replicas than its share until replicas on
	// other clusters are ready.
	TransitionScaleDownPending TransitionType = "ScaleDownPending"
	// TransitionRemovalPending: the cluster is no longer in the plan. Its removal waits until other
	// clusters are ready, or until other removals have finished.
	TransitionRemovalPending TransitionType = "RemovalPending"
	// TransitionRemovalNeedsApproval: the cluster is no longer in the plan, and keeps the workload
	// until a user approves its removal.
	TransitionRemovalNeedsApproval TransitionType = "RemovalNeedsApproval"
	// TransitionRemoving: the workload is being removed from the cluster.
	TransitionRemoving TransitionType = "Removing"
)

// TransitionCause is the cause of a removal or a scale-down.
// +kubebuilder:validation:Enum=Edit;Deletion;ClustersChanged;Displaced;Recovered;Rejoined
type TransitionCause string

const (
	// CauseEdit: an edit of spec.placement removed the cluster from the plan, or an edit of a field that
	// sets replicas lowered the cluster's replicas.
	CauseEdit TransitionCause = "Edit"
	// CauseDeletion: the AppService is being deleted.
	CauseDeletion TransitionCause = "Deletion"
	// CauseClustersChanged: clusters changed, for example their labels or taints, and the AppService
	// was not edited.
	CauseClustersChanged TransitionCause = "ClustersChanged"
	// CauseDisplaced: other clusters reach spec.placement.limit, for example because one is Ready
	// again.
	CauseDisplaced TransitionCause = "Displaced"
	// CauseRecovered: the workload was found on a cluster that had no entry, as after a restore.
	CauseRecovered TransitionCause = "Recovered"
	// CauseRejoined: the cluster had left the fleet and joined it again.
	CauseRejoined TransitionCause = "Rejoined"
)

// ClusterTransition is the change that is in progress on a cluster, and its cause.
// The planner reads it again for its next decision.
type ClusterTransition struct {
	// Type is ScaleDownPending, RemovalPending, RemovalNeedsApproval or Removing.
	Type TransitionType `json:"type"`
	// Cause is Edit, Deletion, ClustersChanged, Displaced, Recovered or Rejoined.
	Cause TransitionCause `json:"cause"`
	// Accepted is true if the annotation fleetwright.dev/accept-removals approves the removal.
	// A scale-down that no edit caused also has it after it has started.
	// +optional
	Accepted bool `json:"accepted,omitempty"`
}

// ClusterStatus is the entry of one cluster.
// It has the desired state, the transition, and the observed state.
// Everything that the planner remembers about a cluster is a typed field.
// Fleetwright never parses a reason or a message.
type ClusterStatus struct {
	// Name is the name of the MemberCluster.
	Name string `json:"name"`

	// Desired state.

	// Generation is the generation of the AppService that is desired on the cluster.
	// An entry that leaves the plan keeps its generation.
	// It is 0 if objects were found on a cluster without an entry.
	Generation int64 `json:"generation"`
	// Revision is the number of the revision that is desired on the cluster.
	// If it is 0, no revision is known, and Fleetwright changes nothing there.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Placement is the number of the placement by which the cluster has the AppService.
	// It rises when the AppService is placed there, and when a removal that has started is withdrawn.
	// A removal deletes no object that has a higher number, because the object was placed later.
	// It is absent if an older version of Fleetwright placed the AppService there.
	// +optional
	Placement int64 `json:"placement,omitempty"`
	// Recreate is the look of an operator process that may create or change the workload again.
	// The process had found at its start, or after a restore of the hub, that it is missing or has another revision.
	// Then all clusters of the AppService reported, and none shows that the hub has lost an edit.
	// It has no effect for another process.
	// +optional
	Recreate string `json:"recreate,omitempty"`
	// UnavailableSince is when the cluster got the revision, or lost ready pods in a rollout.
	// It is later by the time in which the cluster could not be observed.
	// It is absent after the cluster has been Ready for minReadySeconds.
	// +optional
	UnavailableSince *metav1.Time `json:"unavailableSince,omitempty"`
	// ReadySince is since when the cluster has kept its ready pods, if others were added before it was available.
	// Pods that an autoscaler adds do not start minReadySeconds again.
	// +optional
	ReadySince *metav1.Time `json:"readySince,omitempty"`
	// AvailableReplicas is the number of ready pods with which the cluster was last Ready.
	// It is present if pods were available with the revision since the cluster got it in a rollout.
	// Then it is at least 1, and the cluster is unavailable only while it has fewer ready pods.
	// See observedAvailableReplicas for the pods that are available now.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas,omitempty"`
	// Impaired is true if the cluster was not Ready before it got the revision.
	// It is also true if it stopped being Ready with the stable revision.
	// It is then no evidence against a revision.
	// +optional
	Impaired bool `json:"impaired,omitempty"`
	// Returned is true if the cluster was Ready with another revision when it returned to the stable one.
	// It is also true if the cluster had not answered the latest edit then.
	// It is absent after the cluster has been available since. If it fails, the stable revision fails too.
	// +optional
	Returned bool `json:"returned,omitempty"`
	// Stage is the stage with a limit in which the cluster has the target of the rollout.
	// The cluster stays in the stage until the next target, unless the stages are edited.
	// +optional
	Stage string `json:"stage,omitempty"`
	// StageRevision is that target.
	// With another target, the stage does not count any more.
	// +optional
	StageRevision int64 `json:"stageRevision,omitempty"`
	// Replicas is the desired number of pods on the cluster.
	// If an autoscaler scales the pods, it is their initial number.
	Replicas int32 `json:"replicas"`
	// MinReplicas is minReplicas of the HorizontalPodAutoscaler on the cluster.
	// It is absent without spec.autoscaling.
	// +optional
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// MaxReplicas is maxReplicas of the HorizontalPodAutoscaler on the cluster.
	// It is absent without spec.autoscaling.
	// +optional
	MaxReplicas int32 `json:"maxReplicas,omitempty"`
	// Weight is the allocatable CPU, in thousandths, that the cluster's share was computed from.
	// It is updated when the allocatable CPU changes by a tenth or more.
	// It is absent unless replicaPolicy.weights is Allocatable.
	// +optional
	Weight int64 `json:"weight,omitempty"`

	// Transition.

	// Surging is true while new replicas on the cluster are not ready yet.
	// They are new because the cluster joined the plan, or because its share was raised.
	// Removals and scale-downs on other clusters wait for them.
	// It can be true during a transition too.
	// +optional
	Surging bool `json:"surging,omitempty"`
	// Transition is the removal or scale-down that is in progress on the cluster, if any.
	// +optional
	Transition ClusterTransition `json:"transition,omitzero"`

	// Observed state.

	// Phase is Pending, Progressing, Ready, Failed, Unknown, Removing or Detached.
	Phase ClusterPhase `json:"phase"`
	// LastTransitionTime is when the phase last changed.
	// While the phase is Unknown, the observed state is as old as this time.
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// LastKnownPhase is the phase when the cluster was last observed.
	// It is present only while the cluster cannot be observed.
	// +optional
	LastKnownPhase ClusterPhase `json:"lastKnownPhase,omitempty"`
	// ObservedGeneration is the newest generation that is known to be applied on the cluster.
	// It is less than generation until the desired revision is applied.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyReplicas is the last known number of ready pods on the cluster.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`
	// UnreadyReplicas is the last known number of pods on the cluster that are not ready.
	// +optional
	UnreadyReplicas int32 `json:"unreadyReplicas,omitempty"`
	// ObservedAvailableReplicas is the last known number of available pods on the cluster.
	// It is present only if it is not equal to readyReplicas, and it can be 0.
	// Do not confuse it with availableReplicas, which belongs to rollouts.
	// +optional
	ObservedAvailableReplicas *int32 `json:"observedAvailableReplicas,omitempty"`
	// Reason is the reason why the phase is not Ready. docs/operations.md lists the reasons.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason and names the next step.
	// Only the first 50 entries of a reason have one, in order of name.
	// Messages are shortened if the entries together would exceed 1 MB.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// HubBehind is present if the cluster has an object for a spec that this hub never planned.
	// The hub was then probably restored from a backup.
	// HubBehind stays until a user accepts it, even if the AppService is edited.
	// While any entry has it, Fleetwright changes no object of the AppService on any cluster.
	// +optional
	HubBehind *HubBehind `json:"hubBehind,omitempty"`
	// Addresses are the last known external IPs or host names of a Service of type LoadBalancer.
	// They are the first eight in sorted order.
	// All clusters have fewer if the entries together would exceed 1 MB.
	// +optional
	// +listType=atomic
	Addresses []string `json:"addresses,omitempty"`
}

// CurrentReplicas returns the last known number of pods on the cluster.
func (c *ClusterStatus) CurrentReplicas() int32 { return c.ReadyReplicas + c.UnreadyReplicas }

// CurrentAvailableReplicas returns the last known number of available pods on the cluster.
func (c *ClusterStatus) CurrentAvailableReplicas() int32 {
	if c.ObservedAvailableReplicas == nil {
		return c.ReadyReplicas
	}
	return *c.ObservedAvailableReplicas
}

// HubBehind describes the objects on a cluster that are newer than the hub.
type HubBehind struct {
	// Kind is the kind of the newest of these objects.
	Kind string `json:"kind"`
	// Generation is the generation of the AppService that this object was applied for.
	Generation int64 `json:"generation"`
	// Revision is the revision that this object was applied for.
	// It is present if the hub knows the generation, but no revision as high as this.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Placement is the number of the placement that this object was applied for.
	// It is present if the removal from the cluster belongs to an earlier placement.
	// +optional
	Placement int64 `json:"placement,omitempty"`
	// CreationTime is when this object was created.
	// It is present if the object has no such number, and the removal started before that time.
	// +optional
	CreationTime *metav1.Time `json:"creationTime,omitempty"`
	// UID is the UID of the AppService that this object was applied for.
	// It is present if that AppService has the same name, but was created later.
	// +optional
	UID types.UID `json:"uid,omitempty"`
	// Accept is the value of the annotation fleetwright.dev/accept-hub that accepts this.
	// Fleetwright then overwrites the objects with the current state of the hub.
	Accept string `json:"accept"`
}

// HasSlices reports whether the entries of an AppService, as the hub stores it, are in
// AppServiceSlices. An older version of Fleetwright does not know slices. It keeps clustersIn, and
// writes clusters and the summary, which are newer than the slices then. Entries are in slices only
// if there are many, so a summary without any is from an older version.
func (s *AppServiceStatus) HasSlices() bool {
	return s.ClustersIn == ClustersInSlices && len(s.Clusters) == 0 && s.Summary.Entries() > 0
}

// Entries returns the number of all entries.
func (s *ClusterSummary) Entries() int32 { return s.Clusters + s.Removing + s.Detached }

// IsHubBehind reports whether any cluster has objects that this hub never planned.
func (s *AppServiceStatus) IsHubBehind() bool {
	return s.Summary.HubBehind > 0 || slices.ContainsFunc(s.Clusters, func(c ClusterStatus) bool { return c.HubBehind != nil })
}

// Cluster returns the entry of the named cluster, or nil. The entries must be sorted by name, as the
// operator writes them.
// docs/decisions/entries-are-sorted-by-name.md says why.
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

// SamePlan reports whether two entries have the same desired state, regardless of the observed
// state.
func (c ClusterStatus) SamePlan(other ClusterStatus) bool {
	return c.Name == other.Name &&
		c.Generation == other.Generation &&
		c.Revision == other.Revision &&
		c.Placement == other.Placement &&
		c.Recreate == other.Recreate &&
		c.Replicas == other.Replicas &&
		c.MinReplicas == other.MinReplicas &&
		c.MaxReplicas == other.MaxReplicas &&
		(c.HubBehind == nil) == (other.HubBehind == nil) &&
		(c.Phase == ClusterRemoving) == (other.Phase == ClusterRemoving) &&
		(c.Phase == ClusterDetached) == (other.Phase == ClusterDetached)
}
