package clusters

import (
	"context"
	"sync"
	"time"
)

// maxHeld is how long a member keeps its place in a lane. One that takes longer waits for the network and costs the hub
// next to nothing, so it goes on without a place.
const maxHeld = 2 * time.Second

// retryLane is how many members may be listing at the same time of those whose last attempt failed.
const retryLane = 8

// lanes bound how many members are listing at the same time, for that is what costs the hub memory. Those that failed
// before have a lane of their own: however many there are, a healthy one does not queue behind them.
type lanes struct {
	first, again chan struct{}
}

func newLanes(places int) lanes {
	return lanes{first: make(chan struct{}, places), again: make(chan struct{}, retryLane)}
}

// enter waits for a place, and returns how to give it back; by itself it is given back after maxHeld.
func (l lanes) enter(ctx context.Context, failedBefore bool) (leave func(), err error) {
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
	timer := time.AfterFunc(maxHeld, giveBack)
	return func() {
		timer.Stop()
		giveBack()
	}, nil
}
