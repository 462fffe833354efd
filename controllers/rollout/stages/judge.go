package stages

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// clusterState is the state of a cluster in the rollout of the target.
type clusterState int

const (
	// The cluster has the target.
	stateAvailable clusterState = iota // Ready for long enough
	stateUpdating                      // not yet, or it has lost ready pods for longer than failedGrace
	stateDegraded                      // it was available, and has lost ready pods
	stateFailed                        // the revision failed there, or pod security refuses it there
	stateTrying                        // impaired, before the deadline
	stateLost                          // cannot be observed, and was available with the target, is or is past the deadline
	stateIdle                          // Ready, and has run no pods with the target
	stateUndecided                     // no evidence: impaired and past the deadline, or not Ready after the rollout

	// The cluster has another revision, or none.
	stateCandidate   // may get the target
	stateBroken      // may get the target when nothing else is left
	stateRecovering  // not Ready, before the deadline
	stateUnreachable // must not get the target

	// The entry is Ready, and no observation by this process confirms it; or the cluster has not
	// answered the latest edit.
	stateUnconfirmed
)

// judge says in which state a cluster is.
type judge struct {
	clock    *clock
	contents *contents
	status   *state
}

// stateOf returns the state of a cluster.
func (j *judge) stateOf(c *cluster) clusterState {
	if c.Entry.Revision != j.status.Revision {
		return j.stateWithoutTarget(c)
	}
	state := j.stateWithTarget(c)
	if state == stateFailed && c.isEmpty() && c.stage.hasPods() {
		return stateUndecided
	}
	return state
}

func (j *judge) stateWithTarget(c *cluster) clusterState {
	e := &c.Entry
	switch {
	case e.Phase == v1alpha1.ClusterUnknown && e.AvailableReplicas > 0:
		return stateLost
	case c.isServing() && e.UnavailableSince == nil:
		switch {
		case !c.isConfirmed:
			return stateUnconfirmed
		case e.AvailableReplicas == 0 && e.ReadyReplicas == 0:
			return stateIdle
		}
		return stateAvailable
	case e.UnavailableSince == nil && j.clock.isUnanswered(c):
		return stateUnconfirmed
	case e.UnavailableSince == nil: // it stopped being Ready after the rollout
		return stateUndecided
	case e.Impaired && j.clock.isLate(c):
		return stateUndecided
	case e.Phase == v1alpha1.ClusterUnknown && j.clock.isLate(c):
		return stateLost
	case e.Impaired:
		return stateTrying
	case j.clock.hasFailed(c):
		return stateFailed
	case e.AvailableReplicas > 0 && (e.Phase == v1alpha1.ClusterReady || j.clock.elapsed(*e.UnavailableSince) < failedGrace):
		return stateDegraded
	}
	return stateUpdating
}

func (j *judge) stateWithoutTarget(c *cluster) clusterState {
	e := &c.Entry
	switch {
	case e.Phase == v1alpha1.ClusterUnknown:
		return stateUnreachable
	case j.hasRefusedTarget(c):
		return stateFailed
	case j.mustNotGetTarget(c):
		return stateUndecided
	case e.Revision == 0:
		return stateCandidate
	case c.isServing() && !c.isConfirmed:
		return stateUnconfirmed
	case c.isServing():
		return stateCandidate
	case e.Revision != j.status.StableRevision && !e.Impaired: // superseded: an edit may fix what is wrong there
		return stateCandidate
	case e.Revision != j.status.StableRevision:
		return stateBroken
	case c.isConfirmed && (e.Phase == v1alpha1.ClusterFailed || j.clock.isLate(c)):
		return stateBroken
	}
	return stateRecovering
}

// hasRefusedTarget reports whether it is the turn of a cluster and pod security refuses the target
// there. The target has failed on this cluster, although it never got it. A policy that is later than the
// target says nothing about it.
func (j *judge) hasRefusedTarget(c *cluster) bool {
	return j.mustNotGetTarget(c) && !j.contents.Refusals[j.status.Revision][c.Entry.Name].IsByLaterPolicy
}

// mustNotGetTarget reports whether it is the turn of a cluster and it must not get the target.
func (j *judge) mustNotGetTarget(c *cluster) bool {
	return c.stage.isActive() && j.contents.isRefused(c, j.status.Revision)
}

// isUnavailable reports whether a cluster that has a revision is known not to be available.
func (j *judge) isUnavailable(c *cluster) bool {
	return c.Entry.Revision != 0 && (c.Entry.UnavailableSince != nil || j.clock.isKnownUnready(c))
}

// takesVacancy reports whether a cluster is unavailable because of the rollout: it is updating, it has lost
// ready pods with the target, it was lost with the target in a stage that goes on, or it is in transit.
func (j *judge) takesVacancy(c *cluster) bool {
	switch {
	case c.Entry.Revision != j.status.Revision:
		return j.isInTransit(c)
	case c.Entry.Phase == v1alpha1.ClusterUnknown && !j.status.isOpen(): // it must not go back, or it would have
		return false
	}
	switch j.stateOf(c) {
	case stateUpdating, stateDegraded:
		return true
	case stateLost:
		return c.stage.keepsLost()
	}
	return false
}

// isInTransit reports whether the rollout has made a cluster unavailable that does not have the target,
// and its deadline has not passed. After a cluster has got the stable revision, it is in transit only
// while it may become available by itself.
func (j *judge) isInTransit(c *cluster) bool {
	e := &c.Entry
	if e.Revision == j.status.StableRevision {
		return j.isGoingBack(c)
	}
	return e.Revision != 0 && e.UnavailableSince != nil && !e.Impaired && !j.clock.isLate(c)
}

// isGoingBack reports whether a cluster has the stable revision and is about to become available.
// One that was Ready before counts until it has failed, so that no other is taken before that is
// known.
func (j *judge) isGoingBack(c *cluster) bool {
	e := &c.Entry
	switch {
	case e.Revision != j.status.StableRevision, e.UnavailableSince == nil, e.Impaired, e.Phase == v1alpha1.ClusterUnknown:
		return false
	case e.Returned:
		return !j.clock.hasFailed(c)
	}
	return e.Phase != v1alpha1.ClusterFailed && !j.clock.isLate(c)
}

// describeFailed returns the first of the clusters on which the target failed, by name, and the reason
// of the first. There is at least one.
func (j *judge) describeFailed(clusters []*cluster) ([]string, string) {
	first := slices.MinFunc(clusters, func(a, b *cluster) int { return cmp.Compare(a.Entry.Name, b.Entry.Name) })
	if j.hasRefusedTarget(first) {
		return wording.FirstNames(namesOf(clusters)), v1alpha1.ReasonPodSecurityRefused
	}
	return wording.FirstNames(namesOf(clusters)), first.Entry.Reason
}
