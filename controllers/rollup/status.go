package rollup

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Input is all that a status depends on.
type Input struct {
	// App is the AppService, with the status that it has.
	App *v1alpha1.AppService
	// Plan is where it shall run.
	Plan placement.Plan
	// PlanError is why there is no plan. Every row stays as it was planned then.
	PlanError error
	// Members are the MemberClusters that have a Secret, by name. One without is treated as one that is gone.
	Members map[string]*v1alpha1.MemberCluster
	// Secretless are the MemberClusters without a Secret, by name. They are no members, but they keep tombstones.
	Secretless map[string]*v1alpha1.MemberCluster
	// Observations are what was seen of it since the operator started, by cluster.
	Observations map[string]Observation
	// Now is written where something changed.
	Now metav1.Time
}

// Status returns the status of the AppService.
func Status(in Input) v1alpha1.AppServiceStatus {
	in = in.Recover()
	stamps := lineage.AcceptedStamps(in.App)
	if !slices.Equal(stamps, in.App.Status.AcceptedStamps) {
		in.App = in.App.DeepCopy()
		in.App.Status.AcceptedStamps = stamps
	}
	rows, removals, notes := in.rows()
	limitTexts(rows)
	summary := in.summarize(rows)
	return v1alpha1.AppServiceStatus{
		ObservedGeneration: in.App.Generation,
		Conditions:         in.keepTimes(in.conditions(rows, summary, notes)),
		Replicas:           in.pods(rows),
		Selector:           labels.SelectorFromSet(workload.Selector(in.App.Name)).String(),
		Summary:            summary,
		Placement:          in.placement(),
		Removals:           removals,
		PlannedSpecs:       lineage.Planned(in.App),
		AcceptedStamps:     stamps,
		Clusters:           rows,
	}
}

// placement says why clusters are not in the plan, and by which placement it was made. An AppService that is being deleted has no plan.
func (in Input) placement() v1alpha1.PlacementStatus {
	if in.deleting() {
		return v1alpha1.PlacementStatus{}
	}
	status := v1alpha1.PlacementStatus{Excluded: in.Plan.Excluded(), SpecHash: in.App.Status.Placement.SpecHash}
	if in.PlanError == nil && in.App.Status.ObservedGeneration != in.App.Generation {
		status.SpecHash = lineage.PlacementHash(in.App)
	}
	return status
}

// summarize counts the cluster statuses. Replicas that were ready when a cluster was observed last are known only while its
// MemberCluster is Ready.
func (in Input) summarize(rows []v1alpha1.ClusterStatus) v1alpha1.ClusterSummary {
	var sum v1alpha1.ClusterSummary
	for _, row := range rows {
		if member := in.Members[row.Name]; member != nil && member.IsReady() {
			sum.ReadyReplicas = plus(sum.ReadyReplicas, row.ReadyReplicas)
		} else {
			sum.LastKnownReadyReplicas = plus(sum.LastKnownReadyReplicas, row.ReadyReplicas)
		}
		switch row.Phase {
		case v1alpha1.ClusterReady:
			sum.Ready++
		case v1alpha1.ClusterPending, v1alpha1.ClusterProgressing:
			sum.Progressing++
		case v1alpha1.ClusterFailed:
			sum.Failed++
		case v1alpha1.ClusterUnknown:
			sum.Unknown++
		case v1alpha1.ClusterDetached:
			sum.Detached++
			continue
		case v1alpha1.ClusterRemoving:
			sum.Removing++
			continue
		}
		sum.Clusters++
		sum.Replicas = plus(sum.Replicas, row.Replicas)
	}
	sum.Display = fmt.Sprintf("%d/%d", sum.Ready, sum.Clusters)
	return sum
}

// pods is how many there are on the clusters of the plan, in the unit of spec.replicas: together where they are divided, else on one of
// them, which is the mean, rounded up.
func (in Input) pods(rows []v1alpha1.ClusterStatus) int32 {
	var pods, clusters int32
	for _, row := range rows {
		if planned(row) {
			pods = plus(pods, row.CurrentReplicas)
			clusters++
		}
	}
	if in.divided() || clusters == 0 {
		return pods
	}
	return pods/clusters + min(1, pods%clusters)
}

// plus adds, and stays at the most that there is.
func plus(a, b int32) int32 {
	return int32(min(int64(a)+int64(b), math.MaxInt32))
}

// planned tells whether the row's cluster is in the plan.
func planned(row v1alpha1.ClusterStatus) bool {
	return row.Phase != v1alpha1.ClusterRemoving && row.Phase != v1alpha1.ClusterDetached
}

// conditions returns Placed and Ready and, while they are true, Suspended, and Reconciling or Stalled.
func (in Input) conditions(rows []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary, notes []string) []metav1.Condition {
	if in.deleting() {
		message := "removing it " + from(rows)
		if behind := in.behind(rows); behind != nil {
			message = meta.FindStatusCondition(behind, v1alpha1.ConditionReady).Message
		}
		return []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, message),
			condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDeleting, message),
		}
	}
	if behind := in.behind(rows); behind != nil {
		return behind
	}
	if in.PlanError != nil {
		return append(unplaced(v1alpha1.ReasonInvalidPlacement, in.PlanError.Error()), in.suspension()...)
	}
	if waits := in.waits(rows); waits != "" {
		ready := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, waiting(waits, rows, sum))
		return append([]metav1.Condition{in.placed(), ready}, in.suspension()...)
	}
	if contradiction, short := in.outOfBounds(); contradiction != "" {
		conditions := unplaced(v1alpha1.ReasonReplicasOutOfBounds, contradiction)
		if short && len(in.unready(true)) > 0 { // there may be room soon
			conditions[len(conditions)-1].Type = v1alpha1.ConditionReconciling
		}
		return append(conditions, in.suspension()...)
	}
	ready := readiness(rows, sum, notes)
	return slices.Concat([]metav1.Condition{in.placed(), ready}, in.suspension(), kstatus(ready, sum))
}

// unplaced are the conditions while what is asked for cannot be done, until somebody changes it.
func unplaced(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message),
	}
}

// placed is about what the placement chose, whatever the clusters run.
func (in Input) placed() metav1.Condition {
	if contradiction, _ := in.outOfBounds(); contradiction != "" {
		return condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonReplicasOutOfBounds, contradiction)
	}
	var chosen int32
	for _, decision := range in.Plan {
		if decision.Chosen() && in.Members[decision.Cluster] != nil {
			chosen++
		}
	}
	if chosen == 0 {
		return condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoClusters, whyNone(in.Plan))
	}
	return condition(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced, fmt.Sprintf("placed on %s of %d%s", clusters(chosen), len(in.Plan), whyNot("; not on ", in.Plan)))
}

// readiness is the Ready condition: the worst of the rows decides.
func readiness(rows []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary, notes []string) metav1.Condition {
	status, reason := metav1.ConditionFalse, v1alpha1.ReasonProgressing
	switch {
	case sum.Clusters == 0:
		reason = v1alpha1.ReasonNoClusters
	case sum.Ready == sum.Clusters:
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running "+on(rows))
	case sum.Failed > 0:
		reason = v1alpha1.ReasonClustersFailed
	case sum.Unknown > 0 && sum.Progressing == 0:
		status, reason = metav1.ConditionUnknown, v1alpha1.ReasonClustersUnknown
	}
	message := strings.Join(append([]string{notReady(rows, sum)}, notes...), "; ")
	return condition(v1alpha1.ConditionReady, status, reason, message)
}

// kstatus is Reconciling while something is under way, Stalled when only failures are left, and nothing
// when all is done. A cluster that cannot be observed may come back: that is under way.
func kstatus(ready metav1.Condition, sum v1alpha1.ClusterSummary) []metav1.Condition {
	switch {
	case sum.Failed > 0 && sum.Progressing == 0 && sum.Unknown == 0:
		return []metav1.Condition{condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, ready.Reason, ready.Message)}
	case ready.Status != metav1.ConditionTrue:
		return []metav1.Condition{condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, ready.Reason, ready.Message)}
	case sum.Removing > 0:
		return []metav1.Condition{condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRemoving, "removing it from "+clusters(sum.Removing))}
	}
	return nil
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: strings.TrimSpace(message)}
}

// keepTimes gives each condition the generation, and the time of its last transition: the one it has, when
// its status is the same.
func (in Input) keepTimes(conditions []metav1.Condition) []metav1.Condition {
	for i := range conditions {
		next := &conditions[i]
		next.ObservedGeneration, next.LastTransitionTime = in.App.Generation, in.Now
		previous := meta.FindStatusCondition(in.App.Status.Conditions, next.Type)
		if previous != nil && previous.Status == next.Status {
			next.LastTransitionTime = previous.LastTransitionTime
		}
	}
	return conditions
}
