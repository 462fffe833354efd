package transport

import (
	"context"
	"sync"
	"time"
)

// Timer calls a function after the hub has waited for a member for some time. The timer does not
// run while it is held, because a member that the hub throttles is not slow.
type Timer struct {
	expired func()

	mu      sync.Mutex
	timer   *time.Timer
	ends    time.Time     // while it runs
	left    time.Duration // while it is held
	holds   int
	stopped bool
}

// NewTimer returns a timer that runs.
func NewTimer(after time.Duration, expired func()) *Timer {
	t := &Timer{expired: expired, ends: time.Now().Add(after)}
	t.timer = time.AfterFunc(after, t.fire)
	return t
}

// fire calls the function, unless the deadline was changed after the underlying timer was set.
func (t *Timer) fire() {
	t.mu.Lock()
	rest := time.Until(t.ends)
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
	t.ends, t.left = time.Now().Add(after), after
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
		t.left = time.Until(t.ends)
	}
}

func (t *Timer) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holds--; t.holds == 0 && !t.stopped {
		t.ends = time.Now().Add(t.left)
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
