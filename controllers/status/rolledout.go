package status

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// rolloutReport is what the conditions say about a rollout.
type rolloutReport struct {
	reason, message string
	// isOver is set if the template of the spec went through all stages.
	isOver bool
	// needsUser is set if there is no progress until a user acts.
	needsUser bool
}

// reportRollout returns what the conditions say about the rollout, or nil if they say nothing. A
// revision that failed is reported even if spec.rollout was removed afterwards, because the
// clusters do not run the spec. So is a spec, or a content, that has no revision yet.
// docs/decisions/a-rollout-in-progress-is-not-ready.md says why.
func reportRollout(in rollout.Input, outcome *stages.Outcome, entries []v1alpha1.ClusterStatus) *rolloutReport {
	if in.App.IsDeleting() {
		return nil
	}
	if in.AwaitsReports() {
		return &rolloutReport{reason: v1alpha1.ReasonStatusLost, message: "the status was lost: each cluster keeps what it runs until all clusters have reported what that is, or for half a minute"}
	}
	var ofTarget *rolloutReport
	if in.App.Spec.Rollout != nil || hasFailed(outcome.Rollout.Phase) {
		ofTarget = newTargetRollout(in, outcome, entries).report()
	}
	wait := configurationWait(in.Configuration, in.IsSpecPending)
	if in.SpecRefusal != "" {
		wait = &rolloutReport{reason: v1alpha1.ReasonPodSecurityRefused, message: SpecRefusedMessage(in), needsUser: true}
	}
	if wait == nil {
		return ofTarget
	}
	if ofTarget != nil && !ofTarget.isOver && in.Revision != 0 {
		wait.message += "; " + ofTarget.message
	}
	return wait
}

// targetRollout is the rollout of the target, as conditions and events describe it.
type targetRollout struct {
	outcome *stages.Outcome
	// spec is spec.rollout, or nil.
	spec   *v1alpha1.Rollout
	counts revisionCounts
	// pause says why the rollout is paused, and how to continue it. It is "" if it is not paused.
	pause string
	// failure is what failed, if the target or the stable revision did.
	failure failure
	// goingBack are the clusters that return to the stable revision.
	goingBack goingBack
}

func newTargetRollout(in rollout.Input, outcome *stages.Outcome, entries []v1alpha1.ClusterStatus) targetRollout {
	state := &outcome.Rollout
	t := targetRollout{outcome: outcome, spec: in.App.Spec.Rollout, counts: countRevisions(state, entries)}
	if state.Paused {
		t.pause = pauseMessage(in, outcome)
	}
	t.failure = failure{state: state, spec: t.spec, isStableMissing: in.IsStableMissing && state.StableRevision != state.Revision}
	t.goingBack = goingBack{failure: t.failure, counts: t.counts, pause: t.pause, app: in.App.Name, configuration: in.Configuration}
	return t
}

// report returns what the conditions say about the rollout of the target.
func (t targetRollout) report() *rolloutReport {
	var r rolloutReport
	switch state := &t.outcome.Rollout; {
	case state.Phase == v1alpha1.RolloutCompleted && state.ActiveStage() != nil: // it got clusters after the rollout
		r = t.stage(state.ActiveStage()).report()
	case state.Phase == v1alpha1.RolloutCompleted:
		r = rolloutReport{reason: v1alpha1.ReasonCompleted, message: t.completed(), isOver: true}
	case state.Phase == v1alpha1.RolloutRolledBack:
		r = rolloutReport{reason: v1alpha1.ReasonRolledBack, message: t.failure.rolledBack(), needsUser: true}
	case state.Phase == v1alpha1.RolloutHalted:
		r = rolloutReport{reason: v1alpha1.ReasonRolloutHalted, message: t.failure.halted(), needsUser: true}
	case hasFailed(state.Phase) || isGoingBack(state):
		r = t.goingBack.report()
	default:
		r = t.stage(state.ActiveStage()).report()
	}
	r.message += requestErrors(t.outcome.RequestErrors)
	return &r
}

// stage returns the rollout of the target in a stage, or in none.
func (t targetRollout) stage(stage *v1alpha1.RolloutStageStatus) stageProgress {
	return stageProgress{outcome: t.outcome, spec: t.spec, counts: t.counts, pause: t.pause, stage: stage}
}

// completed reports a target that went through all stages.
func (t targetRollout) completed() string {
	state, n := &t.outcome.Rollout, t.counts
	message := fmt.Sprintf("%s runs on %s", targetName(state), wording.CountClusters(n.all))
	if late := n.all - n.target; late > 0 {
		message = fmt.Sprintf("%s went through all stages; %d of %s %s not run it yet", targetName(state), late, wording.CountClusters(n.all), verb(late, "does", "do"))
		if t.pause != "" {
			message += ", because " + t.pause
		}
	}
	var empty []string
	for _, stage := range state.Stages {
		if stage.Phase == v1alpha1.StageSkipped && stage.Clusters == 0 && stage.Name != stages.RestStage {
			empty = append(empty, stage.Name)
		}
	}
	if len(empty) > 0 {
		message += "; no cluster is in stage " + wording.CapNames(empty)
	}
	return message
}

func hasFailed(phase v1alpha1.RolloutPhase) bool {
	switch phase {
	case v1alpha1.RolloutHalted, v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		return true
	}
	return false
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
func countRevisions(state *v1alpha1.RolloutStatus, entries []v1alpha1.ClusterStatus) revisionCounts {
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
		case state.Revision:
			n.target++
		case state.StableRevision:
			n.stable++
		default:
			n.other++
		}
		if entry.Revision != state.StableRevision || entry.UnavailableSince != nil {
			n.returning++
		}
	}
	return n
}

// isLeaving reports whether a cluster keeps the AppService only until its removal.
func isLeaving(entry *v1alpha1.ClusterStatus) bool {
	return slices.Contains([]v1alpha1.TransitionType{v1alpha1.TransitionRemovalPending, v1alpha1.TransitionRemovalNeedsApproval}, entry.Transition.Type)
}
