package stages

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// TransitionType is a step of a rollout that is reported to users.
type TransitionType string

const (
	// RolloutStarted: a revision is the new target.
	RolloutStarted TransitionType = "RolloutStarted"
	// Superseded: an edit replaced the target of a rollout that was not over.
	Superseded TransitionType = "Superseded"
	// StageStarted: clusters of the stage get the target.
	StageStarted TransitionType = "StageStarted"
	// ApprovalNeeded: the stage waits for approval.
	ApprovalNeeded TransitionType = "ApprovalNeeded"
	// StageCompleted: the next stage may begin.
	StageCompleted TransitionType = "StageCompleted"
	// RolloutCompleted: the target is the stable revision.
	RolloutCompleted TransitionType = "RolloutCompleted"
	// RolloutFailed: the target failed, or was aborted.
	RolloutFailed TransitionType = "RolloutFailed"
	// RollingBack: the clusters return to the stable revision.
	RollingBack TransitionType = "RollingBack"
	// RollbackHalted: the stable revision fails on clusters that returned to it.
	RollbackHalted TransitionType = "RollbackHalted"
	// RolledBack: all clusters have returned.
	RolledBack TransitionType = "RolledBack"
)

// Transition is a step of a rollout.
type Transition struct {
	Type TransitionType
	// Revision is the target; for Superseded, the previous target.
	Revision int64
	// Stage is the stage of StageStarted, ApprovalNeeded and StageCompleted. For RolloutFailed, it is
	// the stage in which the target failed, or "" if a user aborted it.
	Stage string
	// Clusters are the first clusters on which the target failed.
	Clusters []string
}

// transitions returns the steps from one status of a rollout to the next. Without spec.rollout,
// there are none.
func transitions(before, after v1alpha1.RolloutStatus) []Transition {
	var steps []Transition
	add := func(step TransitionType, stage string) {
		steps = append(steps, Transition{Type: step, Revision: after.Revision, Stage: stage})
	}
	if after.Phase == "" || before.Phase == "" && after.Phase == v1alpha1.RolloutCompleted {
		return nil
	}
	isNew := before.Revision != after.Revision
	if isNew {
		if before.Phase == v1alpha1.RolloutProgressing || before.Phase == v1alpha1.RolloutRollingBack {
			steps = append(steps, Transition{Type: Superseded, Revision: before.Revision})
		}
		add(RolloutStarted, "")
		before.Phase, before.Stages = v1alpha1.RolloutProgressing, nil
	}
	isLate := before.Phase == v1alpha1.RolloutCompleted && after.Phase == before.Phase
	for _, stage := range after.Stages {
		isKnown := slices.ContainsFunc(before.Stages, func(s v1alpha1.RolloutStageStatus) bool { return s.Name == stage.Name })
		if after.Revision != before.StableRevision || isLate && isKnown { // not while the clusters only go back
			addStage(add, before.Stages, stage)
		}
	}
	isReturnHalted := len(before.ReturnFailedClusters) == 0 && len(after.ReturnFailedClusters) > 0
	if before.Phase == after.Phase {
		if isReturnHalted && after.IsHalted() {
			add(RollbackHalted, "")
		}
		return steps
	}
	switch after.Phase {
	case v1alpha1.RolloutCompleted:
		add(RolloutCompleted, "")
	case v1alpha1.RolloutHalted, v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		if before.Phase == v1alpha1.RolloutProgressing {
			steps = append(steps, Transition{Type: RolloutFailed, Revision: after.Revision, Stage: after.FailedStage, Clusters: after.FailedClusters})
		}
		if isReturnHalted {
			add(RollbackHalted, "")
		}
		if after.Phase != v1alpha1.RolloutHalted && before.Phase != v1alpha1.RolloutRollingBack {
			add(RollingBack, "")
		}
		if after.Phase == v1alpha1.RolloutRolledBack {
			add(RolledBack, "")
		}
	}
	return steps
}

// addStage adds the steps of one stage.
func addStage(add func(TransitionType, string), before []v1alpha1.RolloutStageStatus, after v1alpha1.RolloutStageStatus) {
	previous := v1alpha1.StagePending
	if i := slices.IndexFunc(before, func(s v1alpha1.RolloutStageStatus) bool { return s.Name == after.Name }); i >= 0 {
		previous = before[i].Phase
	}
	wasActive, isActive := isActivePhase(previous), isActivePhase(after.Phase)
	switch {
	case previous == after.Phase:
	case after.Phase == v1alpha1.StageAwaitingApproval:
		add(ApprovalNeeded, after.Name)
	case isActive && !wasActive:
		add(StageStarted, after.Name)
	}
	if after.Phase == v1alpha1.StageCompleted && previous != after.Phase {
		add(StageCompleted, after.Name)
	}
}
