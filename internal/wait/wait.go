// Package wait waits in tests for what must happen. Only tests import it.
//
//	wait.Eventually(t, func() error { return hub.Get(t.Context(), key, app) })
//	session := wait.Receive(t, sessions, "the session of the member")
//
// A wait ends as soon as what it waits for has happened. Its limit is only for a test that fails: it
// says nothing about how prompt something is, because a busy machine delays everything. A test that
// must show promptness counts instead: the polls, probes, writes or back-off steps until it happened,
// or it shows that the cause could not have been a later one.
package wait

import (
	"testing"
	"time"
)

// Patience is how long a test waits before it fails.
const Patience = 10 * time.Minute

// The pause between two checks grows, so that many tests that wait leave the API servers capacity
// for other requests.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 400 * time.Millisecond
)

// Eventually calls check until it returns nil. After [Patience] the test ends with the last error.
// Only the goroutine of the test may call it.
func Eventually(t testing.TB, check func() error) {
	t.Helper()
	start := time.Now()
	for pause := firstPause; ; pause = min(pause*5/4, longestPause) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(start) > Patience {
			t.Fatalf("after %s: %v", Patience, err)
		}
		<-time.After(pause)
	}
}

// Receive returns the next value of the channel, or the zero value once the channel is closed.
// After [Patience] the test ends and says what it waited for. Only the goroutine of the test may
// call it.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(Patience):
		t.Fatalf("after %s: still waiting for %s", Patience, what)
		panic("unreachable")
	}
}
