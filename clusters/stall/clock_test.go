package stall

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTicks_measure_stalls(t *testing.T) {
	start := time.Now()
	for name, test := range map[string]struct {
		ticks []time.Duration // after the first tick
		now   time.Duration
		want  time.Duration
	}{
		"no tick is due":                   {nil, interval, 0},
		"ticks are on time":                {[]time.Duration{interval, 2 * interval, 3 * interval}, 3 * interval, 0},
		"a tick is late within maxGap":     {[]time.Duration{maxGap}, maxGap, 0},
		"a tick was late":                  {[]time.Duration{time.Second}, time.Second, time.Second - maxGap},
		"a tick is overdue":                {nil, time.Second, time.Second - maxGap},
		"each tick is late":                {[]time.Duration{2 * maxGap, 4 * maxGap}, 5 * maxGap, 2 * maxGap},
		"a long stop counts a twentieth":   {nil, 200 * time.Second, 190 * time.Second},
		"a stop that has just ended":       {[]time.Duration{200 * time.Second}, 200*time.Second + interval, 190 * time.Second},
		"one on time after one that's not": {[]time.Duration{time.Second, time.Second + interval}, time.Second + interval, time.Second - maxGap},
	} {
		t.Run(name, func(t *testing.T) {
			state := ticks{}.add(start)
			for _, at := range test.ticks {
				state = state.add(start.Add(at))
			}
			if got := state.stalledUntil(start.Add(test.now)); got != test.want {
				t.Errorf("stalled for %s, want %s", got, test.want)
			}
		})
	}
}

// A wait that excludes stalls never runs backwards, and never stops for good.
func TestTicks_let_the_time_of_the_process_pass(t *testing.T) {
	start := time.Now()
	state, last := ticks{}.add(start), time.Duration(0)
	for now := time.Duration(0); now < 10*time.Minute; now += 7 * time.Millisecond {
		if now%(700*time.Millisecond) == 0 {
			state = state.add(start.Add(now))
		}
		passed := now - state.stalledUntil(start.Add(now))
		if passed < last {
			t.Fatalf("after %s: %s have passed, and before %s", now, passed, last)
		}
		if passed < now/maxSlowdown {
			t.Fatalf("after %s: only %s have passed", now, passed)
		}
		last = passed
	}
}

func TestClock_runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &Clock{}
		if got := clock.Stalled(time.Now().Add(time.Hour)); got != 0 {
			t.Errorf("before it runs: stalled for %s", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var stalls atomic.Int64
		go clock.Run(ctx, func(time.Duration) { stalls.Add(1) })
		time.Sleep(time.Minute)
		if got := clock.Stalled(time.Now()); got != 0 || stalls.Load() != 0 {
			t.Errorf("in a healthy process: stalled for %s, %d times", got, stalls.Load())
		}
		cancel()
		synctest.Wait()
		if got := clock.Stalled(time.Now().Add(time.Hour)); got != 0 {
			t.Errorf("after it has ended: stalled for %s", got)
		}
	})
	if got := (*Clock)(nil).Stalled(time.Now()); got != 0 {
		t.Errorf("a nil Clock: stalled for %s", got)
	}
}
