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
func RolloutSteps(from rollout.Input, decision rollout.Decision) []RolloutStep {
	in := report{from, decision}
	var steps []RolloutStep
	for _, transition := range decision.Transitions {
		step := in.rolloutStep(transition)
		step.Stage = transition.Stage
		steps = append(steps, step)
	}
	return steps
}

// rolloutStep returns the step for a transition.
func (in report) rolloutStep(transition stages.Transition) RolloutStep {
	stage := in.stage(transition.Stage)
	revision := in.target() + in.stageName(&stage)
	switch transition.Type {
	case stages.RolloutStarted:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutStarted, Message: in.startedMessage()}
	case stages.Superseded:
		return RolloutStep{Reason: v1alpha1.ReasonSuperseded, Message: fmt.Sprintf("%s replaces revision %d, whose rollout was not over", in.target(), transition.Revision)}
	case stages.StageStarted:
		return RolloutStep{Reason: v1alpha1.ReasonStageStarted, Message: fmt.Sprintf("%s: the rollout begins on %s", revision, wording.CountClusters(stage.Clusters))}
	case stages.ApprovalNeeded:
		return RolloutStep{Reason: v1alpha1.ReasonApprovalNeeded, Message: in.approvalMessage(&stage)}
	case stages.StageCompleted:
		return RolloutStep{Reason: v1alpha1.ReasonStageCompleted, Message: fmt.Sprintf("%s: %s%s", revision, availableIn(&stage), failedIn(&stage))}
	case stages.RolloutCompleted:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutCompleted, Message: in.completedMessage(in.countRevisions(in.Entries))}
	case stages.RolloutFailed:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutFailed, Message: in.failedMessage(), Bad: true}
	case stages.RollbackHalted:
		return RolloutStep{Reason: v1alpha1.ReasonRolloutHalted, Message: in.haltedMessage(), Bad: true}
	case stages.RollingBack:
		return RolloutStep{Reason: v1alpha1.ReasonRollingBack, Message: in.rollingBackMessage()}
	}
	return RolloutStep{Reason: v1alpha1.ReasonRolledBack, Message: in.rolledBackMessage(), Bad: true}
}

// stage returns the next status of a stage.
func (in report) stage(name string) v1alpha1.RolloutStageStatus {
	for _, stage := range in.Rollout.Stages {
		if stage.Name == name {
			return stage
		}
	}
	return v1alpha1.RolloutStageStatus{Name: name}
}

func (in report) startedMessage() string {
	switch s := in.Rollout; {
	case s.Revision == in.App.Status.Rollout.StableRevision && s.Phase == v1alpha1.RolloutCompleted:
		return in.returnedMessage()
	case s.Revision == in.App.Status.Rollout.StableRevision:
		return in.returningMessage(in.countRevisions(in.Entries))
	case s.Undo:
		return fmt.Sprintf("%s has the template of revision %d, so it needs no approval and does not soak", in.target(), s.PreviousRevision)
	case s.StableRevision == 0:
		return in.target() + " is the first one"
	default:
		return fmt.Sprintf("%s is to replace revision %d", in.target(), s.StableRevision)
	}
}

// failedMessage says where and why the revision failed, in more words than a condition has.
func (in report) failedMessage() string {
	s := in.Rollout
	if s.FailedStage == "" || len(s.FailedClusters) == 0 {
		return fmt.Sprintf("%s by the annotation %s", in.failure(), v1alpha1.AnnotationAbort)
	}
	message := in.failure()
	if s.Phase == v1alpha1.RolloutHalted {
		message = in.haltedMessage()
	}
	if why := in.messageOfFailure(s.FailedClusters[0]); why != "" {
		message += fmt.Sprintf("; %s says: %s", s.FailedClusters[0], why)
	}
	return message
}

// messageOfFailure returns the message of a cluster on which the revision failed. Its next entry
// describes the stable revision already.
func (in report) messageOfFailure(cluster string) string {
	if in.Rollout.FailedReason == v1alpha1.ReasonPodSecurityRefused {
		return wording.Bound(in.Refusals.Of(in.Rollout.Revision, cluster))
	}
	if seen := in.ObservationOf(cluster); seen != nil && seen.Reason == in.Rollout.FailedReason {
		return wording.Bound(seen.Message)
	}
	if previous := in.App.Status.Cluster(cluster); previous != nil && previous.Reason == in.Rollout.FailedReason {
		return previous.Message
	}
	return ""
}

func (in report) rollingBackMessage() string {
	n := in.countRevisions(in.Entries)
	return fmt.Sprintf("%d of %s %s from revision %d to %d: those that are not Ready at once, the others as maxUnavailable of their stage allows",
		n.returning, wording.CountClusters(n.all), verb(n.returning, "returns", "return"), in.Rollout.Revision, in.Rollout.StableRevision)
}
