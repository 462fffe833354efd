package stages

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// tally counts the clusters of a stage by their state.
type tally map[clusterState]int

func (s *stage) tally() tally {
	t := tally{}
	for _, c := range s.clusters {
		t[s.judge.stateOf(c)]++
	}
	return t
}

// inState returns the clusters of a stage that have a state.
func (s *stage) inState(state clusterState) []*cluster {
	var clusters []*cluster
	for _, c := range s.clusters {
		if s.judge.stateOf(c) == state {
			clusters = append(clusters, c)
		}
	}
	return clusters
}

// needsApproval reports whether a stage waits for approval.
// docs/decisions/approvals-are-annotations.md says why.
func (s *stage) needsApproval() bool {
	return s.Approval == v1alpha1.ApprovalRequired && !s.judge.status.Undo && !s.status.Approved && !s.status.Promoted
}

// soakEnd returns when the soak of a stage ends.
func (s *stage) soakEnd() time.Time {
	if s.judge.status.Undo || s.status.Promoted {
		return s.status.Since.Time
	}
	return s.status.Since.Add(s.soak())
}

// isSettled reports whether the result of a stage is known: nothing is updating, nothing is left to
// update, also when all clusters have answered the latest edit, and enough clusters have a result. A
// promoted stage needs no result. Clusters without pods have none.
func (s *stage) isSettled() bool {
	t := s.tally()
	if t[stateUpdating]+t[stateCandidate]+t[stateUnconfirmed] > 0 || s.awaitsAnswers() {
		return false
	}
	if s.status.Promoted {
		return true
	}
	size := 0
	for _, c := range s.clusters {
		if !c.isEmpty() || s.judge.stateOf(c) == stateAvailable {
			size++
		}
	}
	return t[stateAvailable] > 0 && 2*(t[stateAvailable]+t[stateFailed]) >= size // the quorum
}

// exceededOn returns the clusters of a stage on which the target failed, or nil if it did not fail there.
func (s *stage) exceededOn() []*cluster {
	t := s.tally()
	left := t[stateAvailable] + t[stateDegraded] + t[stateUpdating] + t[stateCandidate] + t[stateRecovering] + t[stateUnconfirmed]
	left += len(s.inState(stateLost)) - len(s.neverAvailable()) // these may be available again
	if t[stateFailed] > s.maxFailed() || t[stateFailed] > 0 && left == 0 {
		return s.inState(stateFailed)
	}
	if cutOff := s.cutOff(); len(cutOff) > s.maxFailed() {
		return cutOff
	}
	return nil
}

// minCutOff is the number of lost clusters from which the target may have cut them off. A single one
// is not distinguishable from an outage.
const minCutOff = 2

// neverAvailable returns the lost clusters of a stage that were never available with the target.
func (s *stage) neverAvailable() []*cluster {
	return slices.DeleteFunc(s.inState(stateLost), func(c *cluster) bool { return c.Entry.AvailableReplicas > 0 })
}

// cutOff returns the lost clusters of a stage that were never available with the target, if that has
// cut them off: there are several, at least as many clusters without the target are observed, and none
// of those became unreachable since. Otherwise it may be an outage, which is no evidence.
func (s *stage) cutOff() []*cluster {
	lost := s.neverAvailable()
	if len(lost) < minCutOff {
		return nil
	}
	since := s.judge.clock.now
	for _, c := range lost {
		if got := c.unavailableSince(); got.Before(&since) {
			since = got
		}
	}
	observed := 0
	for _, c := range s.clusters {
		switch wentDown := c.phaseSince(s.judge.clock.now); {
		case c.Entry.Revision == s.judge.status.Revision:
		case c.Entry.Phase == v1alpha1.ClusterUnknown && !wentDown.Before(&since):
			return nil
		case c.isConfirmed:
			observed++
		}
	}
	if observed < len(lost) {
		return nil
	}
	return lost
}
