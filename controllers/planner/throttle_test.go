package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// A status that changes all the time is written at once, and then at these times.
func TestThrottle_spreads_writes(t *testing.T) {
	t.Parallel()
	const step = 5 * time.Millisecond
	second := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	tests := map[string]struct {
		gap  time.Duration
		rest time.Duration // since earlier writes
		want []time.Duration
	}{
		"with a burst":        {statusGap, time.Minute, []time.Duration{0, second(.05), second(.1), second(1), second(2)}},
		"without a burst":     {statusInterval, time.Minute, []time.Duration{0, second(1), second(2)}},
		"after a second":      {statusGap, second(1), []time.Duration{0, second(1), second(2)}},
		"after half a second": {statusGap, second(.5), []time.Duration{second(.5), second(1.5)}},
		"after two seconds":   {statusGap, second(2), []time.Duration{0, second(.05), second(1), second(2)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			throttle := newThrottle()
			start := time.Unix(1000, 0).Add(800 * time.Millisecond) // whole seconds mean nothing
			for range statusBurst {
				throttle.recordWrite("uid-1", start.Add(-test.rest))
			}
			var got []time.Duration
			for now := time.Duration(0); now < second(2.5); now += step {
				if throttle.untilWrite("uid-1", start.Add(now), test.gap) == 0 {
					throttle.recordWrite("uid-1", start.Add(now))
					got = append(got, now)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("written after (-want +got):\n%s", diff)
			}
		})
	}
}

// The wait that the throttle returns is exact: when it has passed, the write is allowed.
func TestThrottle_returns_the_time_of_the_next_write(t *testing.T) {
	t.Parallel()
	throttle, now := newThrottle(), time.Unix(1000, 0)
	for range 2 * statusBurst {
		now = now.Add(throttle.untilWrite("uid-1", now, statusGap))
		if left := throttle.untilWrite("uid-1", now, statusGap); left > time.Microsecond {
			t.Errorf("%v are left when the wait has passed", left)
		}
		throttle.recordWrite("uid-1", now)
	}
}

// The delay starts with the first change since the last write, and not again with each change.
func TestThrottle_delays_availability_once(t *testing.T) {
	t.Parallel()
	throttle, now := newThrottle(), time.Unix(1000, 0)
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := throttle.untilAvailability("uid-1", now); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	expect("the first change", availabilityDelay)
	now = now.Add(availabilityDelay - time.Second)
	expect("another change", time.Second)
	now = now.Add(2 * time.Second)
	expect("later", 0)
	throttle.recordWrite("uid-1", now)
	expect("after a write", availabilityDelay)
	now = now.Add(time.Second)
	throttle.recordUnchanged("uid-1")
	expect("after it was as before", availabilityDelay)
}

func TestGap_between_writes(t *testing.T) {
	t.Parallel()
	deleted := &v1alpha1.AppService{}
	deleted.DeletionTimestamp = new(metav1.Now())
	for name, test := range map[string]struct {
		app      *v1alpha1.AppService
		decision rollout.Decision
		want     time.Duration
	}{
		"of a status":                          {&v1alpha1.AppService{}, rollout.Decision{}, statusGap},
		"of a status that some did not answer": {&v1alpha1.AppService{}, rollout.Decision{AwaitsAnswers: true}, statusInterval},
		"of the progress of a deletion":        {deleted, rollout.Decision{}, statusInterval},
	} {
		if got := gapOf(test.app, test.decision); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
