// Package stall keeps the slowness of this process apart from the slowness of a member. A Clock
// measures how long the process stalls: it waits for the processor, is throttled, or is stopped. A
// Streak decides what a probe says about a member.
//
// # What is promised
//
//   - The wait for a member excludes the time in which the process stalls. So a member that answers
//     in time is never lost because the process reads the answer late.
//   - In a process that does not stall, nothing changes: three failed probes in a row lose a member.
//   - In a process that always stalls, a member that does not answer is still lost. A second of a
//     stall counts as at least a twentieth of a second, so a wait takes at most twenty times as
//     long; and after ten inconclusive probes in a row, each further one counts as failed.
package stall

import (
	"context"
	"sync"
	"time"
)

const (
	// interval is the time between two ticks of a Clock.
	interval = 100 * time.Millisecond
	// maxGap is the longest time between two ticks in a healthy process. A longer gap counts as
	// maxGap. A probe needs some ten steps, each of which waits for the processor as a tick does. If
	// each wait takes w, a wait for a member takes (interval+w)/maxGap times as long. A timeout of 5
	// seconds is then enough for 40 steps, for any w.
	maxGap = 120 * time.Millisecond
	// maxSlowdown limits how much longer a stalling process waits for a member.
	maxSlowdown = 20
)

// Clock measures how long the process has stalled. It is safe for concurrent use. A nil Clock, and
// one that does not run, measures nothing.
type Clock struct {
	mu    sync.Mutex
	ticks ticks
}

// Run measures until the context ends. It calls onStall with each stall, after it.
// docs/decisions/a-stalled-process-judges-no-member.md says why.
func (c *Clock) Run(ctx context.Context, onStall func(time.Duration)) {
	c.tick(time.Now())
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			c.stop(time.Now())
			return
		case <-timer.C:
		}
		if stalled := c.tick(time.Now()); stalled > 0 {
			onStall(stalled)
		}
		timer.Reset(interval)
	}
}

// Stalled returns how long the process has stalled until now, since the clock began to run. Only
// the difference of two results has a meaning.
func (c *Clock) Stalled(now time.Time) time.Duration {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ticks.stalledUntil(now)
}

// tick records a tick, and returns how long the process stalled before it.
func (c *Clock) tick(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.ticks.stalled
	c.ticks = c.ticks.add(now)
	return c.ticks.stalled - before
}

// stop ends the measurement, so that the missing ticks are no stall.
func (c *Clock) stop(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticks = ticks{stalled: c.ticks.stalledUntil(now)}
}

// ticks is the state of a Clock.
type ticks struct {
	last    time.Time // zero if the clock does not run
	stalled time.Duration
}

// add returns the state after a tick.
func (t ticks) add(now time.Time) ticks {
	return ticks{last: now, stalled: t.stalledUntil(now)}
}

// stalledUntil returns how long the process has stalled, including a tick that is overdue.
func (t ticks) stalledUntil(now time.Time) time.Duration {
	if t.last.IsZero() {
		return t.stalled
	}
	gap := now.Sub(t.last)
	return t.stalled + max(0, min(gap-maxGap, gap-gap/maxSlowdown))
}
