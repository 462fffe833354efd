package entryplan

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// placementNumber returns the number of the placement of an entry that is in the plan. It is a new
// one if the cluster was not in the plan before, or if a removal that had started is withdrawn.
//
// A number that the cluster reports may be higher: the hub lost it, by a restore or with the status.
// The cluster is in the plan, so the entry takes it over. An entry that is not in the plan keeps its
// number, and its removal is no evidence about objects that were placed later.
func (in *Input) placementNumber(e *Plan, decision placement.Decision, highest func() int64) int64 {
	number := e.Entry.Placement
	if !in.HasPlan || !decision.Chosen() {
		return number
	}
	if e.Previous == nil || e.Previous.Phase == v1alpha1.ClusterRemoving || e.Previous.Transition.Type == v1alpha1.TransitionRemoving {
		number = highest() + 1
	}
	if e.Seen != nil {
		number = max(number, e.Seen.Placement)
	}
	return number
}

// highestPlacement returns the highest number of a placement that the status, its entries or the
// members have.
func (in *Input) highestPlacement() int64 {
	highest := HighestPlacement(in.App.Status.Placement.Count, in.App.Status.Clusters)
	for name := range in.Observations {
		if seen := in.observationOf(name); seen != nil {
			highest = max(highest, seen.Placement)
		}
	}
	return highest
}

// HighestPlacement returns the highest number of a placement of these entries, at least a given
// one.
func HighestPlacement(least int64, entries []v1alpha1.ClusterStatus) int64 {
	for i := range entries {
		least = max(least, entries[i].Placement)
	}
	return least
}
