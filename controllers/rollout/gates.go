package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// failedGrace is how long a cluster must be Failed before the revision has failed there. In this
// time, requests that the member refused are sent again.
const failedGrace = 3 * time.Minute

// clusterState is the state of a cluster in the rollout of the target. Its values are no predicates.
type clusterState int

const (
	// The cluster has the target.
	isAvailable clusterState = iota // Ready for long enough
	isUpdating                      // not yet, or it has lost ready pods for longer than failedGrace
	isDegraded                      // it was available, and has lost ready pods
	isFailed                        // the revision failed there, or pod security refuses it there
	isTrying                        // impaired, before the deadline
	isLost                          // cannot be observed, and was available with the target or is past the deadline
	isIdle                          // Ready, and has run no pods with the target
	isUndecided                     // no evidence: impaired and past the deadline, or not Ready after the rollout

	// The cluster has another revision, or none.
	isCandidate   // may get the target
	isBroken      // may get the target when nothing else is left
	isRecovering  // not Ready, before the deadline
	isUnreachable // must not get the target

	// The entry is Ready, and no observation by this process confirms it; or the cluster has not
	// answered the latest edit.
	isUnconfirmed
)

// stateOf returns the state of a cluster.
func (r *revisions) stateOf(c *stagedCluster) clusterState {
	if c.entry.Revision != r.status.Revision {
		return r.stateWithoutTarget(c)
	}
	state := r.stateWithTarget(c)
	if state == isFailed && c.isEmpty() && c.stage.hasPods() {
		return isUndecided
	}
	return state
}

func (r *revisions) stateWithTarget(c *stagedCluster) clusterState {
	e := &c.entry
	switch {
	case e.Phase == v1alpha1.ClusterUnknown && e.AvailableReplicas > 0:
		return isLost
	case c.isServing() && e.UnavailableSince == nil:
		switch {
		case !c.isConfirmed:
			return isUnconfirmed
		case e.AvailableReplicas == 0 && e.ReadyReplicas == 0:
			return isIdle
		}
		return isAvailable
	case e.UnavailableSince == nil && r.isUnanswered(c):
		return isUnconfirmed
	case e.UnavailableSince == nil: // it stopped being Ready after the rollout
		return isUndecided
	case e.Impaired && r.isLate(c):
		return isUndecided
	case e.Phase == v1alpha1.ClusterUnknown && r.isLate(c):
		return isLost
	case e.Impaired:
		return isTrying
	case r.hasFailed(c):
		return isFailed
	case e.AvailableReplicas > 0 && (e.Phase == v1alpha1.ClusterReady || r.in.elapsed(*e.UnavailableSince) < failedGrace):
		return isDegraded
	}
	return isUpdating
}

// isServing reports whether a cluster is Ready, or was available with its revision, has lost no pods
// since, and has answered the latest edit. It may not be Ready then because an autoscaler adds pods.
func (c *stagedCluster) isServing() bool {
	e := &c.entry
	if e.Phase == v1alpha1.ClusterReady {
		return true
	}
	return e.Phase != v1alpha1.ClusterUnknown && e.ObservedGeneration >= e.Generation && e.AvailableReplicas > 0 && !hasLostPods(*e)
}

// hasLostPods reports whether a cluster has fewer ready pods than when it was last Ready, and fewer
// than are desired. What an autoscaler desires is known by the number of pods.
func hasLostPods(entry v1alpha1.ClusterStatus) bool {
	return entry.ReadyReplicas < min(entry.AvailableReplicas, max(desiredReplicas(entry), entry.CurrentReplicas()))
}

func (r *revisions) stateWithoutTarget(c *stagedCluster) clusterState {
	e := &c.entry
	switch {
	case e.Phase == v1alpha1.ClusterUnknown:
		return isUnreachable
	case r.hasRefusedTarget(c):
		return isFailed
	case r.mustNotGetTarget(c):
		return isUndecided
	case e.Revision == 0:
		return isCandidate
	case c.isServing() && !c.isConfirmed:
		return isUnconfirmed
	case c.isServing():
		return isCandidate
	case e.Revision != r.status.StableRevision && !e.Impaired: // superseded: an edit may fix what is wrong there
		return isCandidate
	case e.Revision != r.status.StableRevision:
		return isBroken
	case c.isConfirmed && (e.Phase == v1alpha1.ClusterFailed || r.isLate(c)):
		return isBroken
	}
	return isRecovering
}

// hasFailed reports whether the target failed on a cluster that has it.
func (r *revisions) hasFailed(c *stagedCluster) bool {
	e := &c.entry
	switch {
	case !c.isConfirmed, e.Phase == v1alpha1.ClusterUnknown, e.Phase == v1alpha1.ClusterReady:
		return false
	case r.isLate(c):
		return !r.isUnanswered(c) && r.hasAnsweredSince(c, r.deadlineStart(c).Add(r.deadline))
	}
	failed := r.failedSince(c.unavailableSince(), c.phaseSince(r.in.Now))
	return e.Phase == v1alpha1.ClusterFailed && r.in.elapsed(failed) >= failedGrace && r.hasAnsweredSince(c, failed.Add(failedGrace))
}

// hasAnsweredSince reports whether the member of a cluster has answered at that time or later. Without
// an answer, what is known of the cluster may be from before an outage.
func (r *revisions) hasAnsweredSince(c *stagedCluster, t time.Time) bool {
	return r.assumesAnswers || !r.in.Answers[c.entry.Name].Time.Before(t)
}

// isUnanswered reports whether the cluster has not answered the latest edit or revision yet. Until
// then it is not known to have stopped being Ready. A cluster that takes longer than failedGrace, or
// answers with errors for so long, counts as not Ready.
func (r *revisions) isUnanswered(c *stagedCluster) bool {
	return c.entry.Phase == v1alpha1.ClusterProgressing && c.entry.ObservedGeneration < c.entry.Generation &&
		r.in.elapsed(r.unansweredSince(c)) < failedGrace
}

func (r *revisions) unansweredSince(c *stagedCluster) metav1.Time {
	return latest(c.phaseSince(r.in.Now), r.in.ObservedSince)
}

// failedSince returns the time from which failedGrace counts, for an entry that is Failed since
// phaseSince. What failed before the cluster got the revision does not count, nor what failed before
// this process observed it.
func (r *revisions) failedSince(unavailable, phaseSince metav1.Time) metav1.Time {
	return latest(unavailable, phaseSince, r.in.ObservedSince)
}

// unavailableSince returns since when the cluster is unavailable.
func (c *stagedCluster) unavailableSince() metav1.Time {
	if c.entry.UnavailableSince == nil {
		return metav1.Time{}
	}
	return *c.entry.UnavailableSince
}

// phaseSince returns since when the entry has its phase with its revision. If the clock was set back
// since then, the phase begins now, as in transitionTime.
func (c *stagedCluster) phaseSince(now metav1.Time) metav1.Time {
	isNew := c.previous == nil || c.previous.Phase != c.entry.Phase || c.previous.Revision != c.entry.Revision
	if isNew || isFromOtherClock(c.previous.LastTransitionTime, now) {
		return now
	}
	return c.previous.LastTransitionTime
}

// isLate reports whether a cluster has not become available within the progress deadline. A cluster
// that is Ready at the deadline, or only gets more pods, still gets its minReadySeconds.
func (r *revisions) isLate(c *stagedCluster) bool {
	return c.entry.Phase != v1alpha1.ClusterReady && c.entry.ReadySince == nil && c.entry.UnavailableSince != nil && r.in.elapsed(r.deadlineStart(c)) >= r.deadline
}

// deadlineStart returns the time from which the progress deadline counts. The time before this
// process observed the members does not count: nothing may have been delivered.
func (r *revisions) deadlineStart(c *stagedCluster) metav1.Time {
	return latest(c.unavailableSince(), r.in.ObservedSince)
}

// elapsed returns the time since t. A time in the future counts as now.
func (in Input) elapsed(t metav1.Time) time.Duration { return max(0, in.Now.Sub(t.Time)) }

func latest(times ...metav1.Time) metav1.Time {
	return slices.MaxFunc(times, func(a, b metav1.Time) int { return a.Compare(b.Time) })
}

// track updates since when the clusters are unavailable, and with how many pods they were available.
func (r *revisions) track() {
	isActive := r.status.Phase == v1alpha1.RolloutProgressing || r.status.Phase == v1alpha1.RolloutRollingBack || r.abortsHalted()
	for _, c := range r.clusters {
		e := &c.entry
		if e.UnavailableSince != nil {
			e.UnavailableSince = r.nextClock(c)
		}
		if e.UnavailableSince == nil && isActive && e.Revision != 0 && r.becomesUnavailable(c) {
			e.UnavailableSince = &r.in.Now
			e.Impaired = e.Phase != v1alpha1.ClusterReady && e.Revision == r.status.StableRevision // no rollout is the cause
		}
		e.ReadySince = c.nextReadySince()
		isReady := e.Phase == v1alpha1.ClusterReady && c.isConfirmed
		isGrowing := c.isConfirmed && e.ReadySince != nil && e.ObservedGeneration >= e.Generation
		switch {
		case isReady && e.UnavailableSince == nil,
			(isReady || isGrowing) && r.in.elapsed(r.readySince(c, c.phaseSince(r.in.Now))) >= c.stage.minReady():
			e.UnavailableSince, e.ReadySince, e.Impaired, e.Returned = nil, nil, false, false
			c.recordAvailable()
		case e.Phase != v1alpha1.ClusterReady && c.isConfirmed && c.isServing(): // the pods that it had lost are back
			e.UnavailableSince, e.Impaired = nil, false
		}
	}
}

// nextClock returns from when the progress deadline of an unavailable cluster counts. It stops while
// the cluster cannot be observed, and goes on when that is over. It starts again after a pause, and
// after the cluster was outside the plan.
func (r *revisions) nextClock(c *stagedCluster) *metav1.Time {
	since, previous := c.entry.UnavailableSince, c.previous
	isUnknown := c.entry.Phase == v1alpha1.ClusterUnknown
	switch {
	case r.resumes, r.in.Now.Before(since):
		return &r.in.Now
	case previous == nil, isUnknown:
		return since
	case !IsPlanned(*previous), awaitsRemoval(*previous):
		return &r.in.Now
	case previous.Phase == v1alpha1.ClusterUnknown:
		outage := r.in.elapsed(latest(*since, previous.LastTransitionTime))
		return new(metav1.NewTime(since.Add(outage)))
	}
	return since
}

// becomesUnavailable reports whether a cluster stops being available. If pods were available with its
// revision, that is so only if ready pods are lost, and not if pods are added or the cluster cannot be
// observed. An entry that was restored, or whose first pods are Ready, has to become available first.
func (r *revisions) becomesUnavailable(c *stagedCluster) bool {
	e := &c.entry
	switch isReady := e.Phase == v1alpha1.ClusterReady; {
	case c.previous != nil && c.previous.LastTransitionTime.IsZero():
		return true
	case isReady:
		return e.AvailableReplicas == 0 && e.ReadyReplicas > 0 && c.previous != nil && c.previous.ReadyReplicas == 0
	case r.isUnanswered(c):
		return false
	case e.AvailableReplicas > 0:
		return e.Phase != v1alpha1.ClusterUnknown && hasLostPods(*e)
	}
	return true
}

// nextReadySince returns since when a cluster that is not available yet has kept its ready pods
// although it is not Ready all the time, because an autoscaler adds pods. It is nil if the cluster was
// never Ready, if pods were lost, or if anything but pods is waited for, such as an address.
func (c *stagedCluster) nextReadySince() *metav1.Time {
	e, previous := &c.entry, c.previous
	switch {
	case e.UnavailableSince == nil, e.AvailableReplicas > 0, previous == nil, previous.Revision != e.Revision:
		return nil
	case !c.isConfirmed: // until this process has observed the cluster, the entry stays as it is
		return previous.ReadySince
	}
	hasKept := e.ReadyReplicas > 0 && e.ReadyReplicas >= min(previous.ReadyReplicas, desiredReplicas(*e))
	isReady := e.Phase == v1alpha1.ClusterReady
	isAdding := e.Phase == v1alpha1.ClusterProgressing && e.Reason == v1alpha1.ReasonRollingOut
	switch {
	case !hasKept || !isReady && !isAdding:
		return nil
	case previous.ReadySince != nil:
		return previous.ReadySince
	case isAdding && previous.Phase == v1alpha1.ClusterReady:
		return &previous.LastTransitionTime
	}
	return nil
}

// readySince returns from when minReadySeconds count, for an entry that is Ready since phaseSince. The
// time in which this process did not observe the cluster does not count.
func (r *revisions) readySince(c *stagedCluster, phaseSince metav1.Time) metav1.Time {
	if c.entry.ReadySince != nil {
		phaseSince = *c.entry.ReadySince
	}
	return latest(phaseSince, c.unavailableSince(), r.in.ObservedSince, r.in.SeenSince[c.entry.Name])
}

// recordAvailable records with how many pods the cluster is available. An entry of an older version of
// Fleetwright gets this with the next change of the entry.
func (c *stagedCluster) recordAvailable() {
	e, previous := &c.entry, c.previous
	isChanged := previous == nil || previous.UnavailableSince != nil || previous.ReadyReplicas != e.ReadyReplicas || previous.Phase != e.Phase
	if e.AvailableReplicas > 0 || e.ReadyReplicas > 0 && isChanged {
		e.AvailableReplicas = max(1, e.ReadyReplicas)
	}
}

// tally counts the clusters of a stage by their state.
type tally map[clusterState]int

func (r *revisions) tallyOf(s *stage) tally {
	t := tally{}
	for _, c := range s.clusters {
		t[r.stateOf(c)]++
	}
	return t
}

// isSettled reports whether the result of a stage is known: nothing is updating, nothing is left to
// update, and enough clusters have a result. A promoted stage needs no result. Clusters without pods
// have none.
func (r *revisions) isSettled(s *stage) bool {
	t := r.tallyOf(s)
	if t[isUpdating]+t[isCandidate]+t[isUnconfirmed] > 0 {
		return false
	}
	if s.status.Promoted {
		return true
	}
	size := 0
	for _, c := range s.clusters {
		if !c.isEmpty() || r.stateOf(c) == isAvailable {
			size++
		}
	}
	return t[isAvailable] > 0 && 2*(t[isAvailable]+t[isFailed]) >= size // the quorum
}

// exceededStage returns the first stage in which the target failed, and the clusters on which it did:
// more clusters than may fail, or each cluster that has a result, and none is left to try; or more
// clusters than may fail that it has cut off. It returns nil if there is none.
func (r *revisions) exceededStage() (*stage, []*stagedCluster) {
	for _, s := range r.stages {
		if clusters := r.exceededOn(s); clusters != nil {
			return s, clusters
		}
	}
	return nil, nil
}

// exceededOn returns the clusters of a stage on which the target failed, or nil if it did not fail there.
func (r *revisions) exceededOn(s *stage) []*stagedCluster {
	t := r.tallyOf(s)
	left := t[isAvailable] + t[isDegraded] + t[isUpdating] + t[isCandidate] + t[isRecovering] + t[isUnconfirmed]
	left += len(r.inState(s, isLost)) - len(r.neverAvailable(s)) // these may be available again
	if t[isFailed] > s.maxFailed() || t[isFailed] > 0 && left == 0 {
		return r.inState(s, isFailed)
	}
	if cutOff := r.cutOff(s); len(cutOff) > s.maxFailed() {
		return cutOff
	}
	return nil
}

// inState returns the clusters of a stage that have a state.
func (r *revisions) inState(s *stage, state clusterState) []*stagedCluster {
	var clusters []*stagedCluster
	for _, c := range s.clusters {
		if r.stateOf(c) == state {
			clusters = append(clusters, c)
		}
	}
	return clusters
}

// minCutOff is the number of lost clusters from which the target may have cut them off. A single one
// is not distinguishable from an outage.
const minCutOff = 2

// neverAvailable returns the lost clusters of a stage that were never available with the target.
func (r *revisions) neverAvailable(s *stage) []*stagedCluster {
	return slices.DeleteFunc(r.inState(s, isLost), func(c *stagedCluster) bool { return c.entry.AvailableReplicas > 0 })
}

// cutOff returns the lost clusters of a stage that were never available with the target, if that has
// cut them off: there are several, at least as many clusters without the target are observed, and none
// of those became unreachable since. Otherwise it may be an outage, which is no evidence.
func (r *revisions) cutOff(s *stage) []*stagedCluster {
	lost := r.neverAvailable(s)
	if len(lost) < minCutOff {
		return nil
	}
	since := r.in.Now
	for _, c := range lost {
		if got := c.unavailableSince(); got.Before(&since) {
			since = got
		}
	}
	observed := 0
	for _, c := range s.clusters {
		switch wentDown := c.phaseSince(r.in.Now); {
		case c.entry.Revision == r.status.Revision:
		case c.entry.Phase == v1alpha1.ClusterUnknown && !wentDown.Before(&since):
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

// needsApproval reports whether a stage waits for approval.
// docs/decisions/approvals-are-annotations.md says why.
func (r *revisions) needsApproval(s *stage) bool {
	return s.Approval == v1alpha1.ApprovalRequired && !r.status.Undo && !s.status.Approved && !s.status.Promoted
}

// soakEnd returns when the soak of a stage ends.
func (r *revisions) soakEnd(s *stage) time.Time {
	if r.status.Undo || s.status.Promoted {
		return s.status.Since.Time
	}
	return s.status.Since.Add(s.soak())
}
