package stages

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// clock says how long a cluster has been in a state, and whether that is too long. Time before this
// process observed the members does not count.
type clock struct {
	now, observedSince metav1.Time
	seenSince, answers map[string]metav1.Time
	// deadline is how long a cluster may take to become available.
	deadline time.Duration
	// assumesAnswers is set while the status is computed, which does not depend on when members have
	// answered.
	assumesAnswers bool
}

// failedGrace is how long a cluster must be Failed before the revision has failed there. In this
// time, requests that the member refused are sent again.
const failedGrace = 3 * time.Minute

// elapsed returns the time since t. A time in the future counts as now.
func (k *clock) elapsed(t metav1.Time) time.Duration { return max(0, k.now.Sub(t.Time)) }

// isLate reports whether a cluster has not become available within the progress deadline. A cluster
// that is Ready at the deadline, or only gets more pods, still gets its minReadySeconds.
func (k *clock) isLate(c *cluster) bool {
	return c.Entry.Phase != v1alpha1.ClusterReady && c.Entry.ReadySince == nil && c.Entry.UnavailableSince != nil && k.elapsed(k.deadlineStart(c)) >= k.deadline
}

// deadlineStart returns the time from which the progress deadline counts. The time before this
// process observed the members does not count: nothing may have been delivered.
func (k *clock) deadlineStart(c *cluster) metav1.Time {
	return latest(c.unavailableSince(), k.observedSince)
}

// isUnanswered reports whether the cluster has not answered the latest edit or revision yet. Until
// then it is not known to have stopped being Ready. A cluster that takes longer than failedGrace, or
// answers with errors for so long, counts as not Ready.
func (k *clock) isUnanswered(c *cluster) bool {
	return c.Entry.Phase == v1alpha1.ClusterProgressing && c.Entry.ObservedGeneration < c.Entry.Generation &&
		k.elapsed(k.unansweredSince(c)) < failedGrace
}

func (k *clock) unansweredSince(c *cluster) metav1.Time {
	return latest(c.phaseSince(k.now), k.observedSince)
}

// hasFailed reports whether the target failed on a cluster that has it.
func (k *clock) hasFailed(c *cluster) bool {
	e := &c.Entry
	switch {
	case !c.isConfirmed, e.Phase == v1alpha1.ClusterUnknown, e.Phase == v1alpha1.ClusterReady:
		return false
	case k.isLate(c):
		return !k.isUnanswered(c) && k.hasAnsweredSince(c, k.deadlineStart(c).Add(k.deadline))
	}
	failed := k.failedSince(c.unavailableSince(), c.phaseSince(k.now))
	return e.Phase == v1alpha1.ClusterFailed && k.elapsed(failed) >= failedGrace && k.hasAnsweredSince(c, failed.Add(failedGrace))
}

// failedSince returns the time from which failedGrace counts, for an entry that is Failed since
// phaseSince. What failed before the cluster got the revision does not count, nor what failed before
// this process observed it.
func (k *clock) failedSince(unavailable, phaseSince metav1.Time) metav1.Time {
	return latest(unavailable, phaseSince, k.observedSince)
}

// hasAnsweredSince reports whether the member of a cluster has answered at that time or later. Without
// an answer, what is known of the cluster may be from before an outage.
func (k *clock) hasAnsweredSince(c *cluster, t time.Time) bool {
	return k.assumesAnswers || !k.answers[c.Entry.Name].Time.Before(t)
}

// answerRecheck is the interval for planning again while a failure needs an answer of a member.
const answerRecheck = 5 * time.Second

// awaitsAnswer reports whether the target would have failed on a cluster if its member answered.
func (k *clock) awaitsAnswer(c *cluster) bool {
	assumed := *k
	assumed.assumesAnswers = true
	return !k.hasFailed(c) && assumed.hasFailed(c)
}

// isKnownUnready reports whether a cluster is not Ready. A cluster that has not answered the latest
// edit may be.
func (k *clock) isKnownUnready(c *cluster) bool {
	return !c.isServing() && !k.isUnanswered(c)
}

// becomesUnavailable reports whether a cluster stops being available. If pods were available with its
// revision, that is so only if ready pods are lost, and not if pods are added or the cluster cannot be
// observed. An entry that was restored, or whose first pods are Ready, has to become available first.
func (k *clock) becomesUnavailable(c *cluster) bool {
	e := &c.Entry
	switch isReady := e.Phase == v1alpha1.ClusterReady; {
	case c.Previous != nil && c.Previous.LastTransitionTime.IsZero():
		return true
	case isReady:
		return e.AvailableReplicas == 0 && e.ReadyReplicas > 0 && c.Previous != nil && c.Previous.ReadyReplicas == 0
	case k.isUnanswered(c):
		return false
	case e.AvailableReplicas > 0:
		return e.Phase != v1alpha1.ClusterUnknown && hasLostPods(*e)
	}
	return true
}

// unavailableSince returns from when the progress deadline of an unavailable cluster counts. It
// stops while the cluster cannot be observed, and goes on when that is over. It starts again after a
// pause, and after the cluster was outside the plan.
func (k *clock) unavailableSince(c *cluster, hold Hold) *metav1.Time {
	since, previous := c.Entry.UnavailableSince, c.Previous
	isUnknown := c.Entry.Phase == v1alpha1.ClusterUnknown
	switch {
	case hold == Resumed, k.now.Before(since):
		return &k.now
	case previous == nil, isUnknown:
		return since
	case !entryplan.IsPlanned(*previous), entryplan.AwaitsRemoval(*previous):
		return &k.now
	case previous.Phase == v1alpha1.ClusterUnknown:
		outage := k.elapsed(latest(*since, previous.LastTransitionTime))
		return new(metav1.NewTime(since.Add(outage)))
	}
	return since
}

// readySince returns from when minReadySeconds count, for an entry that is Ready since phaseSince. The
// time in which this process did not observe the cluster does not count.
func (k *clock) readySince(c *cluster, phaseSince metav1.Time) metav1.Time {
	if c.Entry.ReadySince != nil {
		phaseSince = *c.Entry.ReadySince
	}
	return latest(phaseSince, c.unavailableSince(), k.observedSince, k.seenSince[c.Entry.Name])
}

func latest(times ...metav1.Time) metav1.Time {
	return slices.MaxFunc(times, func(a, b metav1.Time) int { return a.Compare(b.Time) })
}
