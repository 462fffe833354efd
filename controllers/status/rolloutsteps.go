package status

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// RolloutStep is a step of a rollout that is reported to users once.
type RolloutStep struct {
	// Reason is a reason of an event.
	Reason string
	// Stage is the stage that the step is about, or "".
	Stage   string
	Message string
	// Bad reports whether a user may have to act.
	Bad bool
}

// RolloutSteps returns the steps of the rollout to report after the status of a decision was
// written.
func RolloutSteps(in rollout.Input, decision rollout.Decision) []RolloutStep {
	if len(decision.Transitions) == 0 {
		return nil
	}
	describe := rolloutSteps{in, newTargetRollout(in, &decision.Outcome, decision.Entries)}
	var steps []RolloutStep
	for _, transition := range decision.Transitions {
		step := describe.step(transition)
		step.Stage = transition.Stage
		steps = append(steps, step)
	}
	return steps
}

// rolloutSteps is what the steps of the rollout of the target are described by.
type rolloutSteps struct {
	in     rollout.Input
	target targetRollout
}

// step returns the step for a transition.
func (s rolloutSteps) step(transition stages.Transition) RolloutStep {
	target := targetName(s.state())
	stage := s.target.stage(s.stageOf(transition))
	switch transition.Type {
	case stages.RolloutStarted:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutStarted, Message: s.started()}
	case stages.Superseded:
		return RolloutStep{Reason: v1alpha1.ReasonSuperseded, Message: fmt.Sprintf("%s replaces revision %d, whose rollout was not over", target, transition.Revision)}
	case stages.StageStarted:
		return RolloutStep{Reason: v1alpha1.ReasonStageStarted, Message: stage.begins()}
	case stages.ApprovalNeeded:
		return RolloutStep{Reason: v1alpha1.ReasonApprovalNeeded, Message: stage.approval()}
	case stages.StageCompleted:
		return RolloutStep{Reason: v1alpha1.ReasonStageCompleted, Message: stage.result()}
	case stages.RolloutCompleted:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutCompleted, Message: s.target.completed()}
	case stages.RolloutFailed:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutFailed, Message: s.failed(), Bad: true}
	case stages.RollbackHalted:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutHalted, Message: s.halted(), Bad: true}
	case stages.RollingBack:
		return RolloutStep{Reason: v1alpha1.ReasonRollingBack, Message: s.target.goingBack.begins()}
	}
	return RolloutStep{Reason: v1alpha1.ReasonRolledBack, Message: s.target.failure.rolledBack(), Bad: true}
}

// halted says that the stable revision fails on clusters that returned to it.
func (s rolloutSteps) halted() string {
	if isGoingBack(s.state()) {
		return s.target.goingBack.message()
	}
	return s.target.failure.halted()
}

func (s rolloutSteps) state() *v1alpha1.RolloutStatus { return &s.target.outcome.Rollout }

// stageOf returns the next status of the stage of a transition.
func (s rolloutSteps) stageOf(transition stages.Transition) *v1alpha1.RolloutStageStatus {
	for i := range s.state().Stages {
		if stage := &s.state().Stages[i]; stage.Name == transition.Stage {
			return stage
		}
	}
	return &v1alpha1.RolloutStageStatus{Name: transition.Stage}
}

// started says what the target replaces.
func (s rolloutSteps) started() string {
	switch state := s.state(); {
	case state.Revision == s.in.App.Status.Rollout.StableRevision && state.Phase == v1alpha1.RolloutCompleted:
		return s.target.goingBack.returned()
	case state.Revision == s.in.App.Status.Rollout.StableRevision:
		return s.target.goingBack.message()
	case state.Undo:
		return fmt.Sprintf("%s has the template of revision %d, so it needs no approval and does not soak", targetName(state), state.PreviousRevision)
	case state.StableRevision == 0:
		return targetName(state) + " is the first one"
	default:
		return fmt.Sprintf("%s is to replace revision %d", targetName(state), state.StableRevision)
	}
}

// failed says where and why the target failed, in more words than a condition has.
func (s rolloutSteps) failed() string {
	state, message := s.state(), s.target.failure.ofTarget()
	if state.FailedStage == "" || len(state.FailedClusters) == 0 {
		return fmt.Sprintf("%s by the annotation %s", message, v1alpha1.AnnotationAbort)
	}
	if state.Phase == v1alpha1.RolloutHalted {
		message = s.target.failure.halted()
	}
	if why := s.messageOf(state.FailedClusters[0]); why != "" {
		message += fmt.Sprintf("; %s says: %s", state.FailedClusters[0], why)
	}
	return message
}

// messageOf returns the message of a cluster on which the target failed. Its next entry describes the
// stable revision already.
func (s rolloutSteps) messageOf(cluster string) string {
	reason := s.state().FailedReason
	if reason == v1alpha1.ReasonPodSecurityRefused {
		return wording.Bound(s.in.Refusals.Of(s.state().Revision, cluster))
	}
	if seen := s.in.ObservationOf(cluster); seen != nil && seen.Reason == reason {
		return wording.Bound(seen.Message)
	}
	if previous := s.in.App.Status.Cluster(cluster); previous != nil && previous.Reason == reason {
		return previous.Message
	}
	return ""
}
