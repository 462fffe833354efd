package rollup

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// heldBefore is what an entry says whose removal is held, while nothing can be decided.
const heldBefore = "no longer fitted when that could last be told: it is kept until that is acknowledged by annotation " + v1alpha1.AnnotationAcceptRemovals

// departure returns the transition of an entry that is not being removed yet: none while its cluster is in the plan, otherwise
// why the cluster left the plan. The cause is decided when the cluster leaves, and remembered.
func (in Input) departure(d *draft, decision placement.Decision) v1alpha1.ClusterTransition {
	before := d.row.Transition
	switch {
	case in.PlanError != nil:
		return before
	case decision.Chosen() && before.Type == v1alpha1.TransitionScaleDownPending:
		return before // until assign decides again
	case decision.Chosen():
		return v1alpha1.ClusterTransition{}
	case d.previous.Phase == v1alpha1.ClusterDetached:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseRejoined}
	case before.Type == v1alpha1.TransitionRemovalPending, before.Type == v1alpha1.TransitionRemovalNeedsApproval:
		return before
	case d.previous.Generation == 0:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseRecovered}
	case in.isPlacementEdited() && d.previous.Generation != in.App.Generation:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseEdit}
	case decision.Reason == v1alpha1.ReasonLimitReached:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseDisplaced}
	}
	return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseDrift}
}

// isPlacementEdited reports whether somebody has edited spec.placement since the status was written. Any other edit is no intent to leave a
// cluster. A status of an older version does not say by which placement it was planned; then every edit counts.
func (in Input) isPlacementEdited() bool {
	if in.App.Status.ObservedGeneration == in.App.Generation {
		return false
	}
	planned := in.App.Status.Placement.SpecHash
	return planned == "" || planned != lineage.PlacementHash(in.App)
}

// isUnintended reports whether a cluster left the plan in a way that may be an accident, and nobody has accepted that.
func isUnintended(d *draft) bool {
	switch d.row.Transition.Cause {
	case v1alpha1.CauseDrift, v1alpha1.CauseRecovered, v1alpha1.CauseRejoined:
		return !d.row.Transition.Accepted
	}
	return false
}

// remove begins removals from clusters that left the plan, in order of name, and explains on the others why not yet. It returns the
// count of removals, and notes about them all together. A removal begins in these steps:
//
//  1. One that nobody may have meant is held until somebody accepts it: when such removals are more than a fifth of the clusters within
//     an hour, or the cluster was recovered, or has rejoined.
//  2. It waits for the clusters that must become ready first: see awaited, and unreadyInPlan.
//  3. While the plan chooses no cluster, the last one that is ready is held.
//  4. At most a fifth of the clusters are removed from at a time, and those that are accepted.
func (in Input) remove(drafts []draft) (v1alpha1.RemovalsStatus, []string) {
	counted := in.removals()
	if in.suspended() || in.PlanError != nil {
		in.keepHeld(drafts)
		return counted, nil
	}
	t := in.tally(drafts, counted)
	if len(t.leaving) == 0 {
		return counted, nil
	}
	t.acknowledge()
	surging, unready := in.awaited(drafts), in.unreadyInPlan(drafts)
	for _, d := range t.leaving {
		d.blockers = surging
		if d.row.Transition.Cause != v1alpha1.CauseEdit && mayServe(d) {
			d.blockers = sortedUnion(surging, unready)
		}
		if t.verdict(d) == begins {
			t.begin(d)
		}
	}
	return t.counted, t.explain()
}

// verdict is what becomes of a cluster that left the plan.
type verdict int

const (
	begins  verdict = iota // its removal begins
	held                   // it waits for somebody to accept it
	blocked                // it waits for other clusters to become ready
	waits                  // it waits for its turn
)

// verdict decides on one removal.
func (t *tally) verdict(d *draft) verdict {
	switch {
	case t.needsAcknowledgement(d):
		return held
	case !d.member.IsReady() && t.in.abandons(d.row.Name):
		return begins
	case len(d.blockers) > 0:
		return blocked
	case t.isLast(d) && !d.row.Transition.Accepted:
		return held
	case t.admits(d):
		return begins
	}
	return waits
}

// keepHeld explains on held entries that they are held, while there is no plan or it is suspended.
func (in Input) keepHeld(drafts []draft) {
	for i := range drafts {
		d := &drafts[i]
		if d.row.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval && planned(d.row) && (d.leaves || in.PlanError != nil) {
			keep(d, v1alpha1.ReasonRemovalNeedsApproval, heldBefore)
		}
	}
}

// mayServe reports whether pods of the AppService may be ready on a cluster, also when it cannot be observed.
func mayServe(d *draft) bool {
	return d.row.ReadyReplicas > 0 && wanted(d.row) > 0
}

// serves reports whether pods of the AppService are known to be ready on a cluster, and stay there.
func serves(d *draft) bool {
	return d.member != nil && d.member.IsReady() && planned(d.row) && ready(d.row) > 0 && wanted(d.row) > 0
}

// unreadyInPlan returns the clusters of the plan that must become ready before anything may be taken away that nobody asked to take away.
// Where the clusters divide the replicas, all must be ready; otherwise one must.
func (in Input) unreadyInPlan(drafts []draft) []string {
	if in.waitsForNone() {
		return nil
	}
	if in.divided() {
		return in.shortfall(drafts, isInPlan).clusters
	}
	var names []string
	for i := range drafts {
		d := &drafts[i]
		switch {
		case !isInPlan(d):
		case serves(d) && complete(d.row):
			return nil
		default:
			names = append(names, d.row.Name)
		}
	}
	return names
}

// isInPlan reports whether the plan has the cluster.
func isInPlan(d *draft) bool { return planned(d.row) && !d.leaves }

// keep explains on an entry why its cluster is not removed from yet. A cluster that cannot be observed stays Unknown, and a held one that
// has failed stays Failed, because both may last.
func keep(d *draft, reason, message string) {
	switch d.row.Phase {
	case v1alpha1.ClusterUnknown:
		return
	case v1alpha1.ClusterFailed:
		if reason == v1alpha1.ReasonRemovalNeedsApproval {
			return
		}
		d.row.Phase = v1alpha1.ClusterProgressing
	case v1alpha1.ClusterPending: // nothing is known still
	default:
		d.row.Phase = v1alpha1.ClusterProgressing
	}
	d.row.Reason, d.row.Message = reason, bounded(message)
}

// explain sets the transitions of the clusters that are not removed from yet, explains them, and returns notes about them all together.
func (t *tally) explain() []string {
	for _, d := range t.leaving {
		if !d.leaves {
			continue // it has begun
		}
		switch t.verdict(d) {
		case held:
			t.held = append(t.held, d)
		case blocked:
			t.blocked = append(t.blocked, d)
		default:
			t.waiting = append(t.waiting, d)
		}
	}
	var notes []string
	for _, note := range []string{t.explainBlocked(), t.explainWaiting(), t.explainHeld()} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if complaint := t.complaint(); len(notes) > 0 && complaint != "" {
		notes = append(notes, complaint[len("; "):])
	}
	return notes
}

// explainWaiting explains the removals that wait for their turn.
func (t *tally) explainWaiting() string {
	if len(t.waiting) == 0 {
		return ""
	}
	slices.Sort(t.removing)
	next := t.complaint()
	if next == "" {
		all := len(t.held) + len(t.waiting) + len(t.blocked)
		next = fmt.Sprintf("; annotate the AppService with %s to accept %s at once", t.acceptance(all), removals(all))
	}
	for _, d := range t.waiting {
		d.row.Transition.Type = v1alpha1.TransitionRemovalPending
		keep(d, v1alpha1.ReasonRemovalPending, fmt.Sprintf("it is removed after %s: from no more than %d at a time%s", capped(t.removing), t.most, next))
	}
	return fmt.Sprintf("it waits to be removed from %s, no more than %d at a time", clusters(int32(len(t.waiting))), t.most)
}

// explainHeld explains the removals that somebody has to accept.
func (t *tally) explainHeld() string {
	if len(t.held) == 0 {
		return ""
	}
	for _, d := range t.held {
		why := t.whyHeld(d)
		d.row.Transition.Type = v1alpha1.TransitionRemovalNeedsApproval
		keep(d, v1alpha1.ReasonRemovalNeedsApproval, fmt.Sprintf("%s: annotate the AppService with %s to remove it%s", why, t.toAccept(), t.complaint()))
	}
	return fmt.Sprintf("it is kept on %s until it is annotated with %s", clusters(int32(len(t.held))), t.toAccept())
}

// explainBlocked explains the removals that wait for clusters to become ready.
func (t *tally) explainBlocked() string {
	var blockers []string
	for _, d := range t.blocked {
		d.row.Transition.Type = v1alpha1.TransitionRemovalPending
		keep(d, v1alpha1.ReasonRemovalPending, fmt.Sprintf("it is removed when it is ready on: %s; annotate the AppService with %s=true not to wait for that%s",
			capped(d.blockers), v1alpha1.AnnotationAcceptUnready, t.complaint()))
		blockers = sortedUnion(blockers, d.blockers)
	}
	if len(t.blocked) == 0 {
		return ""
	}
	return fmt.Sprintf("it waits to be removed from %s until it is ready on: %s", clusters(int32(len(t.blocked))), capped(blockers))
}

// whyHeld says why somebody has to accept a removal.
func (t *tally) whyHeld(d *draft) string {
	switch {
	case t.isLast(d):
		return "the plan chooses no cluster, and no other one is known to be ready"
	case d.row.Transition.Cause == v1alpha1.CauseRecovered:
		return "it was found here without an entry, and the plan does not choose the cluster"
	case d.row.Transition.Cause == v1alpha1.CauseRejoined:
		return "the cluster has joined again, and the plan does not choose it"
	}
	return fmt.Sprintf("nobody edited the AppService, and the plan no longer chooses %s, this one among them", clusters(t.unintended))
}

func sortedUnion(a, b []string) []string {
	union := slices.Concat(a, b)
	slices.Sort(union)
	return slices.Compact(union)
}
