package stages

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// scope is what the phases of a rollout decide about. Its methods are what several phases do.
type scope struct {
	status   *state
	clusters []*cluster // in the order of their placement rank
	stages   []*stage
	judge    *judge
	assigner *assigner
	now      metav1.Time
}

// complete makes the target the stable revision, if it is not stable already, and ends the rollout.
func (p scope) complete() {
	if p.status.StableRevision != p.status.Revision {
		p.status.adopt(p.status.Revision)
	}
	p.status.Undo = false
	p.status.setPhase(v1alpha1.RolloutCompleted)
	for _, s := range p.stages {
		s.close()
	}
}

// closeStages ends the stages of a completed rollout that the status does not have yet, because
// spec.rollout was edited, and those whose clusters need nothing more.
func (p scope) closeStages() {
	if p.status.Phase != v1alpha1.RolloutCompleted {
		return
	}
	for _, s := range p.stages {
		if s.isNew || s.Approval == "" && s.isDone() {
			s.close()
		}
	}
}

// judgeReturns records the clusters on which the stable revision fails, if it does on more clusters of a
// stage than may fail, of those that were Ready when they returned to it. A cluster that was not Ready
// then may be broken by itself. A cluster that was recorded counts until it is available, also while it
// cannot be observed.
func (p scope) judgeReturns() {
	recorded := p.status.ReturnFailedClusters
	for _, s := range p.stages {
		var failed []*cluster
		unrecorded := 0 // that may have failed: the record has only the first ones
		for _, c := range s.clusters {
			switch e := &c.Entry; {
			case !e.Returned || e.Revision != p.status.StableRevision:
			case p.judge.clock.hasFailed(c) || slices.Contains(recorded, e.Name):
				failed = append(failed, c)
			case len(recorded) == wording.MaxNamed && e.Phase != v1alpha1.ClusterUnknown:
				unrecorded++
			}
		}
		if len(failed) > 0 && len(failed)+unrecorded > s.maxFailed() {
			p.recordReturns(failed)
			return
		}
	}
	p.status.ReturnFailedClusters, p.status.ReturnFailedReason = nil, ""
}

// recordReturns records on which clusters the stable revision fails. The reason stays while the first of
// them is the same: it may not be known any more.
func (p scope) recordReturns(failed []*cluster) {
	names, reason := p.judge.describeFailed(failed)
	if recorded := p.status.ReturnFailedClusters; len(recorded) == 0 || recorded[0] != names[0] {
		p.status.ReturnFailedReason = reason
	}
	p.status.ReturnFailedClusters = names
}
