package clusters

import (
	"context"
	"sync"
	"time"
)

// maxSlotHold is how long a member keeps its place in a lane. One that takes longer waits for the network and costs the hub
// next to nothing, so it goes on without a place.
const maxSlotHold = 2 * time.Second

// retrySlots is how many members may be listing at the same time of those whose last attempt failed.
const retrySlots = 8

// connectSlots bound how many members are listing at the same time, for that is what costs the hub memory. Those that failed
// before have a lane of their own: however many there are, a healthy one does not queue behind them.
type connectSlots struct {
	first, again chan struct{}
}

func newConnectSlots(places int) connectSlots {
	return connectSlots{first: make(chan struct{}, places), again: make(chan struct{}, retrySlots)}
}

// acquire waits for a place, and returns how to give it back; by itself it is given back after maxSlotHold.
func (l connectSlots) acquire(ctx context.Context, failedBefore bool) (leave func(), err error) {
	lane := l.first
	if failedBefore {
		lane = l.again
	}
	select {
	case lane <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	giveBack := sync.OnceFunc(func() { <-lane })
	timer := time.AfterFunc(maxSlotHold, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}, nil
}
