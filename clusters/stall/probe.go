package stall

import "time"

// Result is how a probe ended.
type Result int

const (
	// Answered means that the member answered.
	Answered Result = iota
	// Refused means that the member, or the network before it, reported an error: a status code, a
	// refused connection, a wrong certificate. No slowness of this process causes that.
	Refused
	// Unanswered means that no answer arrived in time, or that the connection was closed: a server
	// closes the connections of a client that is too slow.
	Unanswered
	// NotSent means that this process has no resources for a connection, such as file descriptors.
	NotSent
)

// Probe is one probe of a member. Its times have monotonic clock readings.
type Probe struct {
	Result Result
	// Due is when the probe should have started. Started and Ended are when it did.
	Due, Started, Ended time.Time
	// Stalled is how long the process stalled between Started and Ended.
	Stalled time.Duration
	// Timeout is how long a member may take to answer.
	Timeout time.Duration
}

// Outcome is what a probe says about the member.
type Outcome string

const (
	// Alive means that the member answered.
	Alive Outcome = "Alive"
	// Failed means that the member did not answer, and that this process did not prevent it.
	Failed Outcome = "Failed"
	// Inconclusive means that this process may have prevented the answer: nothing is known.
	Inconclusive Outcome = "Inconclusive"
)

// toleratedShare is how much of its timeout a probe may lose to stalls, as a divisor, and still be
// evidence.
const toleratedShare = 10

// outcome returns what the probe says by itself.
func (p Probe) outcome() Outcome {
	waited := p.Ended.Sub(p.Started) - p.Stalled
	lost := p.Started.Sub(p.Due) + p.Stalled
	switch {
	case p.Result == Answered:
		return Alive
	case p.Result == Refused, p.Result == Unanswered && waited >= p.Timeout:
		return Failed
	case p.Result == NotSent, lost > p.Timeout/toleratedShare:
		return Inconclusive
	}
	return Failed
}

const (
	// A member is lost after maxFailed failed probes in a row.
	maxFailed = 3
	// After maxInconclusive inconclusive probes in a row, each further one counts as failed.
	maxInconclusive = 10
)

// Streak is what the probes of a member have shown since the last answer. The zero value is the
// streak after an answer.
type Streak struct{ failed, inconclusive int }

// Add adds a probe to the streak, and returns what the probe says about the member.
func (s *Streak) Add(p Probe) Outcome {
	outcome := p.outcome()
	if outcome == Inconclusive {
		if s.inconclusive++; s.inconclusive > maxInconclusive {
			outcome = Failed
		}
	}
	switch outcome {
	case Alive:
		*s = Streak{}
	case Failed:
		s.failed++
	case Inconclusive:
	}
	return outcome
}

// IsLost reports whether too many probes have failed.
// docs/decisions/a-lost-member-is-disengaged-at-once.md says why.
func (s *Streak) IsLost() bool { return s.failed >= maxFailed }
