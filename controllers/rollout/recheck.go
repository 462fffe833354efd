package rollout

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// deletionRecheck is the interval for planning a deletion again, because no watch reports that time
// has passed or that a namespace is being deleted.
const deletionRecheck = 10 * time.Second

// recheckAfter returns the time until the next of the deadlines, when the AppService must be planned
// again although no input changes, or 0 if time alone changes nothing.
func (in Input) recheckAfter(deadlines []time.Time) time.Duration {
	if in.IsDeleting() {
		return deletionRecheck
	}
	var next time.Duration
	for _, deadline := range deadlines {
		if wait := deadline.Sub(in.Now.Time); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// deadlines returns the times at which one of these changes although no input does:
//   - a surging cluster that is Failed or Unknown is no longer a blocker;
//   - a candidate that is excluded because it is not Ready is no longer waited for;
//   - a removal or scale-down without an edit no longer counts against those that have not started.
func (in Input) deadlines(entries []v1alpha1.ClusterStatus, removals v1alpha1.RemovalsStatus) []time.Time {
	var deadlines []time.Time
	for _, entry := range entries {
		if entry.Surging && (entry.Phase == v1alpha1.ClusterFailed || entry.Phase == v1alpha1.ClusterUnknown) {
			deadlines = append(deadlines, entry.LastTransitionTime.Add(blockerTimeout))
		}
	}
	for _, name := range in.NotReadyCandidates(true) {
		deadlines = append(deadlines, readyDeadline(in.Members[name]))
	}
	if slices.ContainsFunc(entries, awaitsRemoval) || slices.ContainsFunc(entries, awaitsScaleDown) {
		for _, count := range removals.WithoutEdit {
			deadlines = append(deadlines, count.StartTime.Add(withoutEditWindow+withoutEditBucket))
		}
	}
	return deadlines
}
