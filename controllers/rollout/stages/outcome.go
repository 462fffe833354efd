package stages

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// Outcome is what was decided about the revisions of an AppService.
type Outcome struct {
	// Rollout is the next status of the rollout.
	Rollout v1alpha1.RolloutStatus
	// Transitions are the steps of the rollout to report after the status was written.
	Transitions []Transition
	// RequestErrors are the values of annotations that have no effect on the rollout.
	RequestErrors []RequestError
	// IsPauseRequested is set if the annotation pause names the revision of the spec.
	IsPauseRequested bool
	// StageError is set if a stage has an invalid selector. Every cluster keeps its revision then.
	StageError *StageError
	// WaitingStage is the stage whose clusters cannot prove the target at present, because too many
	// cannot be reached or are broken. It is "" if there is none.
	WaitingStage string
	// LostClusters are the clusters of WaitingStage that became unreachable after they got the target,
	// and did not return, sorted.
	LostClusters []string
	// IdleClusters are the clusters of WaitingStage that have the target and have run no pods with it,
	// sorted. If all stages are over, they are those of all stages.
	IdleClusters []string
	// StoppedOn are the clusters of WaitingStage on which the target failed after the rollout was
	// completed, sorted.
	StoppedOn []string
}
