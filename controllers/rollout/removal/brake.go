package removal

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
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
	counted *counters
	// held is the number of scale-downs that need approval.
	held int
}

// apply returns the candidates that may be scaled down, and a note on those that need approval.
// docs/decisions/a-label-scales-down-as-it-removes.md says why.
func (b *brake) apply(plans []entryplan.Plan, candidates []*entryplan.Plan) (allowed []*entryplan.Plan, notes []string) {
	isDrain := func(e *entryplan.Plan) bool { return isUnintendedDrain(b.in.App, e) }
	asking := slices.DeleteFunc(slices.Clone(candidates), func(e *entryplan.Plan) bool { return !isDrain(e) })
	if len(asking) == 0 {
		return candidates, nil
	}
	budget := newBudget(b.in, plans, b.counted)
	if budget.unintended <= b.limit(plans, budget) {
		return candidates, nil
	}
	if accepted, _ := acceptedRemovals(b.in.App); int(accepted-b.counted.Accepted) >= len(asking)+budget.countAsking() {
		for _, e := range asking {
			b.counted.accept(e)
		}
		return candidates, nil
	}
	budget.acknowledge() // if an approval is for fewer, it is for removals; what is left may be within the limit
	if budget.unintended <= b.limit(plans, budget) {
		return candidates, nil
	}
	b.held = len(asking)
	note := fmt.Sprintf("the scale-down on %s needs approval, because labels of clusters changed and no edit asks for it: correct the labels, or annotate the AppService with %s=%d@%d",
		wording.CountClusters(int32(b.held)), v1alpha1.AnnotationAcceptRemovals, int(b.counted.Accepted)+b.held+budget.countAsking(), b.in.App.Generation)
	return slices.DeleteFunc(slices.Clone(candidates), isDrain), []string{note}
}

// recordStart counts a scale-down that starts without an edit. If it is not complete, it may go on.
func (b *brake) recordStart(e *entryplan.Plan, final *v1alpha1.ClusterStatus) {
	isStart := final.Replicas < e.Entry.Replicas || final.MaxReplicas < e.Entry.MaxReplicas
	if !isStart || !isUnintendedDrain(b.in.App, e) {
		return
	}
	b.counted.countWithoutEdit(func(count *v1alpha1.RemovalCount) { count.ScaleDowns++ })
	final.Transition.Accepted = final.Transition.Type != ""
}

// limit returns how many clusters may be scaled down or left without an edit within an hour. Where the
// clusters divide the replicas, those that join count at once: the others are scaled down for them.
func (b *brake) limit(plans []entryplan.Plan, budget *budget) int32 {
	var inPlan int32
	for i := range plans {
		if b.in.App.DividesReplicas() && isInPlan(&plans[i]) {
			inPlan++
		}
	}
	return max(budget.maxConcurrent, inPlan/clustersPerRemoval)
}

// awaitsScaleDown reports whether a scale-down without an edit may need approval.
func awaitsScaleDown(entry v1alpha1.ClusterStatus) bool {
	return entry.Transition.Type == v1alpha1.TransitionScaleDownPending && !entry.Transition.Accepted
}

// isUnintendedDrain reports whether a cluster is to be scaled down without an edit, so far that it
// counts, and that has not started. Replicas that were never ready are dropped at once, and do not count.
func isUnintendedDrain(app *v1alpha1.AppService, e *entryplan.Plan) bool {
	if e.LowerTarget == nil || !entryplan.IsScaleDown(app, e.Entry, *e.LowerTarget) || e.Entry.Transition.Cause != v1alpha1.CauseClustersChanged || e.Entry.Transition.Accepted {
		return false
	}
	if !app.DividesReplicas() {
		return true
	}
	has, keeps := e.Entry.Replicas, e.LowerTarget.Replicas
	if e.LowerTarget.MaxReplicas > 0 {
		has, keeps = e.Entry.MaxReplicas, e.LowerTarget.MaxReplicas
	}
	return int64(keeps)*sharesPerDrain < int64(has)
}
