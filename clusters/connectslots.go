package clusters

import (
	"context"
	"sync"
	"time"
)

// maxSlotHold is the longest time for which a member occupies a connect slot. After that, the
// member is waiting for the network, which costs the hub almost nothing, so it continues without a
// slot.
const maxSlotHold = 2 * time.Second

// retrySlots is how many members may list at the same time after a failed attempt.
const retrySlots = 8

// connectSlots limits how many members list at the same time, because lists cost the hub memory.
// Members whose last attempt failed have separate slots, so that no healthy member queues behind
// them.
// docs/decisions/connect-slots-are-released-after-two-seconds.md says why.
type connectSlots struct {
	first, retry chan struct{}
}

func newConnectSlots(count int) connectSlots {
	return connectSlots{first: make(chan struct{}, count), retry: make(chan struct{}, retrySlots)}
}

// acquire waits for a slot and returns a function that releases it. The slot is always released
// after maxSlotHold.
func (s connectSlots) acquire(ctx context.Context, failedBefore bool) (release func(), err error) {
	slots := s.first
	if failedBefore {
		slots = s.retry
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	free := sync.OnceFunc(func() { <-slots })
	timer := time.AfterFunc(maxSlotHold, free)
	return func() {
		timer.Stop()
		free()
	}, nil
}
