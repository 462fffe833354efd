package planner

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

const (
	// statusInterval is the mean time between two status writes of one AppService that do not
	// follow from an edit. After a time without writes, statusBurst of them are made at once: an
	// edit usually has that many results.
	statusInterval = time.Second
	statusBurst    = 3
	// statusGap is the minimum time between two of these writes, see gapOf.
	statusGap = 50 * time.Millisecond
	// availabilityDelay is how long a status that only has other numbers of available pods waits for
	// another change. A Deployment with minReadySeconds goes on when pods become available, so the next
	// change usually comes within a second.
	availabilityDelay = 10 * time.Second
	// planPause is the minimum time between two plans of one AppService that do not follow from an
	// edit, in multiples of the duration of a plan. Planning one AppService then takes at most a
	// twentieth of a processor.
	planPause = 20
	// maxPlanPause limits this pause, because the process may have been suspended during a plan.
	maxPlanPause = 10 * time.Second
	// failureGap is the time without a failed read after which another one is the first of a series.
	failureGap = time.Minute
)

// throttle limits the plans and the status writes that do not follow from an edit. The first ones
// are made at once. It is safe for concurrent use.
// docs/decisions/plans-without-an-edit-are-paced.md says why.
type throttle struct {
	progress progressTurns

	mu   sync.Mutex
	apps map[types.UID]*appThrottle
}

// appThrottle limits the plans and the writes of one AppService.
type appThrottle struct {
	nextPlan  time.Time // the earliest time of the next plan
	lastWrite time.Time
	writes    *rate.Limiter
	// availabilityTime is when a status may be written that only has other numbers of available pods. It
	// is zero if there is none.
	availabilityTime time.Time
	// deliversUntil is set by the write of a plan, until one that says Ready.
	deliversUntil time.Time
	// retryTime is the earliest time of another plan of a generation whose objects the hub refused.
	retryTime         time.Time
	refusedGeneration int64
	// refusal is why the hub refused the next revision, before retryTime of refusedGeneration.
	refusal error
	// firstFailure and lastFailure are the times of failed reads of the revisions.
	firstFailure, lastFailure time.Time
}

func newThrottle() *throttle { return &throttle{apps: map[types.UID]*appThrottle{}} }

// of returns the throttle of one AppService. The caller holds the lock.
func (t *throttle) of(app types.UID) *appThrottle {
	if t.apps[app] == nil {
		t.apps[app] = &appThrottle{writes: rate.NewLimiter(rate.Every(statusInterval), statusBurst)}
	}
	return t.apps[app]
}

// untilPlan returns the time until the next plan of an AppService is allowed; 0 if it is allowed
// now.
func (t *throttle) untilPlan(app types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.of(app).nextPlan.Sub(now))
}

// untilWrite returns the time until the next write of an AppService is allowed; 0 if it is allowed
// now. The gap is the minimum time since the last write.
func (t *throttle) untilWrite(app types.UID, now time.Time, gap time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of(app)
	missing := 1 - known.writes.TokensAt(now)
	untilToken := time.Duration(missing / float64(known.writes.Limit()) * float64(time.Second))
	return max(0, untilToken, known.lastWrite.Add(gap).Sub(now))
}

// untilAvailability returns the time until a status may be written that only has other numbers of
// available pods; 0 if it may be written now. The time starts with the first call since the last write.
func (t *throttle) untilAvailability(app types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of(app)
	if known.availabilityTime.IsZero() {
		known.availabilityTime = now.Add(availabilityDelay)
	}
	return max(0, known.availabilityTime.Sub(now))
}

// recordUnchanged records that there is nothing to write for an AppService.
func (t *throttle) recordUnchanged(app types.UID) {
	t.progress.leave(app)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(app).availabilityTime = time.Time{}
}

// recordPlan records that an AppService was planned, and how long that took.
func (t *throttle) recordPlan(app types.UID, now time.Time, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(app).nextPlan = now.Add(min(planPause*took, maxPlanPause))
}

// recordRefusal records that the hub refused objects of an AppService.
func (t *throttle) recordRefusal(app *v1alpha1.AppService, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of(app.UID)
	known.retryTime, known.refusedGeneration, known.refusal = now.Add(refusedRetry), app.Generation, nil
}

// recordRefusedRevision records why the hub refused the next revision of an AppService.
func (t *throttle) recordRefusedRevision(app *v1alpha1.AppService, now time.Time, refusal error) {
	t.recordRefusal(app, now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(app.UID).refusal = refusal
}

// refusedRevision returns why the hub refused the next revision of an AppService, and nil if the revision
// may be tried again, or if the AppService was edited since.
func (t *throttle) refusedRevision(app *v1alpha1.AppService, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.of(app.UID); known.refusedGeneration == app.Generation && now.Before(known.retryTime) {
		return known.refusal
	}
	return nil
}

// failingSince records a failed read of the revisions of an AppService, and returns for how long
// these reads have been failing.
func (t *throttle) failingSince(app types.UID, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of(app)
	if now.Sub(known.lastFailure) > failureGap {
		known.firstFailure = now
	}
	known.lastFailure = now
	return now.Sub(known.firstFailure)
}

// untilRetry returns the time until another plan of an AppService whose objects the hub refused is
// allowed; 0 if it is allowed now, or if the AppService was edited since.
func (t *throttle) untilRetry(app *v1alpha1.AppService, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of(app.UID)
	if known.refusedGeneration != app.Generation || known.refusal != nil { // the revision before is planned
		return 0
	}
	return max(0, known.retryTime.Sub(now))
}

// allowPlan allows the next plan of an AppService at once.
func (t *throttle) allowPlan(app types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, found := t.apps[app]; found {
		known.nextPlan = time.Time{}
	}
}

// isDelivering reports whether a plan of an AppService was written a moment ago that has not led to Ready
// yet, as far as this process knows.
func (t *throttle) isDelivering(app types.UID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.of(app).deliversUntil)
}

// recordWrite records that the status of an AppService was written.
func (t *throttle) recordWrite(app types.UID, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.of(app)
	known.writes.AllowN(now, 1)
	known.lastWrite = now
	known.availabilityTime = time.Time{}
}

// recordDelivery records what a written plan means for a delivery: another plan begins one, which lasts
// until the status says Ready, and for deliveryTime at most.
func (t *throttle) recordDelivery(p planned, now time.Time) {
	app := p.have.app.UID
	if p.isProgress() {
		t.progress.take(app, now)
	} else {
		t.progress.leave(app)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch known := t.of(app); {
	case isReady(p.next):
		known.deliversUntil = time.Time{}
	case p.isAnotherPlan():
		known.deliversUntil = now.Add(deliveryTime)
	}
}

// gapOf returns the minimum time between two status writes of an AppService. A status that some
// clusters have not contributed to yet is written without a burst. So is the progress of a deletion,
// which ends with the removal of the finalizer and waits for no status.
func gapOf(app *v1alpha1.AppService, decision rollout.Decision) time.Duration {
	if app.IsDeleting() || decision.AwaitsAnswers {
		return statusInterval
	}
	return statusGap
}

// forget removes a deleted AppService.
func (t *throttle) forget(app types.UID) {
	t.progress.leave(app)
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.apps, app)
}
