package rollup

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// lower scales down the rows above their share as far as the replicas that are not ready elsewhere allow it, and notes how many clusters keep
// some until then. It never scales a row up.
//
//   - What an edit asks for waits for what arrives elsewhere, and for nothing else: without arrivals it begins at once, however little is ready
//     on a cluster that has long had its share.
//   - What no edit asks for waits for every cluster of the plan, because replicas that cannot be observed may not serve.
//
// So the replicas that are ready never become fewer than those that were, or than those asked for, whichever are fewer.
func (in Input) lower(drafts []draft) []string {
	lowered := in.lowered(drafts)
	if len(lowered) == 0 {
		return nil
	}
	edited, unedited := in.shortfall(drafts, isArriving), in.shortfall(drafts, isInPlan)
	if in.waitsForNone() {
		edited, unedited = shortfall{}, shortfall{}
	}
	var keeping int32
	var kept int64
	var blockers []string
	for _, d := range lowered {
		missing := edited
		if d.row.Transition.Cause != v1alpha1.CauseEdit {
			missing = unedited
		}
		if !in.divided() {
			missing = in.readyBeside(drafts, d)
		}
		final := in.lowerOne(d, missing, &kept)
		if final.Transition.Type != "" {
			blockers = sortedUnion(blockers, missing.clusters)
			keeping++
		}
		in.replan(d, final)
	}
	if keeping == 0 {
		return nil
	}
	return []string{fmt.Sprintf("it keeps replicas on %s until it is ready on: %s", clusters(keeping), capped(blockers))}
}

// lowerOne returns a row that is scaled down as far as what is missing allows. Kept counts the replicas that all rows keep.
func (in Input) lowerOne(d *draft, missing shortfall, kept *int64) v1alpha1.ClusterStatus {
	final := d.row
	take(&final, *d.lowered)
	switch {
	case in.divided() && in.App.Spec.Autoscaling == nil:
		keeps := min(max(0, missing.shortage-missing.covered-*kept), int64(d.row.Replicas-final.Replicas))
		final.Replicas += int32(keeps)
		*kept += keeps
	case missing.shortage > 0:
		final = d.row
	}
	if !in.lowers(final, *d.lowered) {
		final.Transition = v1alpha1.ClusterTransition{}
	}
	return final
}

// lowered returns the rows that are to run less, without the replicas that are not ready on those that arrive.
func (in Input) lowered(drafts []draft) []*draft {
	var lowered []*draft
	for i := range drafts {
		if d := &drafts[i]; d.lowered != nil {
			lowered = append(lowered, d)
			in.dropUnready(d)
		}
	}
	return lowered
}

// scaleDownCause returns Edit when the scale-down follows from an edit, even if it had to wait since then.
func (in Input) scaleDownCause(d *draft) v1alpha1.TransitionCause {
	edited := d.previous.Generation != 0 && d.previous.Generation != in.App.Generation
	before := d.previous.Transition
	if edited || before.Type == v1alpha1.TransitionScaleDownPending && before.Cause == v1alpha1.CauseEdit {
		return v1alpha1.CauseEdit
	}
	return v1alpha1.CauseDrift
}

// empties reports whether a cluster that runs all replicas for itself is to run none without an edit: an override has come to match it.
func (in Input) empties(d *draft, decision placement.Decision) bool {
	return !in.divided() && decision.MaxReplicas == 0 && decision.Replicas == 0 && d.row.Replicas > 0 && in.scaleDownCause(d) == v1alpha1.CauseDrift
}

// readyBeside returns no shortage when another cluster of the plan is ready, so that this one may be emptied.
func (in Input) readyBeside(drafts []draft, d *draft) shortfall {
	if !mayServe(d) || in.waitsForNone() {
		return shortfall{}
	}
	others := slices.DeleteFunc(slices.Clone(drafts), func(other draft) bool {
		return !isInPlan(&other) || other.row.Name == d.row.Name || other.lowered != nil
	})
	names := in.unreadyInPlan(others)
	if len(names) == 0 && len(others) > 0 {
		return shortfall{}
	}
	if len(others) == 0 {
		names = []string{"another cluster"}
	}
	return shortfall{clusters: names, shortage: 1}
}
