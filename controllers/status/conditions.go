package status

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// conditions returns the conditions Placed and Ready. It also returns Suspended, Reconciling and
// Stalled, each only while it is True; at most one of Reconciling and Stalled is True. With
// spec.rollout, it returns RolledOut, and with spec.configuration, Configured. An AppService that is
// being deleted has none of Placed, RolledOut and Configured.
func (in report) conditions(entries []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) []metav1.Condition {
	staged := in.rolloutReport(entries)
	conditions := in.readiness(entries, sum, staged)
	if staged != nil && in.App.Spec.Rollout != nil {
		conditions = append(conditions, staged.rolledOut())
	}
	if in.Configuration != nil && in.Configuration.Configured != nil {
		conditions = append(conditions, *in.Configuration.Configured)
	}
	return conditions
}

// readiness returns all conditions but RolledOut and Configured. The first problem that blocks
// changes decides Ready; without one, the rollout and the worst of the entries do.
func (in report) readiness(entries []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary, staged *rolloutReport) []metav1.Condition {
	if in.App.IsDeleting() {
		message := in.removing(entries)
		if behind := in.behind(entries); behind != nil {
			message = meta.FindStatusCondition(behind, v1alpha1.ConditionReady).Message
		}
		return []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, message),
			condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDeleting, message),
		}
	}
	if behind := in.behind(entries); behind != nil {
		return behind
	}
	if in.PlanError != nil {
		return append(unplaced(v1alpha1.ReasonInvalidPlacement, in.PlanError.Error()), in.suspension()...)
	}
	if waits := in.pendingChanges(entries); waits != "" {
		ready := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, in.suspendedMessage(waits, entries, sum))
		return append([]metav1.Condition{in.placed(), ready}, in.suspension()...)
	}
	if contradiction, short := in.outOfBounds(); contradiction != "" {
		conditions := unplaced(v1alpha1.ReasonReplicasOutOfBounds, contradiction)
		if short && len(in.NotReadyCandidates(true)) > 0 { // a candidate may become Ready soon
			conditions[len(conditions)-1].Type = v1alpha1.ConditionReconciling
		}
		return append(conditions, in.suspension()...)
	}
	if in.StageError != nil {
		message := wording.Bound(in.StageError.Error()) + "; every cluster keeps its revision, and new clusters wait"
		return append([]metav1.Condition{
			in.placed(),
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonInvalidPlacement, message),
			condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidPlacement, message),
		}, in.suspension()...)
	}
	ready := in.clustersReady(entries, sum)
	if staged != nil && !staged.isOver && sum.Clusters > 0 {
		return slices.Concat([]metav1.Condition{in.placed()}, staged.limit(ready), in.suspension())
	}
	ready.Message += in.requestErrors()
	return slices.Concat([]metav1.Condition{in.placed(), ready}, in.suspension(), kstatus(ready, sum))
}

// unplaced returns the conditions of an AppService whose spec cannot be fulfilled until a user
// changes something.
func unplaced(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message),
	}
}

// placed returns the Placed condition. It depends on the placement and not on what the clusters
// run.
func (in report) placed() metav1.Condition {
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
		return condition(v1alpha1.ConditionPlaced, metav1.ConditionFalse, v1alpha1.ReasonNoClusters, in.whyNone())
	}
	return condition(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced, fmt.Sprintf("placed on %s of %d%s", wording.CountClusters(chosen), len(in.Plan), whyNot("; not on ", in.Plan)))
}

// clustersReady returns the Ready condition that the worst of the entries decides.
func (in report) clustersReady(entries []v1alpha1.ClusterStatus, sum v1alpha1.ClusterSummary) metav1.Condition {
	status, reason := metav1.ConditionFalse, v1alpha1.ReasonProgressing
	switch {
	case sum.Clusters == 0:
		reason = v1alpha1.ReasonNoClusters
	case sum.Ready == sum.Clusters:
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running "+runningOn(entries))
	case sum.Failed > 0:
		reason = v1alpha1.ReasonClustersFailed
	case sum.Unknown > 0 && sum.Progressing == 0:
		status, reason = metav1.ConditionUnknown, v1alpha1.ReasonClustersUnknown
	}
	message := strings.Join(append([]string{in.notReady(entries, sum)}, in.Notes...), "; ")
	if in.App.Spec.Rollout == nil && len(in.Rollout.ChangedSources) > 0 && in.Rollout.Revision != in.Rollout.StableRevision {
		message = in.target() + ": " + message
	}
	return condition(v1alpha1.ConditionReady, status, reason, message)
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: strings.TrimSpace(message)}
}

// keepTimes sets the observed generation and the time of the last transition of each condition. A
// condition whose status has not changed keeps its time.
func (in report) keepTimes(conditions []metav1.Condition) []metav1.Condition {
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

// behind returns the conditions while the hub is behind, otherwise nil.
func (in report) behind(entries []v1alpha1.ClusterStatus) []metav1.Condition {
	var ahead []v1alpha1.ClusterStatus
	for _, entry := range entries {
		if entry.HubBehind != nil {
			ahead = append(ahead, entry)
		}
	}
	if len(ahead) == 0 {
		return nil
	}
	message := fmt.Sprintf("the hub is behind %s; nothing is created, changed or deleted on any cluster; %s",
		wording.ListClusters(wording.Names(ahead)), lineage.HowToAccept(ahead))
	return append([]metav1.Condition{
		in.placed(),
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHubBehind, message),
		condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonHubBehind, message),
	}, in.suspension()...)
}
