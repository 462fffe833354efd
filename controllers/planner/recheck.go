package planner

import (
	"time"

	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// recheckAfter returns when to plan again although no input changes: the earliest time of both
// decisions and of the next try to store a revision, or 0.
func recheckAfter(in rollout.Input, decision rollout.Decision) time.Duration {
	after := decision.RecheckAfter
	if in.RevisionRefused != nil {
		after = earlier(after, refusedRetry)
	}
	if in.Configuration != nil {
		after = earlier(after, in.Configuration.RecheckAfter)
	}
	return after
}

// earlier returns the shorter of two times that are not 0, which is never.
func earlier(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
