package framework

import (
	"context"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Eventually waits until check returns nil, and returns how long that took. After [wait.Patience]
// the test ends with the last error of check and with the state of the fleet: only a test that fails
// waits so long.
func (f *Fleet) Eventually(t testing.TB, what string, check func(context.Context) error) time.Duration {
	t.Helper()
	start := time.Now()
	if err := environment.Await(context.Background(), wait.Patience, what, check); err != nil {
		f.LogState(t)
		t.Fatal(err)
	}
	return time.Since(start)
}

// Consistently ends the test as soon as check returns an error.
func Consistently(t testing.TB, duration time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	for end := time.Now().Add(duration); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err := check(t.Context()); err != nil {
			t.Fatalf("%s, for %s: %v", what, duration, err)
		}
	}
}

// Round rounds a duration for log lines.
func Round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
