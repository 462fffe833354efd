package clusters

import (
	"time"

	"github.com/fleetwright/fleetwright/clusters/stall"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// startedProbe is a probe that runs.
type startedProbe struct {
	clock        *stall.Clock
	due, started time.Time
	stalled      time.Duration // what the clock showed at the start
}

// startProbe starts a probe that is due at this time.
func startProbe(clock *stall.Clock, due time.Time) startedProbe {
	now := time.Now()
	return startedProbe{clock: clock, due: due, started: now, stalled: clock.Stalled(now)}
}

// end returns the probe after it has ended with this error, or nil.
func (p startedProbe) end(err error) stall.Probe {
	now := time.Now()
	return stall.Probe{
		Result: resultOf(err), Due: p.due, Started: p.started, Ended: now,
		Stalled: p.clock.Stalled(now) - p.stalled, Timeout: transport.GetTimeout,
	}
}

// resultOf returns how a probe ended that returned this error, or nil.
func resultOf(err error) stall.Result {
	switch {
	case err == nil:
		return stall.Answered
	case transport.IsOutOfResources(err):
		return stall.NotSent
	case transport.IsUnanswered(err):
		return stall.Unanswered
	}
	return stall.Refused
}
