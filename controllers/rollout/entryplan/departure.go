package entryplan

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// departure returns the transition of an entry whose removal has not started: none while its
// cluster is in the plan, otherwise a transition with the cause why the cluster left the plan. The
// cause is decided when the cluster leaves, and stored.
// docs/decisions/why-a-cluster-leaves-is-a-typed-transition.md says why.
func (in *Input) departure(e *Plan, decision placement.Decision) v1alpha1.ClusterTransition {
	before := e.Entry.Transition
	switch {
	case !in.HasPlan:
		return before
	case decision.Chosen() && before.Type == v1alpha1.TransitionScaleDownPending:
		return before // assign decides again
	case decision.Chosen():
		return v1alpha1.ClusterTransition{}
	case e.Previous.Phase == v1alpha1.ClusterDetached:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseRejoined}
	case AwaitsRemoval(e.Entry):
		return before
	case e.Previous.Generation == 0:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseRecovered}
	case in.isPlacementEdited() && e.Previous.Generation != in.App.Generation:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseEdit}
	case decision.Reason == v1alpha1.ReasonLimitReached:
		return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseDisplaced}
	}
	return v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseClustersChanged}
}

// isPlacementEdited reports whether a user has edited spec.placement since the status was written.
// Any other edit does not express an intent to leave a cluster. A status of an older version does
// not contain the hash of its placement, so every edit counts.
func (in *Input) isPlacementEdited() bool {
	if in.App.Status.ObservedGeneration == in.App.Generation {
		return false
	}
	planned := in.App.Status.Placement.SpecHash
	return planned == "" || planned != lineage.PlacementHash(in.App)
}
