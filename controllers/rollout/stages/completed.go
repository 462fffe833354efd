package stages

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// completed is the phase Completed. The target is stable, but it has not gone through the stages that
// were Skipped: a cluster that joins one of them gets it as in any stage.
type completed struct{ scope }

// runLate updates clusters that are late, and runs the stages that were Skipped and have clusters now,
// one after another. In other phases, it does nothing.
func (p completed) runLate() {
	if p.status.Phase != v1alpha1.RolloutCompleted {
		return
	}
	p.closeStages()
	isActive := true
	for _, s := range p.stages {
		switch {
		case s.status.Phase == v1alpha1.StageCompleted:
			p.assigner.update(s)
		case !s.isActive() && s.isDone(): // its clusters came with the target
			s.enter(v1alpha1.StageSkipped, p.now)
		case !isActive:
			if s.status.Phase == v1alpha1.StageAwaitingApproval {
				s.enter(v1alpha1.StageSkipped, p.now)
			}
		case s.exceededOn() != nil: // nothing returns from the stable revision, but no other cluster gets it
			isActive = false
		default:
			isActive = p.runStage(s)
		}
	}
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
