package transport

import (
	"context"
	"sync"
	"time"

	"github.com/fleetwright/fleetwright/clusters/stall"
)

// Timer calls a function after the hub has waited for a member for some time. The timer does not
// run while it is held, because a member that the hub throttles is not slow, and not while this
// process stalls.
type Timer struct {
	expired func()
	clock   *stall.Clock

	mu      sync.Mutex
	timer   *time.Timer
	ends    time.Time     // while it runs
	left    time.Duration // while it is held
	stalled time.Duration // what the clock showed when ends was set
	holds   int
	stopped bool
}

// NewTimer returns a timer that runs. A nil clock means that the process never stalls.
func NewTimer(clock *stall.Clock, after time.Duration, expired func()) *Timer {
	t := &Timer{expired: expired, clock: clock}
	t.mu.Lock() // fire may run at once
	defer t.mu.Unlock()
	t.endAfter(after)
	t.timer = time.AfterFunc(after, t.fire)
	return t
}

// endAfter sets how long the timer will run.
func (t *Timer) endAfter(after time.Duration) {
	now := time.Now()
	t.ends, t.stalled = now.Add(after), t.clock.Stalled(now)
}

// rest returns how long the timer has yet to run, apart from stalls.
func (t *Timer) rest() time.Duration {
	now := time.Now()
	return t.ends.Sub(now) + t.clock.Stalled(now) - t.stalled
}

// fire calls the function, unless the deadline was changed after the underlying timer was set, or
// the process has stalled since then.
func (t *Timer) fire() {
	t.mu.Lock()
	rest := t.rest()
	if t.stopped || t.holds > 0 || rest > 0 {
		if !t.stopped && t.holds == 0 {
			t.timer.Reset(rest)
		}
		t.mu.Unlock()
		return
	}
	t.stopped = true
	t.mu.Unlock()
	t.expired()
}

// reset restarts the timer with this duration.
func (t *Timer) reset(after time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endAfter(after)
	t.left = after
}

// extend adds time to the timer.
func (t *Timer) extend(by time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends, t.left = t.ends.Add(by), t.left+by
}

// hold stops the timer until each hold is released.
func (t *Timer) hold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds++; t.holds == 1 {
		t.left = t.rest()
	}
}

func (t *Timer) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds--; t.holds == 0 && !t.stopped {
		t.endAfter(t.left)
		t.timer.Reset(t.left)
	}
}

// Stop ends the timer. The function is no longer called.
func (t *Timer) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.timer.Stop()
}

// timersKey is the context key for the timers of a request.
type timersKey struct{}

// withTimers returns a context whose request holds these timers while it is throttled, in addition
// to the timers that the context already has.
func withTimers(ctx context.Context, timers ...*Timer) context.Context {
	before, _ := ctx.Value(timersKey{}).([]*Timer)
	return context.WithValue(ctx, timersKey{}, append(before[:len(before):len(before)], timers...))
}

// holdTimers holds the timers of a request, and returns a function that releases them.
func holdTimers(ctx context.Context) (release func()) {
	timers, _ := ctx.Value(timersKey{}).([]*Timer)
	for _, t := range timers {
		t.hold()
	}
	return func() {
		for _, t := range timers {
			t.release()
		}
	}
}
