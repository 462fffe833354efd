package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// deletionRecheck is the interval for planning a deletion again, because no watch reports that time
// has passed or that a namespace is being deleted.
const deletionRecheck = 10 * time.Second

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
