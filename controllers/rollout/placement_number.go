package rollout

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
func (in Input) placementNumber(e *entryPlan, decision placement.Decision, highest func() int64) int64 {
	number := e.entry.Placement
	if in.PlanError != nil || !decision.Chosen() {
		return number
	}
	if e.previous == nil || e.previous.Phase == v1alpha1.ClusterRemoving || e.previous.Transition.Type == v1alpha1.TransitionRemoving {
		number = highest() + 1
	}
	if e.seen != nil {
		number = max(number, e.seen.Placement)
	}
	return number
}

// highestPlacement returns the highest number of a placement that the status, its entries or the
// members have.
func (in Input) highestPlacement() int64 {
	highest := HighestPlacementOf(in.App.Status.Placement.Count, in.App.Status.Clusters)
	for name := range in.Observations {
		if seen := in.ObservationOf(name); seen != nil {
			highest = max(highest, seen.Placement)
		}
	}
	return highest
}

// HighestPlacementOf returns the highest number of a placement of these entries, at least a given
// one.
func HighestPlacementOf(least int64, entries []v1alpha1.ClusterStatus) int64 {
	for i := range entries {
		least = max(least, entries[i].Placement)
	}
	return least
}
