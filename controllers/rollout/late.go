package rollout

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// This file decides about stages that were Skipped when the rollout was completed. The target has not
// gone through them, although it is stable: a cluster that joins them gets it as in any stage.

// closeStage ends a stage when the rollout is complete: a stage through which the stable revision did not
// go is Skipped.
func (r *revisions) closeStage(s *stage) {
	switch {
	case s.status.Phase == v1alpha1.StageCompleted:
	case len(s.clusters) > 0 && !s.status.StableSkipped:
		s.enter(v1alpha1.StageCompleted, r.in.Now)
	default:
		s.enter(v1alpha1.StageSkipped, r.in.Now)
	}
	s.status.StableSkipped, s.isNew = false, false
}

// closeStages ends the stages of a completed rollout that the status does not have yet, because
// spec.rollout was edited, and those whose clusters need nothing more.
func (r *revisions) closeStages() {
	if r.status.Phase != v1alpha1.RolloutCompleted {
		return
	}
	for _, s := range r.stages {
		if s.isNew || s.Approval == "" && r.isDone(s) {
			r.closeStage(s)
		}
	}
}

// runLate updates clusters that are late, and runs the stages that were Skipped and have clusters now,
// one after another.
func (r *revisions) runLate() {
	r.closeStages()
	isActive := true
	for _, s := range r.stages {
		switch {
		case s.status.Phase == v1alpha1.StageCompleted:
			r.update(s)
		case !s.isActive() && r.isDone(s): // its clusters came with the target
			s.enter(v1alpha1.StageSkipped, r.in.Now)
		case !isActive:
			if s.status.Phase == v1alpha1.StageAwaitingApproval {
				s.enter(v1alpha1.StageSkipped, r.in.Now)
			}
		case r.exceededOn(s) != nil: // nothing returns from the stable revision, but no other cluster gets it
			isActive = false
		default:
			isActive = r.runStage(s)
		}
	}
}

// isOpen reports whether clusters may get the target in stages: it is not stable yet, or a stage may have
// got clusters after the rollout was completed.
func (r *revisions) isOpen() bool {
	return r.isRollingOut() || r.status.Phase == v1alpha1.RolloutCompleted
}

// startsWithStable reports whether a cluster without a revision gets the stable one at once. It does not
// if its stage needs approval and the stable revision never went through that stage.
func (r *revisions) startsWithStable(c *stagedCluster) bool {
	s := c.stage
	switch {
	case s.Approval == "":
		return true
	case r.status.Phase == v1alpha1.RolloutCompleted:
		return s.status.Phase == v1alpha1.StageCompleted
	}
	return !s.status.StableSkipped
}

// skippedStages returns the names of the stages through which the stable revision did not go.
func skippedStages(state v1alpha1.RolloutStatus) map[string]bool {
	names := map[string]bool{}
	for _, s := range state.Stages {
		isLate := state.Phase == v1alpha1.RolloutCompleted && s.Phase != v1alpha1.StageCompleted
		if isLate || s.StableSkipped {
			names[s.Name] = true
		}
	}
	return names
}
