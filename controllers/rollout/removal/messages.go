package removal

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// heldBefore is the message of an entry whose removal needs approval while there is no plan.
const heldBefore = "the last plan did not choose the cluster: when the AppService is not suspended and its placement is valid, annotate it with " +
	v1alpha1.AnnotationAcceptRemovals + "=NUMBER@GENERATION to approve the removal"

// carryHolds sets the message of held entries while there is no plan or the AppService is
// suspended.
func (in Input) carryHolds(plans []entryplan.Plan) {
	for i := range plans {
		e := &plans[i]
		if e.Entry.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval && entryplan.IsPlanned(e.Entry) && (e.IsLeaving || !in.HasPlan) {
			setWaitingReason(e, v1alpha1.ReasonRemovalNeedsApproval, heldBefore)
		}
	}
}

// setWaitingReason explains on an entry why its removal has not started. A cluster that cannot be
// observed stays Unknown. A Failed cluster whose removal needs approval stays Failed. Both states
// may last. All others are Progressing, and the AppService is not Stalled: clusters that keep running
// are no failure that a pipeline should stop for.
func setWaitingReason(e *entryplan.Plan, reason, message string) {
	switch e.Entry.Phase {
	case v1alpha1.ClusterUnknown:
		return
	case v1alpha1.ClusterFailed:
		if reason == v1alpha1.ReasonRemovalNeedsApproval {
			return
		}
		e.Entry.Phase = v1alpha1.ClusterProgressing
	case v1alpha1.ClusterPending: // there is still no observation
	default:
		e.Entry.Phase = v1alpha1.ClusterProgressing
	}
	e.Entry.Reason, e.Entry.Message = reason, wording.Bound(message)
}

// explain sets the transition and the message of each cluster whose removal has not started. It
// returns notes about all of them together.
func (b *budget) explain() []string {
	for _, e := range b.leaving {
		if !e.IsLeaving {
			continue // its removal has started
		}
		switch b.decide(e) {
		case needsApproval:
			b.onHold = append(b.onHold, e)
		case isBlocked:
			b.blocked = append(b.blocked, e)
		default:
			b.waiting = append(b.waiting, e)
		}
	}
	var notes []string
	for _, note := range []string{b.explainBlocked(), b.explainWaiting(), b.explainHeld()} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if annotationError := b.annotationError(); len(notes) > 0 && annotationError != "" {
		notes = append(notes, annotationError[len("; "):])
	}
	return notes
}

// explainWaiting explains the removals that wait for other removals.
func (b *budget) explainWaiting() string {
	if len(b.waiting) == 0 {
		return ""
	}
	slices.Sort(b.removing)
	next := b.annotationError()
	if next == "" {
		all := len(b.onHold) + len(b.waiting) + len(b.blocked)
		next = fmt.Sprintf("; annotate the AppService with %s to approve %s regardless of this limit", b.acceptance(all), removals(all))
	}
	for _, e := range b.waiting {
		e.Entry.Transition.Type = v1alpha1.TransitionRemovalPending
		setWaitingReason(e, v1alpha1.ReasonRemovalPending, fmt.Sprintf("the removal waits for removals from other clusters: %s; at most %d may run at a time%s", wording.CapNames(b.removing), b.maxConcurrent, next))
	}
	return fmt.Sprintf("the removal from %s is pending: at most %d may run at a time", wording.CountClusters(int32(len(b.waiting))), b.maxConcurrent)
}

// explainHeld explains the removals that a user must approve.
func (b *budget) explainHeld() string {
	if len(b.onHold) == 0 {
		return ""
	}
	for _, e := range b.onHold {
		why := b.whyHeld(e)
		e.Entry.Transition.Type = v1alpha1.TransitionRemovalNeedsApproval
		setWaitingReason(e, v1alpha1.ReasonRemovalNeedsApproval, fmt.Sprintf("%s: annotate the AppService with %s to approve %s%s", why, b.toAccept(), removals(len(b.onHold)), b.annotationError()))
	}
	return fmt.Sprintf("the removal from %s needs approval: annotate the AppService with %s", wording.CountClusters(int32(len(b.onHold))), b.toAccept())
}

// explainBlocked explains the removals that wait for clusters to become ready.
func (b *budget) explainBlocked() string {
	var blockers []string
	for _, e := range b.blocked {
		e.Entry.Transition.Type = v1alpha1.TransitionRemovalPending
		setWaitingReason(e, v1alpha1.ReasonRemovalPending, fmt.Sprintf("the removal starts when the AppService is ready on: %s; annotate the AppService with %s=true to end this wait%s",
			wording.CapNames(b.blockers[e.Entry.Name]), v1alpha1.AnnotationAcceptUnready, b.annotationError()))
		if len(b.blockers[e.Entry.Name]) > len(blockers) { // the longer list contains the shorter one
			blockers = b.blockers[e.Entry.Name]
		}
	}
	if len(b.blocked) == 0 {
		return ""
	}
	return fmt.Sprintf("the removal from %s is pending until the AppService is ready on: %s", wording.CountClusters(int32(len(b.blocked))), wording.CapNames(blockers))
}

// whyHeld returns the reason why a user must approve a removal.
func (b *budget) whyHeld(e *entryplan.Plan) string {
	switch {
	case b.isLast(e) && slices.ContainsFunc(b.in.Plan, placement.Decision.Chosen):
		return "the plan has 0 replicas on the other clusters, and no other cluster is known to be ready"
	case b.isLast(e):
		return "the plan chooses no cluster, and no other cluster is known to be ready"
	case e.Entry.Transition.Cause == v1alpha1.CauseRecovered:
		return "the workload was found here without an entry in status.clusters, and the plan does not choose the cluster"
	case e.Entry.Transition.Cause == v1alpha1.CauseRejoined:
		return "the cluster has joined the fleet again, and the plan does not choose it"
	}
	what := "left the plan"
	if b.scaledDown > 0 {
		what += " or were scaled down"
	}
	return fmt.Sprintf("%s %s within an hour, and spec.placement was not edited", wording.CountClusters(b.unintended), what)
}

// toAccept returns the annotation that approves the held removals or, if none is held, the waiting
// removals.
func (b *budget) toAccept() string {
	number := len(b.onHold)
	if number == 0 {
		number = len(b.waiting) + len(b.blocked)
	}
	return b.acceptance(number)
}

// acceptance returns the annotation that approves this many more removals, and the held scale-downs.
func (b *budget) acceptance(more int) string {
	return fmt.Sprintf("%s=%d@%d", v1alpha1.AnnotationAcceptRemovals, int(b.counted.Accepted)+b.heldScaleDowns+more, b.in.App.Generation)
}

func removals(n int) string {
	if n == 1 {
		return "1 removal"
	}
	return fmt.Sprintf("%d removals", n)
}

// annotationError returns what is wrong with the annotation and which value to set, or "".
func (b *budget) annotationError() string {
	_, wrong := acceptedRemovals(b.in.App)
	if wrong == "" {
		return ""
	}
	return fmt.Sprintf("; annotation %s %s: set %s", v1alpha1.AnnotationAcceptRemovals, wrong, b.toAccept())
}
