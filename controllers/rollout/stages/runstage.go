package stages

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// runStage runs a stage that is not completed, and reports whether the next one may run. The soak begins
// when the stage is settled for the first time. Its time runs on if the stage is not settled any more,
// and it ends only while the stage is settled.
func (p scope) runStage(s *stage) bool {
	now := p.now
	if len(s.clusters) == 0 && !s.isActive() { // one that has begun has proven nothing, and waits
		s.enter(v1alpha1.StageSkipped, now)
		return true
	}
	if s.status.Phase == v1alpha1.StageSkipped {
		s.enter(v1alpha1.StagePending, now)
	}
	if len(s.clusters) > 0 && s.needsApproval() { // also a stage that has begun, if an edit asks for it since
		s.enter(v1alpha1.StageAwaitingApproval, now)
		return false
	}
	if !s.isActive() {
		s.enter(v1alpha1.StageProgressing, now)
	}
	p.assigner.update(s)
	if !s.isSettled() {
		return false
	}
	if s.status.Phase == v1alpha1.StageProgressing {
		s.enter(v1alpha1.StageSoaking, now)
	}
	if now.Time.Before(s.soakEnd()) {
		return false
	}
	s.enter(v1alpha1.StageCompleted, now)
	return true
}
