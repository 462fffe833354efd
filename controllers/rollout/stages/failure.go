package stages

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// fail ends the rollout of a target that failed or was aborted. A user who aborts wants the stable
// revision, also where a failure only halts the rollout.
func (r *Rollout) fail() {
	isAborted := r.requests.IsAborted
	canFail := r.status.isRollingOut()
	switch {
	case canFail && isAborted:
	case canFail && !r.assigner.hold.isPaused():
		failed, clusters := r.exceededStage()
		if failed == nil {
			return
		}
		r.status.FailedStage = failed.Name
		r.status.FailedClusters, r.status.FailedReason = r.judge.describeFailed(clusters)
	case r.abortsHalted():
	default:
		return
	}
	r.status.FailedRevision = r.status.Revision
	r.status.ReturnFailedClusters, r.status.ReturnFailedReason = nil, "" // nothing has returned yet
	phase := r.phaseAfterFailure()
	if isAborted && r.judge.contents.stable() != 0 {
		phase = v1alpha1.RolloutRollingBack
	}
	r.status.setPhase(phase)
}

// exceededStage returns the first stage in which the target failed, and the clusters on which it did:
// more clusters than may fail, or each cluster that has a result, and none is left to try; or more
// clusters than may fail that it has cut off. It returns nil if there is none.
func (r *Rollout) exceededStage() (*stage, []*cluster) {
	for _, s := range r.stages {
		if clusters := s.exceededOn(); clusters != nil {
			return s, clusters
		}
	}
	return nil, nil
}

// abortsHalted reports whether a user wants the stable revision after a failure that halted the
// rollout.
func (r *Rollout) abortsHalted() bool {
	return r.requests.IsAborted && r.status.Phase == v1alpha1.RolloutHalted && r.judge.contents.stable() != 0 && !r.status.returnsFail()
}

// phaseAfterFailure returns the phase of a rollout whose target failed.
func (r *Rollout) phaseAfterFailure() v1alpha1.RolloutPhase {
	if r.judge.contents.stable() == 0 || r.in.App.Spec.Rollout.OnFailure == v1alpha1.RolloutPause {
		return v1alpha1.RolloutHalted
	}
	return v1alpha1.RolloutRollingBack
}
