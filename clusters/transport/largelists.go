package transport

import (
	"context"
	"errors"
	"time"

	"github.com/fleetwright/fleetwright/clusters/stall"
)

const (
	// smallListBytes is the cost of a list that needs no turn: some 1,000 Deployments.
	smallListBytes = 16 << 20
	// maxListTurn is how long a member may take for the rest of a large list, without the time in which
	// the hub throttles it. API servers end a list after a minute.
	maxListTurn = time.Minute
)

// errTurnTooLong ends a large list that other members wait for.
var errTurnTooLong = &LimitError{Message: "the member takes more than a minute to send a large list"}

// LargeLists makes the members take turns with large lists: a list takes several times its size in memory
// until it is decoded, and many at once would be more than the operator may use. It is safe for concurrent
// use.
type LargeLists struct {
	clock *stall.Clock
	turn  chan struct{}
}

// NewLargeLists returns the LargeLists of all members. The clock measures the stalls of this process.
func NewLargeLists(clock *stall.Clock) *LargeLists {
	return &LargeLists{clock: clock, turn: make(chan struct{}, 1)}
}

// Begin returns a context for the request of one list. Its body waits for a turn when the list becomes
// large. The returned function must be called after the list is decoded; it returns the error, or why the
// list was ended.
func (l *LargeLists) Begin(ctx context.Context) (_ context.Context, end func(error) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	list := &largeList{turn: l.turn}
	list.timer = NewTimer(l.clock, maxListTurn, func() { cancel(errTurnTooLong) })
	list.timer.hold() // until it has its turn
	ctx = context.WithValue(withTimers(ctx, list.timer), largeListKey{}, list)
	return ctx, func(err error) error {
		list.timer.Stop()
		if list.hasTurn {
			<-list.turn
		}
		if err != nil && errors.Is(context.Cause(ctx), errTurnTooLong) {
			err = errTurnTooLong
		}
		cancel(nil)
		return err
	}
}

type largeListKey struct{}

// largeList is a list that may become large. One goroutine uses it: client-go reads and decodes a list in
// the goroutine that asked for it.
type largeList struct {
	turn    chan struct{}
	timer   *Timer
	hasTurn bool
}

// waitForTurn returns when a list of this cost may continue. Meanwhile it holds the timers of the request,
// because the hub is slow and not the member.
func waitForTurn(ctx context.Context, cost int64) error {
	list, isList := ctx.Value(largeListKey{}).(*largeList)
	if !isList || list.hasTurn || cost <= smallListBytes {
		return nil
	}
	defer holdTimers(ctx)()
	select {
	case list.turn <- struct{}{}:
		list.hasTurn = true
		list.timer.release()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
