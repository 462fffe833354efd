package rollout

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// scaleDown reduces the replicas of entries above their share, as far as the unready replicas on
// other clusters allow. It returns a note on how many clusters keep surplus replicas. It never
// scales an entry up.
//
//   - A scale-down that an edit asks for waits only for surging clusters. If no cluster is surging,
//     it starts at once, even if replicas are not ready on a cluster that has had its share for
//     long.
//   - A scale-down without an edit waits for every cluster of the plan, because replicas that
//     cannot be observed may not serve. It may need approval first: see brake.
//
// So a scale-down never reduces the number of ready replicas below the smaller of the previous and
// the requested number.
func (in Input) scaleDown(plans []entryPlan, limit *brake) []string {
	candidates := in.scaleDownCandidates(plans)
	candidates, notes := limit.apply(plans, candidates)
	if len(candidates) == 0 {
		return notes
	}
	editedShortfall, uneditedShortfall := in.shortfall(plans, isSurging), in.shortfall(plans, isInPlan)
	othersShortfall := in.shortfallOfOthers(plans)
	if in.acceptsUnready() {
		editedShortfall, uneditedShortfall, othersShortfall = shortfall{}, shortfall{}, shortfall{}
	}
	var keeping int32
	var kept int64
	blocking := map[*shortfall]bool{}
	for _, e := range candidates {
		missing := &editedShortfall
		switch {
		case !in.IsDivided() && e.lowerTarget.Replicas == 0 && in.mayServe(e):
			missing = &othersShortfall
		case !in.IsDivided():
			missing = &shortfall{}
		case e.entry.Transition.Cause != v1alpha1.CauseEdit:
			missing = &uneditedShortfall
		}
		final := in.scaleDownOne(e, *missing, &kept)
		limit.recordStart(e, &final)
		if final.Transition.Type != "" {
			blocking[missing] = true
			keeping++
		}
		in.refresh(e, final)
	}
	if keeping == 0 {
		return notes
	}
	var blockers []string
	for missing := range blocking {
		blockers = sortedUnion(blockers, missing.clusters)
	}
	return append(notes, fmt.Sprintf("the scale-down on %s is pending until the AppService is ready on: %s", CountClusters(keeping), CapNames(blockers)))
}

// scaleDownOne returns an entry that is scaled down as far as the shortfall allows. It adds the
// surplus replicas that the entry keeps, and that are known to be ready, to kept, their total over all
// entries.
func (in Input) scaleDownOne(e *entryPlan, missing shortfall, kept *int64) v1alpha1.ClusterStatus {
	final := e.entry
	setReplicas(&final, *e.lowerTarget)
	switch {
	case in.IsDivided() && in.App.Spec.Autoscaling == nil:
		target := final.Replicas
		final.Replicas += int32(min(max(0, missing.unready-missing.readyOnLeaving-*kept), int64(e.entry.Replicas-target)))
		*kept += int64(max(0, min(knownReadyReplicas(e.entry), final.Replicas)-target))
	case missing.unready > 0:
		final = e.entry
	}
	if !in.isScaleDown(final, *e.lowerTarget) {
		final.Transition = v1alpha1.ClusterTransition{}
	}
	return final
}

// scaleDownCandidates returns the entries that have a lower target, after it has dropped the
// unready replicas of surging entries.
func (in Input) scaleDownCandidates(plans []entryPlan) []*entryPlan {
	var candidates []*entryPlan
	for i := range plans {
		if e := &plans[i]; e.lowerTarget != nil {
			candidates = append(candidates, e)
			in.dropUnready(e)
		}
	}
	return candidates
}

// scaleDownCause returns CauseEdit if the scale-down follows from an edit, even if it has been
// pending since an earlier edit, and CauseClustersChanged otherwise.
func (in Input) scaleDownCause(e *entryPlan) v1alpha1.TransitionCause {
	before := e.previous.Transition
	isPending := before.Type == v1alpha1.TransitionScaleDownPending && before.Cause == v1alpha1.CauseEdit
	if isPending || in.isReplicasEdited(e.previous) {
		return v1alpha1.CauseEdit
	}
	return v1alpha1.CauseClustersChanged
}

// isReplicasEdited reports whether a user has edited a field that sets replicas since an entry was
// planned. Any other edit expresses no intent to scale down. An entry that was not planned with the last
// status, for example while the AppService was suspended, may have missed such an edit. A status of an
// older version does not have the hash, so every edit counts.
func (in Input) isReplicasEdited(previous *v1alpha1.ClusterStatus) bool {
	if previous.Generation == 0 || previous.Generation == in.App.Generation {
		return false
	}
	planned := in.App.Status.Placement.ReplicasHash
	return previous.Generation != in.App.Status.ObservedGeneration || planned == "" || planned != lineage.ReplicasHash(in.App)
}

// isScaleDown reports whether a decision scales an entry down. The bounds of an entry do not count
// if spec.autoscaling is no longer set.
func (in Input) isScaleDown(entry v1alpha1.ClusterStatus, decision placement.Decision) bool {
	if in.App.Spec.Autoscaling == nil {
		return decision.Replicas < entry.Replicas
	}
	return decision.MinReplicas < entry.MinReplicas || decision.MaxReplicas < entry.MaxReplicas ||
		decision.MaxReplicas == 0 && decision.Replicas < entry.Replicas
}

// isCut reports whether a cluster is to be scaled down without an edit, where each cluster runs all
// replicas: an override has started or stopped to match. With externallyScaled, replicas is only the
// initial number, unless it is 0. What runs on a cluster that was recovered is not compared.
func (in Input) isCut(e *entryPlan, decision placement.Decision) bool {
	if in.IsDivided() || decision.MaxReplicas > 0 || decision.Replicas >= e.entry.Replicas || in.scaleDownCause(e) != v1alpha1.CauseClustersChanged {
		return false
	}
	return decision.Replicas == 0 || !in.App.Spec.ExternallyScaled && e.previous.Generation != 0
}

// shortfallOfOthers returns the shortfall that a scale-down to zero waits for: the clusters of the
// plan that are not to be scaled down, or nothing if any of them is ready. The number of unready
// replicas is 1 instead of their sum, because scaleDownOne only checks that it is positive.
func (in Input) shortfallOfOthers(plans []entryPlan) shortfall {
	others := slices.DeleteFunc(slices.Clone(plans), func(other entryPlan) bool { return !isInPlan(&other) || other.lowerTarget != nil })
	names := in.unreadyInPlan(others)
	if len(names) == 0 && len(others) > 0 {
		return shortfall{}
	}
	if len(others) == 0 {
		names = []string{"another cluster"} // the plan has no other cluster to name
	}
	return shortfall{clusters: names, unready: 1}
}

// dropUnready drops unready replicas above the target from a surging entry. Keeping them would not
// keep any ready replica. Replicas that were ready when the cluster was last observed may still be.
func (in Input) dropUnready(e *entryPlan) {
	if e.entry.Surging && in.App.Spec.Autoscaling == nil {
		fewer := e.entry
		fewer.Replicas = max(e.lowerTarget.Replicas, min(e.entry.ReadyReplicas, e.entry.Replicas))
		in.refresh(e, fewer)
	}
}

// refresh recomputes the observed part of an entry plan after its replicas have changed.
func (in Input) refresh(e *entryPlan, entry v1alpha1.ClusterStatus) {
	e.entry = *in.runningEntry(entry, e.previous, e.seen, e.member)
}
