package clusters

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// startWaiters starts that many goroutines that wait for a slot, and counts those that have
// acquired one. Each keeps its slot until the test sends on leave.
func startWaiters(t *testing.T, l connectSlots, count int, failedBefore bool) (acquired *atomic.Int64, leave chan struct{}) {
	acquired, leave = &atomic.Int64{}, make(chan struct{})
	for range count {
		go func() {
			release, err := l.acquire(t.Context(), failedBefore)
			if err != nil {
				return
			}
			acquired.Add(1)
			select {
			case <-leave:
			case <-t.Context().Done():
			}
			release()
		}()
	}
	synctest.Wait()
	return acquired, leave
}

func TestConnectSlots_admit_as_many_members_as_there_are_slots(t *testing.T) {
	for name, test := range map[string]struct {
		failedBefore bool
		slots        int64
	}{
		"first attempts": {false, 3},
		"retries":        {true, retrySlots},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				acquired, leave := startWaiters(t, newConnectSlots(3), 50, test.failedBefore)
				for want := test.slots; want < test.slots+5; want++ {
					if got := acquired.Load(); got != want {
						t.Fatalf("%d have acquired a slot, want %d", got, want)
					}
					leave <- struct{}{}
					synctest.Wait()
				}
			})
		})
	}
}

func TestConnectSlot_is_released_after_maxSlotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnectSlots(1)
		acquire := func() (func(), time.Duration) {
			start := time.Now()
			leave, err := l.acquire(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			return leave, time.Since(start)
		}
		first, waited := acquire()
		if waited != 0 {
			t.Errorf("the first waited for %s", waited)
		}
		second, waited := acquire()
		if waited != maxSlotHold {
			t.Errorf("the second waited for %s, want %s", waited, maxSlotHold)
		}
		first() // its slot has expired, so it must not release the second's
		third, waited := acquire()
		if waited != maxSlotHold {
			t.Errorf("the third waited for %s, want %s", waited, maxSlotHold)
		}
		third()
		third()
		second()
		fourth, waited := acquire()
		if waited != 0 {
			t.Errorf("the fourth waited for %s", waited)
		}
		fourth()
		time.Sleep(2 * maxSlotHold) // no timer may release a slot that was released already
		if len(l.first) != 0 {
			t.Errorf("%d slots are held, want 0", len(l.first))
		}
	})
}

func TestConnectSlots_of_retries_do_not_delay_first_attempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnectSlots(1)
		if retries, _ := startWaiters(t, l, 10*retrySlots, true); retries.Load() != retrySlots {
			t.Errorf("%d retries have acquired a slot, want %d", retries.Load(), retrySlots)
		}
		if first, _ := startWaiters(t, l, 1, false); first.Load() != 1 {
			t.Error("the first attempt waits")
		}
	})
}

func TestAcquire_ends_with_the_context(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newConnectSlots(1)
		leave, err := l.acquire(t.Context(), false)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), maxSlotHold/2)
		defer cancel()
		if release, err := l.acquire(ctx, false); release != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		leave()
		if acquired, _ := startWaiters(t, l, 1, false); acquired.Load() != 1 {
			t.Error("the cancelled attempt holds a slot")
		}
	})
}
