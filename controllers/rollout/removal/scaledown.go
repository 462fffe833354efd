package removal

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
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
func (in Input) scaleDown(plans []entryplan.Plan, limit *brake) []string {
	candidates := scaleDownCandidates(in.App, plans)
	candidates, notes := limit.apply(plans, candidates)
	if len(candidates) == 0 {
		return notes
	}
	editedShortfall, uneditedShortfall := in.shortfall(plans, isSurging), in.shortfall(plans, isInPlan)
	othersShortfall := in.shortfallOfOthers(plans)
	if acceptsUnready(in.App) {
		editedShortfall, uneditedShortfall, othersShortfall = shortfall{}, shortfall{}, shortfall{}
	}
	var keeping int32
	var kept int64
	blocking := map[*shortfall]bool{}
	for _, e := range candidates {
		missing := &editedShortfall
		switch {
		case !in.App.DividesReplicas() && e.LowerTarget.Replicas == 0 && mayServe(in.App, e):
			missing = &othersShortfall
		case !in.App.DividesReplicas():
			missing = &shortfall{}
		case e.Entry.Transition.Cause != v1alpha1.CauseEdit:
			missing = &uneditedShortfall
		}
		final := in.scaleDownOne(e, *missing, &kept)
		limit.recordStart(e, &final)
		if final.Transition.Type != "" {
			blocking[missing] = true
			keeping++
		}
		e.Refresh(final)
	}
	if keeping == 0 {
		return notes
	}
	var blockers []string
	for missing := range blocking {
		blockers = sortedUnion(blockers, missing.clusters)
	}
	return append(notes, fmt.Sprintf("the scale-down on %s is pending until the AppService is ready on: %s", wording.CountClusters(keeping), wording.CapNames(blockers)))
}

// scaleDownOne returns an entry that is scaled down as far as the shortfall allows. It adds the
// surplus replicas that the entry keeps, and that are known to be ready, to kept, their total over all
// entries.
func (in Input) scaleDownOne(e *entryplan.Plan, missing shortfall, kept *int64) v1alpha1.ClusterStatus {
	final := e.Entry
	entryplan.SetReplicas(&final, *e.LowerTarget)
	switch {
	case in.App.DividesReplicas() && in.App.Spec.Autoscaling == nil:
		target := final.Replicas
		final.Replicas += int32(min(max(0, missing.unready-missing.readyOnLeaving-*kept), int64(e.Entry.Replicas-target)))
		*kept += int64(max(0, min(knownReadyReplicas(e.Entry), final.Replicas)-target))
	case missing.unready > 0:
		final = e.Entry
	}
	if !entryplan.IsScaleDown(in.App, final, *e.LowerTarget) {
		final.Transition = v1alpha1.ClusterTransition{}
	}
	return final
}

// scaleDownCandidates returns the entries that have a lower target, after it has dropped the
// unready replicas of surging entries.
func scaleDownCandidates(app *v1alpha1.AppService, plans []entryplan.Plan) []*entryplan.Plan {
	var candidates []*entryplan.Plan
	for i := range plans {
		if e := &plans[i]; e.LowerTarget != nil {
			candidates = append(candidates, e)
			dropUnready(app, e)
		}
	}
	return candidates
}

// dropUnready drops unready replicas above the target from a surging entry. Keeping them would not
// keep any ready replica. Replicas that were ready when the cluster was last observed may still be.
func dropUnready(app *v1alpha1.AppService, e *entryplan.Plan) {
	if e.Entry.Surging && app.Spec.Autoscaling == nil {
		fewer := e.Entry
		fewer.Replicas = max(e.LowerTarget.Replicas, min(e.Entry.ReadyReplicas, e.Entry.Replicas))
		e.Refresh(fewer)
	}
}
