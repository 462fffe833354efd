package stages

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// rollingOut is the phase Progressing while the target is not stable: the stages get it one after
// another.
type rollingOut struct{ scope }

// progress runs the stages up to the first one that does not complete. A stage after it is Pending,
// even if it was active: a cluster has joined a stage that was skipped, or the stages were edited.
// When all stages are done, the rollout is complete if the target is available anywhere.
func (p rollingOut) progress() {
	isActive, completed := true, 0
	for _, s := range p.stages {
		switch {
		case s.status.Phase == v1alpha1.StageCompleted:
			p.assigner.update(s) // clusters that are late
		case isActive:
			isActive = p.runStage(s)
		case s.status.Phase != v1alpha1.StageSkipped || len(s.clusters) > 0:
			s.postpone(p.now)
		}
		if s.status.Phase == v1alpha1.StageCompleted {
			completed++
		}
	}
	if isActive && completed > 0 && p.isAvailableAnywhere() {
		p.complete()
	}
}

// isAvailableAnywhere reports whether the target is available on any cluster.
func (p rollingOut) isAvailableAnywhere() bool {
	return slices.ContainsFunc(p.clusters, func(c *cluster) bool { return p.judge.stateOf(c) == stateAvailable })
}
