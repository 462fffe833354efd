package rollout

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// deletionRecheck is the interval for planning a deletion again, because no watch reports that time
// has passed or that a namespace is being deleted.
const deletionRecheck = 10 * time.Second

// followUp is after how long a decision is made again that changes by its own result. No event may come.
const followUp = time.Second

// followUps returns when to decide again because of the next entries: one has ended, and its cluster may be
// excluded for another reason now; or a cluster that cannot be reached is abandoned, and has just become
// Detached or Removing, so that its entry ends with the next decision, or gets a tombstone first.
func followUps(in Input, next []v1alpha1.ClusterStatus) []time.Time {
	entries := in.entries()
	hasEnded := func(entry v1alpha1.ClusterStatus) bool {
		_, isThere := slices.BinarySearchFunc(next, entry.Name, func(e v1alpha1.ClusterStatus, name string) int { return strings.Compare(e.Name, name) })
		return !isThere
	}
	isEnding := func(entry v1alpha1.ClusterStatus) bool {
		return in.Members[entry.Name] == nil && entries.IsDetachmentOver(&entry)
	}
	if slices.ContainsFunc(in.App.Status.Clusters, hasEnded) || slices.ContainsFunc(next, isEnding) || len(tombstonesFor(in, next)) > 0 {
		return []time.Time{in.Now.Add(followUp)}
	}
	return nil
}

// recheckAfter returns the time until the next of the deadlines, when the AppService must be planned
// again although no input changes, or 0 if time alone changes nothing.
func recheckAfter(app *v1alpha1.AppService, now metav1.Time, deadlines []time.Time) time.Duration {
	if app.IsDeleting() {
		return deletionRecheck
	}
	var next time.Duration
	for _, deadline := range deadlines {
		if wait := deadline.Sub(now.Time); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}
