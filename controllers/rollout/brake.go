package rollout

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// sharesPerDrain is the divisor of a share: a cluster that keeps less than a fifth of its share is
// drained. Clusters that join drain no more than a fifth of the others by that.
const sharesPerDrain = 5

// brake limits the scale-downs that no edit asks for, together with the removals that no edit asks
// for: if more clusters than the removal limit are scaled down or left within an hour, each of them
// needs approval. A label that was changed by accident would otherwise take most replicas away at
// once. Two kinds count:
//
//   - where each cluster runs all replicas, every scale-down, because only labels of clusters cause it;
//   - where the clusters divide the replicas, a scale-down to less than a fifth of the share. The number
//     of all replicas stays the same then, and shares follow the size of the fleet.
type brake struct {
	in      Input
	counted v1alpha1.RemovalsStatus
	// held is the number of scale-downs that need approval.
	held int
}

// apply returns the candidates that may be scaled down, and a note on those that need approval.
// docs/decisions/a-label-scales-down-as-it-removes.md says why.
func (b *brake) apply(plans []entryPlan, candidates []*entryPlan) (allowed []*entryPlan, notes []string) {
	asking := slices.DeleteFunc(slices.Clone(candidates), func(e *entryPlan) bool { return !b.in.isUnintendedDrain(e) })
	if len(asking) == 0 {
		return candidates, nil
	}
	budget := b.in.newRemovalBudget(plans, b.counted)
	if budget.unintended <= b.limit(plans, budget) {
		return candidates, nil
	}
	needed := len(asking) + budget.countAsking()
	if accepted, _ := b.in.acceptedRemovals(); int(accepted-b.counted.Accepted) >= needed {
		for _, e := range asking {
			e.entry.Transition.Accepted = true
			b.counted.Accepted++
		}
		b.counted.AcceptedGeneration = b.in.App.Generation
		return candidates, nil
	}
	b.held = len(asking)
	note := fmt.Sprintf("the scale-down on %s needs approval, because labels of clusters changed and no edit asks for it: correct the labels, or annotate the AppService with %s=%d@%d",
		CountClusters(int32(b.held)), v1alpha1.AnnotationAcceptRemovals, int(b.counted.Accepted)+needed, b.in.App.Generation)
	return slices.DeleteFunc(slices.Clone(candidates), b.in.isUnintendedDrain), []string{note}
}

// recordStart counts a scale-down that starts without an edit. If it is not complete, it may go on.
func (b *brake) recordStart(e *entryPlan, final *v1alpha1.ClusterStatus) {
	isStart := final.Replicas < e.entry.Replicas || final.MaxReplicas < e.entry.MaxReplicas
	if !isStart || !b.in.isUnintendedDrain(e) {
		return
	}
	b.counted = b.in.countWithoutEdit(b.counted, func(count *v1alpha1.RemovalCount) { count.ScaleDowns++ })
	final.Transition.Accepted = final.Transition.Type != ""
}

// limit returns how many clusters may be scaled down or left without an edit within an hour. Where the
// clusters divide the replicas, those that join count at once: the others are scaled down for them.
func (b *brake) limit(plans []entryPlan, budget *removalBudget) int32 {
	var inPlan int32
	for i := range plans {
		if b.in.IsDivided() && isInPlan(&plans[i]) {
			inPlan++
		}
	}
	return max(budget.maxConcurrent, inPlan/clustersPerRemoval)
}

// pendingScaleDown returns the transition of a cluster that is to be scaled down. One that has started
// without an edit, or is approved, remains so.
func (in Input) pendingScaleDown(e *entryPlan) v1alpha1.ClusterTransition {
	before := e.previous.Transition
	next := v1alpha1.ClusterTransition{Type: v1alpha1.TransitionScaleDownPending, Cause: in.scaleDownCause(e)}
	next.Accepted = before.Accepted && before.Type == next.Type && before.Cause == next.Cause
	return next
}

// awaitsScaleDown reports whether a scale-down without an edit may need approval.
func awaitsScaleDown(entry v1alpha1.ClusterStatus) bool {
	return entry.Transition.Type == v1alpha1.TransitionScaleDownPending && !entry.Transition.Accepted
}

// isUnintendedDrain reports whether a cluster is to be scaled down without an edit, so far that it
// counts, and that has not started. Replicas that were never ready are dropped at once, and do not count.
func (in Input) isUnintendedDrain(e *entryPlan) bool {
	if e.lowerTarget == nil || !in.isScaleDown(e.entry, *e.lowerTarget) || e.entry.Transition.Cause != v1alpha1.CauseClustersChanged || e.entry.Transition.Accepted {
		return false
	}
	if !in.IsDivided() {
		return true
	}
	has, keeps := e.entry.Replicas, e.lowerTarget.Replicas
	if e.lowerTarget.MaxReplicas > 0 {
		has, keeps = e.entry.MaxReplicas, e.lowerTarget.MaxReplicas
	}
	return int64(keeps)*sharesPerDrain < int64(has)
}
