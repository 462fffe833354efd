package timeline

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// restStage is the name that the operator gives the stage of all other clusters.
const restStage = "(rest)"

// stage returns the step of a stage: what its events have recorded, then its present phase, and then what
// it has still to do.
func (s *story) stage(stage *v1alpha1.RolloutStageStatus) Step {
	step := Step{
		Name:     s.stageName(stage.Name),
		Clusters: &Counts{All: stage.Clusters, UpToDate: stage.UpToDate, Available: stage.Available, Failed: stage.Failed},
	}
	past := s.past(stage)
	switch stage.Phase {
	case v1alpha1.StageSkipped:
		step.State = Skipped
		past = append(past, Moment{Text: "skipped: no cluster is in the stage", State: Skipped, Time: timeOf(stage.Since)})
	case v1alpha1.StageAwaitingApproval:
		step.State = Current
		past = append(past, Moment{Text: "waits for approval", State: Current, Time: timeOf(stage.Since)})
	case v1alpha1.StageProgressing:
		step.State = Current
		past = append(past, Moment{Text: s.progress(stage), State: Current, Time: timeOf(stage.Since)})
	case v1alpha1.StageSoaking:
		step.State = Current
		past = append(past, s.soak(stage))
	case v1alpha1.StageCompleted:
		step.State = Done
	default:
		step.State = Pending
	}
	step.Moments = past
	if s.isFailed() {
		return s.ended(step, stage)
	}
	step.Moments = append(step.Moments, s.future(stage)...)
	return s.withPause(step)
}

// stageName returns the name of a stage. Without stages in the spec, there is one of all clusters.
func (s *story) stageName(name string) string {
	if spec := s.in.App.Spec.Rollout; name == restStage && spec != nil && len(spec.Stages) == 0 {
		return "all clusters"
	}
	return "stage " + name
}

// past returns what has happened in a stage, without its present phase. The beginning of a stage that is
// known to have begun is there also without an event.
func (s *story) past(stage *v1alpha1.RolloutStageStatus) []Moment {
	var moments []Moment
	isBegun := false
	for _, e := range s.events {
		if e.stage != stage.Name || !e.time.Before(&stage.Since) && isPresent(stage.Phase, e.reason) {
			continue
		}
		text := e.text
		switch e.reason {
		case v1alpha1.ReasonApprovalNeeded:
			text = "waited for approval"
		case v1alpha1.ReasonStageStarted:
			isBegun = true
		case v1alpha1.ReasonStageCompleted:
			text = "completed: " + text
		default: // it is shown where the rollout ends
			continue
		}
		moments = append(moments, Moment{Text: text, State: Done, Time: timeOf(e.time)})
	}
	isOver := stage.Phase == v1alpha1.StageCompleted
	if !isBegun && (isOver || stage.Phase == v1alpha1.StageSoaking) {
		moments = append(moments, Moment{Text: "the stage began", State: Done})
	}
	if isOver {
		moments = append(moments, Moment{Text: s.result(stage), State: Done, Time: timeOf(stage.Since)})
	}
	return moments
}

// isPresent reports whether an event with this reason is about the phase in which a stage is. The status
// has the time of that.
func isPresent(phase v1alpha1.RolloutStagePhase, reason string) bool {
	switch phase {
	case v1alpha1.StageAwaitingApproval:
		return reason == v1alpha1.ReasonApprovalNeeded
	case v1alpha1.StageProgressing:
		return reason == v1alpha1.ReasonStageStarted
	case v1alpha1.StageCompleted:
		return reason == v1alpha1.ReasonStageCompleted
	}
	return false
}

// result says how a stage was completed.
func (s *story) result(stage *v1alpha1.RolloutStageStatus) string {
	text := "completed"
	if stage.Promoted {
		text = "completed, promoted by a user"
	}
	for _, e := range s.events {
		if e.stage == stage.Name && e.reason == v1alpha1.ReasonStageCompleted && !e.time.Before(&stage.Since) {
			text += ": " + e.text
			break
		}
	}
	return text
}

// progress says what a stage does whose clusters get the revision.
func (s *story) progress(stage *v1alpha1.RolloutStageStatus) string {
	text := "the clusters get the revision"
	if stage.Promoted {
		text += ", promoted by a user"
	}
	rolledOut := meta.FindStatusCondition(s.in.App.Status.Conditions, v1alpha1.ConditionRolledOut)
	if rolledOut != nil && rolledOut.Reason == v1alpha1.ReasonWaitingForClusters {
		text += ", and too few can prove it: see the condition RolledOut"
	}
	return text
}

// soak returns the moment of a stage that soaks.
func (s *story) soak(stage *v1alpha1.RolloutStageStatus) Moment {
	moment := Moment{Text: "soaks", State: Current, Time: timeOf(stage.Since)}
	length := s.soakLength(stage.Name)
	switch {
	case stage.Promoted:
		moment.Text = "soaks no longer: promoted by a user"
	case length > 0 && !s.state.Undo:
		moment.Text = "soaks " + inWords(length)
		moment.Until = timeOf(metav1.NewTime(stage.Since.Add(length)))
	}
	return moment
}

// future returns what a stage has still to do.
func (s *story) future(stage *v1alpha1.RolloutStageStatus) []Moment {
	var moments []Moment
	isWaiting := stage.Phase == v1alpha1.StagePending
	spec := s.stageSpec(stage.Name)
	if isWaiting && spec != nil && spec.Approval == v1alpha1.ApprovalRequired && !s.state.Undo {
		text := "needs approval"
		if stage.Approved {
			text = "is approved already"
		}
		moments = append(moments, Moment{Text: text, State: Pending})
	}
	isBeforeSoak := isWaiting || stage.Phase == v1alpha1.StageAwaitingApproval || stage.Phase == v1alpha1.StageProgressing
	if length := s.soakLength(stage.Name); isBeforeSoak && length > 0 && !s.state.Undo && !stage.Promoted {
		moments = append(moments, Moment{Text: "soaks " + inWords(length), State: Pending})
	}
	return moments
}

// ended changes the step of a stage after the revision failed: it ended here, or the stage was not
// reached, or it was over before.
func (s *story) ended(step Step, stage *v1alpha1.RolloutStageStatus) Step {
	active := s.state.ActiveStage()
	isHere := stage.Name == s.state.FailedStage || s.state.FailedStage == "" && active != nil && active.Name == stage.Name
	for i := range step.Moments {
		if moment := &step.Moments[i]; moment.State == Current {
			moment.State, moment.Until = Done, nil
		}
	}
	switch {
	case isHere:
		step.State = Failed
		step.Moments = append(step.Moments, s.failure())
	case step.State == Pending, step.State == Current:
		step.State = Skipped
		step.Moments = append(step.Moments, Moment{Text: "not reached", State: Skipped})
	}
	return step
}

// stageSpec returns the stage of the spec with that name, or nil.
func (s *story) stageSpec(name string) *v1alpha1.RolloutStage {
	rollout := s.in.App.Spec.Rollout
	if rollout == nil {
		return nil
	}
	i := slices.IndexFunc(rollout.Stages, func(stage v1alpha1.RolloutStage) bool { return stage.Name == name })
	if i < 0 {
		return nil
	}
	return &rollout.Stages[i]
}

func (s *story) soakLength(stage string) time.Duration {
	if spec := s.stageSpec(stage); spec != nil && spec.SoakSeconds != nil {
		return time.Duration(*spec.SoakSeconds) * time.Second
	}
	return 0
}

// inWords returns a duration as people write it: 2 h, 10 min, 90 s.
func inWords(d time.Duration) string {
	switch seconds := int64(d / time.Second); {
	case seconds%3600 == 0:
		return fmt.Sprintf("%d h", seconds/3600)
	case seconds%60 == 0:
		return fmt.Sprintf("%d min", seconds/60)
	default:
		return fmt.Sprintf("%d s", seconds)
	}
}
