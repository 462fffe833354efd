package removal

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// Deadlines returns the times at which one of these changes although no input does:
//   - a surging cluster that is Failed or Unknown is no longer a blocker;
//   - a candidate that is excluded because it is not Ready is no longer waited for;
//   - a removal or scale-down without an edit no longer counts against those that have not started.
func (in Input) Deadlines(entries []v1alpha1.ClusterStatus, removals v1alpha1.RemovalsStatus) []time.Time {
	var deadlines []time.Time
	for _, entry := range entries {
		if entry.Surging && (entry.Phase == v1alpha1.ClusterFailed || entry.Phase == v1alpha1.ClusterUnknown) {
			deadlines = append(deadlines, entry.LastTransitionTime.Add(blockerTimeout))
		}
	}
	for _, name := range in.NotReadyCandidates(true) {
		deadlines = append(deadlines, readyDeadline(in.Members[name]))
	}
	if slices.ContainsFunc(entries, entryplan.AwaitsRemoval) || slices.ContainsFunc(entries, awaitsScaleDown) {
		for _, count := range removals.WithoutEdit {
			deadlines = append(deadlines, count.StartTime.Add(withoutEditWindow+withoutEditBucket))
		}
	}
	return deadlines
}
