package rollout

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// heldBefore is the message of an entry whose removal needs approval while there is no plan.
const heldBefore = "the last plan did not choose the cluster: when the AppService is not suspended and its placement is valid, annotate it with " +
	v1alpha1.AnnotationAcceptRemovals + "=NUMBER@GENERATION to approve the removal"

// carryHolds sets the message of held entries while there is no plan or the AppService is
// suspended.
func (in Input) carryHolds(plans []entryPlan) {
	for i := range plans {
		e := &plans[i]
		if e.entry.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval && IsPlanned(e.entry) && (e.leaves || in.PlanError != nil) {
			setWaitingReason(e, v1alpha1.ReasonRemovalNeedsApproval, heldBefore)
		}
	}
}

// setWaitingReason explains on an entry why its removal has not started. A cluster that cannot be
// observed stays Unknown. A Failed cluster whose removal needs approval stays Failed. Both states
// may last.
func setWaitingReason(e *entryPlan, reason, message string) {
	switch e.entry.Phase {
	case v1alpha1.ClusterUnknown:
		return
	case v1alpha1.ClusterFailed:
		if reason == v1alpha1.ReasonRemovalNeedsApproval {
			return
		}
		e.entry.Phase = v1alpha1.ClusterProgressing
	case v1alpha1.ClusterPending: // there is still no observation
	default:
		e.entry.Phase = v1alpha1.ClusterProgressing
	}
	e.entry.Reason, e.entry.Message = reason, BoundMessage(message)
}

// explain sets the transition and the message of each cluster whose removal has not started. It
// returns notes about all of them together.
func (t *removalBudget) explain() []string {
	for _, e := range t.leaving {
		if !e.leaves {
			continue // its removal has started
		}
		switch t.verdict(e) {
		case needsApproval:
			t.onHold = append(t.onHold, e)
		case isBlocked:
			t.blocked = append(t.blocked, e)
		default:
			t.waiting = append(t.waiting, e)
		}
	}
	var notes []string
	for _, note := range []string{t.explainBlocked(), t.explainWaiting(), t.explainHeld()} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if annotationError := t.annotationError(); len(notes) > 0 && annotationError != "" {
		notes = append(notes, annotationError[len("; "):])
	}
	return notes
}

// explainWaiting explains the removals that wait for other removals.
func (t *removalBudget) explainWaiting() string {
	if len(t.waiting) == 0 {
		return ""
	}
	slices.Sort(t.removing)
	next := t.annotationError()
	if next == "" {
		all := len(t.onHold) + len(t.waiting) + len(t.blocked)
		next = fmt.Sprintf("; annotate the AppService with %s to approve %s regardless of this limit", t.acceptance(all), removals(all))
	}
	for _, e := range t.waiting {
		e.entry.Transition.Type = v1alpha1.TransitionRemovalPending
		setWaitingReason(e, v1alpha1.ReasonRemovalPending, fmt.Sprintf("the removal waits for removals from other clusters: %s; at most %d may run at a time%s", CapNames(t.removing), t.maxConcurrent, next))
	}
	return fmt.Sprintf("the removal from %s is pending: at most %d may run at a time", CountClusters(int32(len(t.waiting))), t.maxConcurrent)
}

// explainHeld explains the removals that a user must approve.
func (t *removalBudget) explainHeld() string {
	if len(t.onHold) == 0 {
		return ""
	}
	for _, e := range t.onHold {
		why := t.whyHeld(e)
		e.entry.Transition.Type = v1alpha1.TransitionRemovalNeedsApproval
		setWaitingReason(e, v1alpha1.ReasonRemovalNeedsApproval, fmt.Sprintf("%s: annotate the AppService with %s to approve %s%s", why, t.toAccept(), removals(len(t.onHold)), t.annotationError()))
	}
	return fmt.Sprintf("the removal from %s needs approval: annotate the AppService with %s", CountClusters(int32(len(t.onHold))), t.toAccept())
}

// explainBlocked explains the removals that wait for clusters to become ready.
func (t *removalBudget) explainBlocked() string {
	var blockers []string
	for _, e := range t.blocked {
		e.entry.Transition.Type = v1alpha1.TransitionRemovalPending
		setWaitingReason(e, v1alpha1.ReasonRemovalPending, fmt.Sprintf("the removal starts when the AppService is ready on: %s; annotate the AppService with %s=true to end this wait%s",
			CapNames(e.blockers), v1alpha1.AnnotationAcceptUnready, t.annotationError()))
		blockers = sortedUnion(blockers, e.blockers)
	}
	if len(t.blocked) == 0 {
		return ""
	}
	return fmt.Sprintf("the removal from %s is pending until the AppService is ready on: %s", CountClusters(int32(len(t.blocked))), CapNames(blockers))
}

// whyHeld returns the reason why a user must approve a removal.
func (t *removalBudget) whyHeld(e *entryPlan) string {
	switch {
	case t.isLast(e):
		return "the plan chooses no cluster, and no other cluster is known to be ready"
	case e.entry.Transition.Cause == v1alpha1.CauseRecovered:
		return "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"
	case e.entry.Transition.Cause == v1alpha1.CauseRejoined:
		return "the cluster has joined the fleet again, and the plan does not choose it"
	}
	return fmt.Sprintf("%s left the plan within an hour, and spec.placement was not edited", CountClusters(t.unintended))
}

// toAccept returns the annotation that approves the held removals or, if none is held, the waiting
// removals.
func (t *removalBudget) toAccept() string {
	number := len(t.onHold)
	if number == 0 {
		number = len(t.waiting) + len(t.blocked)
	}
	return t.acceptance(number)
}

// acceptance returns the annotation that approves this many more removals.
func (t *removalBudget) acceptance(more int) string {
	return fmt.Sprintf("%s=%d@%d", v1alpha1.AnnotationAcceptRemovals, int(t.counted.Accepted)+more, t.in.App.Generation)
}

func removals(n int) string {
	if n == 1 {
		return "1 removal"
	}
	return fmt.Sprintf("%d removals", n)
}

// annotationError returns what is wrong with the annotation and which value to set, or "".
func (t *removalBudget) annotationError() string {
	_, wrong := t.in.acceptedRemovals()
	if wrong == "" {
		return ""
	}
	return fmt.Sprintf("; annotation %s %s: set %s", v1alpha1.AnnotationAcceptRemovals, wrong, t.toAccept())
}
