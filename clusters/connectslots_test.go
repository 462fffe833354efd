package clusters

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// startWaiters starts that many goroutines that wait for a slot, and counts those that have acquired one.
// Each keeps its slot until the test sends on leave.
func startWaiters(t *testing.T, l connectSlots, many int, failedBefore bool) (through *atomic.Int64, leave chan struct{}) {
	through, leave = &atomic.Int64{}, make(chan struct{})
	for range many {
		go func() {
			left, err := l.acquire(t.Context(), failedBefore)
			if err != nil {
				return
			}
			through.Add(1)
			select {
			case <-leave:
			case <-t.Context().Done():
			}
			left()
		}()
	}
	synctest.Wait()
	return through, leave
}

func TestConnectSlotsAdmitAsManyAsThereAre(t *testing.T) {
	for name, test := range map[string]struct {
		failedBefore bool
		places       int64
	}{
		"for the first time": {false, 3},
		"again":              {true, retrySlots},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				through, leave := startWaiters(t, newConnectSlots(3), 50, test.failedBefore)
				for want := test.places; want < test.places+5; want++ {
					if got := through.Load(); got != want {
						t.Fatalf("%d are through, want %d", got, want)
					}
					leave <- struct{}{}
					synctest.Wait()
				}
			})
		})
	}
}

func TestAConnectSlotIsReleasedAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnectSlots(1)
		enter := func() (func(), time.Duration) {
			start := time.Now()
			leave, err := l.acquire(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			return leave, time.Since(start)
		}
		first, waited := enter()
		if waited != 0 {
			t.Errorf("the first waited for %s", waited)
		}
		second, waited := enter()
		if waited != maxSlotHold {
			t.Errorf("the second waited for %s, want %s", waited, maxSlotHold)
		}
		first() // its slot has expired, so it must not release the second's
		third, waited := enter()
		if waited != maxSlotHold {
			t.Errorf("the third waited for %s, want %s", waited, maxSlotHold)
		}
		third()
		third()
		second()
		fourth, waited := enter()
		if waited != 0 {
			t.Errorf("the fourth waited for %s", waited)
		}
		fourth()
		time.Sleep(2 * maxSlotHold) // no timer releases a slot that was released by hand
		if len(l.first) != 0 {
			t.Errorf("%d places are taken, by nobody", len(l.first))
		}
	})
}

func TestRetriesDoNotDelayFirstAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnectSlots(1)
		if again, _ := startWaiters(t, l, 10*retrySlots, true); again.Load() != retrySlots {
			t.Errorf("%d are through, want %d", again.Load(), retrySlots)
		}
		if first, _ := startWaiters(t, l, 1, false); first.Load() != 1 {
			t.Error("the healthy one waits")
		}
	})
}

func TestAcquireEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnectSlots(1)
		leave, err := l.acquire(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), maxSlotHold/2)
		defer cancel()
		if left, err := l.acquire(ctx, false); left != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		leave()
		if through, _ := startWaiters(t, l, 1, false); through.Load() != 1 {
			t.Error("the one that gave up has kept a place")
		}
	})
}
