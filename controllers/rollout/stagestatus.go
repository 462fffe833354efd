package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// finish sets what depends on the final entries: the status of the stages, and the stable revision
// of an AppService without stages. It returns the times at which the decision may differ although no
// input changes.
func (r *revisions) finish(entries []v1alpha1.ClusterStatus) []time.Time {
	r.adoptAtOnce(entries)
	if r.stages == nil {
		return nil
	}
	deadlines := r.deadlines(entries)
	// The status does not depend on what this process has observed. So a restart does not change it.
	r.in.ObservedSince, r.in.SeenSince, r.assumesAnswers = metav1.Time{}, nil, true
	for _, c := range r.clusters {
		c.isConfirmed = true
	}
	r.status.Stages = nil
	for _, s := range r.stages {
		if r.isLeftOut(s) {
			continue
		}
		r.count(s)
		r.status.Stages = append(r.status.Stages, s.status)
	}
	return append(deadlines, r.deadlines(entries)...)
}

// isLeftOut reports whether the status does not have a stage: the last one, if it has not begun and all
// clusters are in others.
func (r *revisions) isLeftOut(s *stage) bool {
	return s.Name == RestStage && len(r.stages) > 1 && len(s.clusters) == 0 && !s.isActive()
}

// count counts the clusters of a stage.
func (r *revisions) count(s *stage) {
	s.status.Clusters, s.status.UpToDate, s.status.Available, s.status.Failed = int32(len(s.clusters)), 0, 0, 0
	for _, c := range s.clusters {
		if c.entry.Revision != r.status.Revision {
			if r.hasRefusedTarget(c) {
				s.status.Failed++
			}
			continue
		}
		s.status.UpToDate++
		switch r.stateOf(c) {
		case isAvailable:
			s.status.Available++
		case isFailed:
			s.status.Failed++
		}
	}
}

// waitingStage returns the stage in which nothing can be done, and which has no result, or nil. A
// cluster that has not answered the latest edit may be updated when it has. A stage that soaks may
// have lost its result.
func (r *revisions) waitingStage() *stage {
	if !r.isOpen() || r.status.Paused {
		return nil
	}
	for _, s := range r.stages {
		if s.status.Phase != v1alpha1.StageProgressing && s.status.Phase != v1alpha1.StageSoaking {
			continue
		}
		t := r.tallyOf(s)
		isMoving := func(c *stagedCluster) bool {
			return r.isUnanswered(c) || c.entry.Revision != r.status.Revision && r.isInTransit(c)
		}
		isAtRest := len(r.next(s)) == 0 && t[isUpdating]+t[isDegraded]+t[isTrying] == 0 && !slices.ContainsFunc(s.clusters, isMoving)
		if r.isStopped(s) || isAtRest && !r.isSettled(s) {
			return s
		}
	}
	return nil
}

// setWaiting sets in a decision what the rollout waits for: clusters of a stage; or, if all stages
// are over and the target is available nowhere, pods.
func (r *revisions) setWaiting(decision *Decision) {
	if s := r.waitingStage(); s != nil {
		decision.WaitingStage = s.Name
		decision.LostClusters = sortedNames(r.inState(s, isLost))
		decision.IdleClusters = sortedNames(r.inState(s, isIdle))
		if r.isStopped(s) {
			decision.StoppedOn = sortedNames(r.exceededOn(s))
		}
		return
	}
	if r.stages == nil || !r.isRollingOut() || r.status.Paused || slices.ContainsFunc(r.stages, isUnfinished) {
		return
	}
	var idle []*stagedCluster
	for _, s := range r.stages {
		idle = append(idle, r.inState(s, isIdle)...)
	}
	decision.IdleClusters = sortedNames(idle)
}

// isUnfinished reports whether a stage has not been completed or skipped.
func isUnfinished(s *stage) bool {
	return s.status.Phase != v1alpha1.StageCompleted && s.status.Phase != v1alpha1.StageSkipped
}

// isStopped reports whether the target failed in a stage after the rollout was completed. No other
// cluster gets it then, and a promotion has no effect.
func (r *revisions) isStopped(s *stage) bool {
	return r.status.Phase == v1alpha1.RolloutCompleted && r.exceededOn(s) != nil
}

// sortedNames returns the names of clusters, sorted.
func sortedNames(clusters []*stagedCluster) []string {
	names := namesOf(clusters)
	slices.Sort(names)
	return names
}

// answerRecheck is the interval for planning again while a failure needs an answer of a member.
const answerRecheck = 5 * time.Second

// awaitsAnswer reports whether the target would have failed on a cluster if its member answered.
func (r *revisions) awaitsAnswer(c *stagedCluster) bool {
	assumed := *r
	assumed.assumesAnswers = true
	return !r.hasFailed(c) && assumed.hasFailed(c)
}

// deadlines returns the times at which a cluster becomes available or fails, or a soak ends.
func (r *revisions) deadlines(entries []v1alpha1.ClusterStatus) []time.Time {
	var deadlines []time.Time
	status := v1alpha1.AppServiceStatus{Clusters: entries}
	for _, c := range r.clusters {
		if r.isUnanswered(c) {
			deadlines = append(deadlines, r.unansweredSince(c).Add(failedGrace))
		}
		if c.entry.UnavailableSince == nil {
			continue
		}
		if r.awaitsAnswer(c) {
			deadlines = append(deadlines, r.in.Now.Add(answerRecheck))
		}
		since := status.Cluster(c.entry.Name).LastTransitionTime
		switch {
		case c.entry.Phase == v1alpha1.ClusterReady, c.entry.ReadySince != nil:
			deadlines = append(deadlines, r.readySince(c, since).Add(c.stage.minReady()))
			continue
		case c.entry.Phase == v1alpha1.ClusterFailed:
			deadlines = append(deadlines, r.failedSince(c.unavailableSince(), since).Add(failedGrace))
		}
		deadlines = append(deadlines, r.deadlineStart(c).Add(r.deadline), since.Add(failedGrace), c.unavailableSince().Add(failedGrace))
	}
	for _, s := range r.stages {
		if s.status.Phase == v1alpha1.StageSoaking {
			deadlines = append(deadlines, r.soakEnd(s))
		}
	}
	return deadlines
}
