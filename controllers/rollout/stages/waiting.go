package stages

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// waitingStage returns the stage in which nothing can be done, and which has no result, or nil. A
// cluster that has not answered the latest edit may be updated when it has. A stage that soaks may
// have lost its result.
func (r *Rollout) waitingStage() *stage {
	if !r.status.isOpen() || r.assigner.hold.isPaused() {
		return nil
	}
	for _, s := range r.stages {
		if s.status.Phase != v1alpha1.StageProgressing && s.status.Phase != v1alpha1.StageSoaking {
			continue
		}
		t := s.tally()
		isMoving := func(c *cluster) bool {
			return r.judge.clock.isUnanswered(c) || c.Entry.Revision != r.status.Revision && r.judge.isInTransit(c)
		}
		isAtRest := len(s.next()) == 0 && t[stateUpdating]+t[stateDegraded]+t[stateTrying] == 0 && !slices.ContainsFunc(s.clusters, isMoving)
		if r.isStopped(s) || isAtRest && !s.isSettled() {
			return s
		}
	}
	return nil
}

// setWaiting sets in the outcome what the rollout waits for: clusters of a stage; or, if all stages
// are over and the target is available nowhere, pods.
func (r *Rollout) setWaiting(outcome *Outcome) {
	if s := r.waitingStage(); s != nil {
		outcome.WaitingStage = s.Name
		outcome.LostClusters = sortedNames(s.inState(stateLost))
		outcome.IdleClusters = sortedNames(s.inState(stateIdle))
		if r.isStopped(s) {
			outcome.StoppedOn = sortedNames(s.exceededOn())
		}
		return
	}
	if r.stages == nil || !r.status.isRollingOut() || r.assigner.hold.isPaused() || slices.ContainsFunc(r.stages, (*stage).isUnfinished) {
		return
	}
	var idle []*cluster
	for _, s := range r.stages {
		idle = append(idle, s.inState(stateIdle)...)
	}
	outcome.IdleClusters = sortedNames(idle)
}

// isStopped reports whether the target failed in a stage after the rollout was completed. No other
// cluster gets it then, and a promotion has no effect.
func (r *Rollout) isStopped(s *stage) bool {
	return r.status.Phase == v1alpha1.RolloutCompleted && s.exceededOn() != nil
}
