package rollup

import (
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// deletionRecheck is how often a deletion is decided on again, for what no watch reports: time that has passed, a namespace that is being deleted.
const deletionRecheck = 10 * time.Second

// RecheckAfter returns after how long the status has to be computed again though nothing that it depends on changes; 0 when time alone
// changes nothing. The status is the one that was computed from the input.
func (in Input) RecheckAfter(status v1alpha1.AppServiceStatus) time.Duration {
	if in.deleting() {
		return deletionRecheck
	}
	var next time.Duration
	for _, deadline := range in.deadlines(status) {
		if wait := deadline.Sub(in.Now.Time); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// deadlines returns when patience ends: with clusters that have failed, or cannot be observed, while something arrives there; and with
// clusters that the plan leaves out because they are not Ready.
func (in Input) deadlines(status v1alpha1.AppServiceStatus) []time.Time {
	var deadlines []time.Time
	for _, row := range status.Clusters {
		if row.Arriving && (row.Phase == v1alpha1.ClusterFailed || row.Phase == v1alpha1.ClusterUnknown) {
			deadlines = append(deadlines, row.LastTransitionTime.Add(arrivalPatience))
		}
	}
	for _, name := range in.unready(true) {
		deadlines = append(deadlines, patience(in.Members[name]))
	}
	return deadlines
}
