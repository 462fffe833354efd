package wait_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// recorder is a test that records why it ends.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// run calls the function in a goroutine that Fatalf may end, and returns why it ended.
func run(function func(t testing.TB)) string {
	r, done := &recorder{}, make(chan struct{})
	go func() {
		defer close(done)
		function(r)
	}()
	<-done
	return r.failure
}

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, calls := time.Now(), 0
		if failure := run(func(t testing.TB) {
			wait.Eventually(t, func() error {
				if calls++; calls < 4 {
					return errors.New("not yet")
				}
				return nil
			})
		}); failure != "" {
			t.Error(failure)
		}
		if took := time.Since(start); calls != 4 || took > 100*time.Millisecond {
			t.Errorf("returned after %d calls and %s, want 4 calls at once", calls, took)
		}
		failure := run(func(t testing.TB) { wait.Eventually(t, func() error { return errors.New("nothing is there") }) })
		if !strings.HasSuffix(failure, "nothing is there") || time.Since(start) < wait.Patience {
			t.Errorf("the test ended with %q after %s, want the last error after %s", failure, time.Since(start), wait.Patience)
		}
	})
}

func TestReceive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		values := make(chan int, 1)
		values <- 7
		if failure := run(func(t testing.TB) {
			if value := wait.Receive(t, values, "a value"); value != 7 {
				t.Fatalf("received %d", value)
			}
		}); failure != "" {
			t.Error(failure)
		}
		start := time.Now()
		failure := run(func(t testing.TB) { wait.Receive(t, values, "a value") })
		if !strings.HasSuffix(failure, "still waiting for a value") || time.Since(start) != wait.Patience {
			t.Errorf("the test ended with %q after %s, want a failure after %s", failure, time.Since(start), wait.Patience)
		}
	})
}
