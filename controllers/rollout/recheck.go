package rollout

import (
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// deletionRecheck is how often a deletion is decided on again, for what no watch reports: time that has passed, a namespace that is being deleted.
const deletionRecheck = 10 * time.Second

// recheckAfter returns after how long these entries have to be planned again though no input changes; 0 if time alone
// changes nothing.
func (in Input) recheckAfter(entries []v1alpha1.ClusterStatus) time.Duration {
	if in.IsDeleting() {
		return deletionRecheck
	}
	var next time.Duration
	for _, deadline := range in.deadlines(entries) {
		if wait := deadline.Sub(in.Now.Time); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// deadlines returns when blockers stop being blockers: surging clusters that have failed or cannot be observed, and candidates
// that are excluded only because they are not Ready.
func (in Input) deadlines(entries []v1alpha1.ClusterStatus) []time.Time {
	var deadlines []time.Time
	for _, entry := range entries {
		if entry.Surging && (entry.Phase == v1alpha1.ClusterFailed || entry.Phase == v1alpha1.ClusterUnknown) {
			deadlines = append(deadlines, entry.LastTransitionTime.Add(surgePatience))
		}
	}
	for _, name := range in.NotReadyCandidates(true) {
		deadlines = append(deadlines, readyDeadline(in.Members[name]))
	}
	return deadlines
}
