package ui

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// regionLabel is the label of a MemberCluster that has its region; a plain "region" stands in for
// it.
const regionLabel = "topology.kubernetes.io/region"

// Cluster is the head of a column: what the page shows of a MemberCluster.
type Cluster struct {
	Name    string            `json:"name"`
	Region  string            `json:"region,omitempty"`
	Version string            `json:"version,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Ready is the status of the condition Ready: True, False or Unknown.
	Ready    string       `json:"ready"`
	Reason   string       `json:"reason,omitempty"`
	Since    *metav1.Time `json:"since,omitempty"`
	Cordoned bool         `json:"cordoned,omitempty"`
	Taints   []string     `json:"taints,omitempty"`
	// Detached is true while the Secret of the cluster is missing.
	Detached bool `json:"detached,omitempty"`
}

// App is a line of the matrix: what the page shows of an AppService.
type App struct {
	Namespace string            `json:"namespace"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Phase is the worst phase of its clusters, or Failed if it is stalled.
	Phase v1alpha1.ClusterPhase `json:"phase"`
	// Reason and Message are those of the condition Ready; or of Configured, if Ready is True while the
	// present content of a source is not used.
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	Deleting  bool   `json:"deleting,omitempty"`
	// Clusters is the number of clusters in the plan, Ready and UpToDate are the number of them
	// that are Ready, and that run the revision of the spec.
	Clusters int32 `json:"clusters"`
	Ready    int32 `json:"ready"`
	UpToDate int32 `json:"upToDate"`
	// Pods is the number of desired pods, ReadyPods the number of them that are ready.
	Pods      int32 `json:"pods"`
	ReadyPods int32 `json:"readyPods"`
	// Revision is the revision of the spec.
	Revision int64      `json:"revision,omitempty"`
	Rollout  *Rollout   `json:"rollout,omitempty"`
	Cells    []Cell     `json:"cells"`
	Excluded []Excluded `json:"excluded,omitempty"`
}

// Cell is an AppService on one cluster.
type Cell struct {
	Cluster string                `json:"cluster"`
	Phase   v1alpha1.ClusterPhase `json:"phase"`
	// Ready and Wanted count pods. Ready is the last known number if the phase is Unknown.
	Ready    int32  `json:"ready"`
	Wanted   int32  `json:"wanted"`
	Revision int64  `json:"revision,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Since is when the phase began. A Ready cell has none.
	Since *metav1.Time `json:"since,omitempty"`
	// LastKnown is the phase when the cluster was last observed.
	LastKnown v1alpha1.ClusterPhase `json:"lastKnown,omitempty"`
}

// Excluded are the clusters that an AppService is not placed on for one reason. The status has the
// names of at most three of them.
type Excluded struct {
	Reason       string   `json:"reason"`
	Count        int32    `json:"count"`
	Examples     []string `json:"examples"`
	Requirements []string `json:"requirements,omitempty"`
}

// Rollout is the rollout of the latest revision.
type Rollout struct {
	Phase  v1alpha1.RolloutPhase `json:"phase,omitempty"`
	Paused bool                  `json:"paused,omitempty"`
	// Stable and Failed are revisions.
	Stable int64   `json:"stable,omitempty"`
	Failed int64   `json:"failed,omitempty"`
	Stages []Stage `json:"stages,omitempty"`
}

// Stage is a stage of a rollout, with its gates.
type Stage struct {
	Name  string                     `json:"name"`
	Phase v1alpha1.RolloutStagePhase `json:"phase"`
	Since *metav1.Time               `json:"since,omitempty"`
	// NeedsApproval and SoakSeconds are the gates of the stage.
	NeedsApproval bool  `json:"needsApproval,omitempty"`
	Approved      bool  `json:"approved,omitempty"`
	Promoted      bool  `json:"promoted,omitempty"`
	SoakSeconds   int32 `json:"soakSeconds,omitempty"`
	Clusters      int32 `json:"clusters"`
	UpToDate      int32 `json:"upToDate"`
	Available     int32 `json:"available"`
	Failed        int32 `json:"failed,omitempty"`
}

// clusterOf returns what the page shows of a MemberCluster.
func clusterOf(member *v1alpha1.MemberCluster) Cluster {
	shown := Cluster{
		Name:     member.Name,
		Region:   regionOf(member.Labels),
		Version:  member.Status.Version,
		Labels:   member.Labels,
		Ready:    string(metav1.ConditionUnknown),
		Cordoned: member.Spec.Unschedulable,
		Detached: !member.HasSecret(),
	}
	if ready := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		shown.Ready, shown.Reason, shown.Since = string(ready.Status), ready.Reason, &ready.LastTransitionTime
	}
	for _, taint := range member.Spec.Taints {
		shown.Taints = append(shown.Taints, formatTaint(taint))
	}
	return shown
}

func regionOf(labels map[string]string) string {
	if region := labels[regionLabel]; region != "" {
		return region
	}
	return labels["region"]
}

// formatTaint returns a taint as kubectl writes it, such as gpu=true:NoSchedule.
func formatTaint(taint v1alpha1.Taint) string {
	key := taint.Key
	if taint.Value != "" {
		key += "=" + taint.Value
	}
	return key + ":" + string(taint.Effect)
}

// appOf returns what the page shows of an AppService with these entries.
func appOf(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus) App {
	status := &app.Status
	shown := App{
		Namespace: app.Namespace,
		Name:      app.Name,
		Labels:    app.Labels,
		Suspended: app.Spec.Suspend,
		Deleting:  app.IsDeleting(),
		Clusters:  status.Summary.Clusters,
		Ready:     status.Summary.Ready,
		Pods:      status.Summary.Replicas,
		ReadyPods: status.Summary.ReadyReplicas,
		Revision:  status.Rollout.Revision,
		Rollout:   rolloutOf(app),
		Cells:     make([]Cell, 0, len(entries)),
	}
	for i := range entries {
		shown.Cells = append(shown.Cells, cellOf(&entries[i]))
		if isUpToDate(&entries[i], status.Rollout.Revision) {
			shown.UpToDate++
		}
	}
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		shown.Reason, shown.Message = ready.Reason, ready.Message
		configured := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConfigured)
		if ready.Status == metav1.ConditionTrue && configured != nil && configured.Status == metav1.ConditionFalse {
			shown.Reason, shown.Message = configured.Reason, configured.Message
		}
	}
	for _, excluded := range status.Placement.Excluded {
		shown.Excluded = append(shown.Excluded, Excluded(excluded))
	}
	shown.Phase = worstPhase(app, entries)
	return shown
}

func cellOf(entry *v1alpha1.ClusterStatus) Cell {
	cell := Cell{
		Cluster:   entry.Name,
		Phase:     entry.Phase,
		Ready:     entry.ReadyReplicas,
		Wanted:    entry.Replicas,
		Revision:  entry.Revision,
		Reason:    entry.Reason,
		LastKnown: entry.LastKnownPhase,
	}
	if entry.Phase != v1alpha1.ClusterReady && !entry.LastTransitionTime.IsZero() {
		cell.Since = &entry.LastTransitionTime
	}
	if entry.MaxReplicas > 0 { // the autoscaler decides how many pods run
		cell.Wanted = entry.CurrentReplicas()
	}
	return cell
}

// isUpToDate reports whether a cluster of the plan has applied the revision of the spec.
func isUpToDate(entry *v1alpha1.ClusterStatus, revision int64) bool {
	inPlan := entry.Phase != v1alpha1.ClusterRemoving && entry.Phase != v1alpha1.ClusterDetached
	return inPlan && entry.Revision == revision && entry.ObservedGeneration >= entry.Generation
}

// worstFirst are the phases of a cluster in the order in which they need attention.
var worstFirst = []v1alpha1.ClusterPhase{
	v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached, v1alpha1.ClusterProgressing,
	v1alpha1.ClusterPending, v1alpha1.ClusterRemoving, v1alpha1.ClusterReady,
}

// worstPhase returns the phase of an AppService. An AppService without entries is Failed if it is
// stalled, such as one whose placement chooses no cluster, and otherwise Pending.
func worstPhase(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus) v1alpha1.ClusterPhase {
	if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionStalled) {
		return v1alpha1.ClusterFailed
	}
	if len(entries) == 0 {
		return v1alpha1.ClusterPending
	}
	worst := len(worstFirst) - 1
	for i := range entries {
		if at := slices.Index(worstFirst, entries[i].Phase); at >= 0 {
			worst = min(worst, at)
		}
	}
	return worstFirst[worst]
}

func rolloutOf(app *v1alpha1.AppService) *Rollout {
	status := &app.Status.Rollout
	if len(status.Stages) == 0 {
		return nil
	}
	shown := &Rollout{Phase: status.Phase, Paused: status.Paused, Stable: status.StableRevision, Failed: status.FailedRevision}
	for i := range status.Stages {
		stage := &status.Stages[i]
		next := Stage{
			Name: stage.Name, Phase: stage.Phase, Approved: stage.Approved, Promoted: stage.Promoted,
			Clusters: stage.Clusters, UpToDate: stage.UpToDate, Available: stage.Available, Failed: stage.Failed,
		}
		if !stage.Since.IsZero() {
			next.Since = &stage.Since
		}
		if spec := findStage(app.Spec.Rollout, stage.Name); spec != nil {
			next.NeedsApproval = spec.Approval == v1alpha1.ApprovalRequired
			if spec.SoakSeconds != nil {
				next.SoakSeconds = *spec.SoakSeconds
			}
		}
		shown.Stages = append(shown.Stages, next)
	}
	return shown
}

// findStage returns the stage of the spec with that name; nil for the stage of all other clusters.
func findStage(rollout *v1alpha1.Rollout, name string) *v1alpha1.RolloutStage {
	if rollout == nil {
		return nil
	}
	at := slices.IndexFunc(rollout.Stages, func(stage v1alpha1.RolloutStage) bool { return stage.Name == name })
	if at < 0 {
		return nil
	}
	return &rollout.Stages[at]
}
