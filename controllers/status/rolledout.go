package status

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// rolloutReport is what the conditions say about a rollout.
type rolloutReport struct {
	reason, message string
	// isOver is set if the template of the spec went through all stages.
	isOver bool
	// needsUser is set if there is no progress until a user acts.
	needsUser bool
}

// rolloutReport returns what the conditions say about the rollout, or nil if they say nothing. A
// revision that failed is reported even if spec.rollout was removed afterwards, because the
// clusters do not run the spec. So is a spec, or a content, that has no revision yet.
// docs/decisions/a-rollout-in-progress-is-not-ready.md says why.
func (in report) rolloutReport(entries []v1alpha1.ClusterStatus) *rolloutReport {
	if in.App.IsDeleting() {
		return nil
	}
	if in.AwaitsReports() {
		return &rolloutReport{reason: v1alpha1.ReasonStatusLost, message: "the status was lost: each cluster keeps what it runs until all clusters have reported what that is, or for half a minute"}
	}
	ofRevision := in.revisionReport(entries)
	wait := in.configurationWait()
	if in.SpecRefusal != "" {
		wait = &rolloutReport{reason: v1alpha1.ReasonPodSecurityRefused, message: SpecRefusedMessage(in.Input), needsUser: true}
	}
	if wait != nil {
		if ofRevision != nil && !ofRevision.isOver && in.Revision != 0 {
			wait.message += "; " + ofRevision.message
		}
		return wait
	}
	return ofRevision
}

// revisionReport returns what the conditions say about the rollout of the revision, or nil if they say
// nothing.
func (in report) revisionReport(entries []v1alpha1.ClusterStatus) *rolloutReport {
	hasFailed := hasFailed(in.Rollout.Phase)
	if in.App.Spec.Rollout == nil && !hasFailed {
		return nil
	}
	var r rolloutReport
	switch counts := in.countRevisions(entries); {
	case in.Rollout.Phase == v1alpha1.RolloutCompleted && in.Rollout.ActiveStage() != nil: // it got clusters after the rollout
		r = in.rollingOut(counts)
	case in.Rollout.Phase == v1alpha1.RolloutCompleted:
		r = rolloutReport{reason: v1alpha1.ReasonCompleted, message: in.completedMessage(counts), isOver: true}
	case in.Rollout.Phase == v1alpha1.RolloutRolledBack:
		r = rolloutReport{reason: v1alpha1.ReasonRolledBack, message: in.rolledBackMessage(), needsUser: true}
	case in.Rollout.Phase == v1alpha1.RolloutHalted:
		r = rolloutReport{reason: v1alpha1.ReasonRolloutHalted, message: in.haltedMessage(), needsUser: true}
	case hasFailed || in.isGoingBack():
		r = in.returning(counts)
	default:
		r = in.rollingOut(counts)
	}
	r.message += in.requestErrors()
	return &r
}

func hasFailed(phase v1alpha1.RolloutPhase) bool {
	switch phase {
	case v1alpha1.RolloutHalted, v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		return true
	}
	return false
}

// isGoingBack reports whether the spec has the template of the stable revision again, and clusters
// return to it.
func (in report) isGoingBack() bool {
	return in.Rollout.Phase == v1alpha1.RolloutProgressing && in.Rollout.Revision == in.Rollout.StableRevision
}

// returning reports clusters that return to the stable revision.
func (in report) returning(counts revisionCounts) rolloutReport {
	message := in.returningMessage(counts)
	switch {
	case in.Rollout.Paused:
		return rolloutReport{reason: v1alpha1.ReasonRolloutPaused, message: message + "; " + in.pauseMessage()}
	case in.isStableMissing():
		return rolloutReport{reason: v1alpha1.ReasonRollingBack, message: message + ", but " + in.stableMissingMessage(), needsUser: true}
	}
	return rolloutReport{reason: v1alpha1.ReasonRollingBack, message: message}
}

// rollingOut reports a rollout that is in progress. At most one stage is active.
func (in report) rollingOut(counts revisionCounts) rolloutReport {
	active := in.Rollout.ActiveStage()
	switch {
	case in.Rollout.Paused:
		return rolloutReport{reason: v1alpha1.ReasonRolloutPaused, message: in.progressMessage(active, counts) + "; " + in.pauseMessage()}
	case active == nil || active.Name == in.WaitingStage:
		return rolloutReport{reason: v1alpha1.ReasonWaitingForClusters, message: in.waitingMessage(active, counts)}
	case active.Phase == v1alpha1.StageAwaitingApproval:
		return rolloutReport{reason: v1alpha1.ReasonAwaitingApproval, message: in.approvalMessage(active)}
	case active.Phase == v1alpha1.StageSoaking:
		return rolloutReport{reason: v1alpha1.ReasonSoaking, message: in.soakingMessage(active, counts)}
	}
	return rolloutReport{reason: v1alpha1.ReasonRollingOut, message: in.progressMessage(active, counts)}
}

// isStableMissing reports whether the clusters cannot return to the stable revision.
func (in report) isStableMissing() bool {
	return in.IsStableMissing && in.Rollout.StableRevision != in.Rollout.Revision
}

// rolledOut returns the RolledOut condition.
func (r rolloutReport) rolledOut() metav1.Condition {
	status := metav1.ConditionFalse
	if r.isOver {
		status = metav1.ConditionTrue
	}
	return condition(v1alpha1.ConditionRolledOut, status, r.reason, r.message)
}

// limit returns the conditions with Ready False until the rollout is over. The message of Ready
// continues with the clusters that are not ready. If there are no clusters, that comes first.
func (r rolloutReport) limit(ready metav1.Condition) []metav1.Condition {
	message := r.message
	if ready.Status != metav1.ConditionTrue {
		message = strings.Join([]string{message, ready.Message}, "; ")
	}
	abnormal := v1alpha1.ConditionReconciling
	if r.needsUser {
		abnormal = v1alpha1.ConditionStalled
	}
	return []metav1.Condition{
		condition(v1alpha1.ConditionReady, metav1.ConditionFalse, r.reason, message),
		condition(abnormal, metav1.ConditionTrue, r.reason, message),
	}
}

// revisionCounts are numbers of clusters of the plan.
type revisionCounts struct {
	all       int32
	target    int32 // with the revision of the spec
	stable    int32 // with the stable revision, if that is another
	other     int32 // with another revision
	none      int32 // without a revision
	returning int32 // without the stable revision, or not available with it
}

// countRevisions counts the clusters of the plan by their desired revision. Clusters whose removal
// is pending are not in the plan: they keep their revision.
func (in report) countRevisions(entries []v1alpha1.ClusterStatus) revisionCounts {
	var n revisionCounts
	for i := range entries {
		entry := &entries[i]
		if !entryplan.IsPlanned(*entry) || isLeaving(entry) {
			continue
		}
		n.all++
		switch entry.Revision {
		case 0:
			n.none++
		case in.Rollout.Revision:
			n.target++
		case in.Rollout.StableRevision:
			n.stable++
		default:
			n.other++
		}
		if entry.Revision != in.Rollout.StableRevision || entry.UnavailableSince != nil {
			n.returning++
		}
	}
	return n
}

// isLeaving reports whether a cluster keeps the AppService only until its removal.
func isLeaving(entry *v1alpha1.ClusterStatus) bool {
	return slices.Contains([]v1alpha1.TransitionType{v1alpha1.TransitionRemovalPending, v1alpha1.TransitionRemovalNeedsApproval}, entry.Transition.Type)
}
