package planner

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// statusInterval is the minimum time between two status writes of one AppService that do not
	// follow from an edit.
	statusInterval = time.Second
	// planPause is the minimum time between two plans of one AppService that do not follow from an
	// edit, in multiples of the duration of a plan. Planning one AppService then takes at most a
	// twentieth of a processor.
	planPause = 20
	// maxPlanPause limits this pause, because the process may have been suspended during a plan.
	maxPlanPause = 10 * time.Second
)

// throttle limits the plans and the status writes that do not follow from an edit. The first is
// made at once. It is safe for concurrent use.
type throttle struct {
	mu   sync.Mutex
	next map[types.UID]nextTimes
}

// nextTimes are the earliest times of the next plan and of the next write.
type nextTimes struct{ plan, write time.Time }

func newThrottle() throttle { return throttle{next: map[types.UID]nextTimes{}} }

// untilPlan returns the time until the next plan of an AppService is allowed; 0 if it is allowed
// now.
func (t *throttle) untilPlan(app types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.next[app].plan.Sub(now))
}

// untilWrite returns the time until the next write of an AppService is allowed; 0 if it is allowed
// now.
func (t *throttle) untilWrite(app types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.next[app].write.Sub(now))
}

// recordPlan records that an AppService was planned, and how long that took.
func (t *throttle) recordPlan(app types.UID, now time.Time, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.next[app]
	next.plan = now.Add(min(planPause*took, maxPlanPause))
	t.next[app] = next
}

// allowPlan allows the next plan of an AppService at once.
func (t *throttle) allowPlan(app types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next, found := t.next[app]; found {
		next.plan = time.Time{}
		t.next[app] = next
	}
}

// recordWrite records that the status of an AppService was written.
func (t *throttle) recordWrite(app types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.next[app]
	next.write = now.Add(statusInterval)
	t.next[app] = next
}

// forget removes a deleted AppService.
func (t *throttle) forget(app types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.next, app)
}
