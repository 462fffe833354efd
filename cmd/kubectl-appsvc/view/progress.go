package view

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// Progress returns how far a rollout is, in a line that changes only with the state: the stage whose
// turn it is with the clusters that have the revision, and what the rollout waits for.
func Progress(app *v1alpha1.AppService) string {
	if !isProcessed(app) {
		return "waiting until the operator has processed the latest edit"
	}
	state, sum := &app.Status.Rollout, app.Status.Summary
	line := fmt.Sprintf("%d of %d clusters ready", sum.Ready, sum.Clusters)
	stage := state.ActiveStage()
	if stage != nil && state.IsOpen() {
		line = fmt.Sprintf("stage %s: %d of %d clusters updated", stage.Name, stage.UpToDate, stage.Clusters)
		if stage.Failed > 0 {
			line += fmt.Sprintf(", %d failed", stage.Failed)
		}
	}
	if state.Revision > 0 {
		line = fmt.Sprintf("revision %d, %s", state.Revision, line)
	}
	if reason := progressReason(app); reason != "" && reason != v1alpha1.ReasonRollingOut {
		line += "; " + reason
	}
	if stage != nil {
		if end, isSoaking := soakEnd(app, stage); isSoaking && state.IsOpen() {
			line += " until " + output.FormatTime(end)
		}
	}
	if next := NextCommand(app); next != "" {
		line += "; next: " + next
	}
	return output.Printable(line)
}

// progressReason returns the reason of the condition that says how far a rollout is: RolledOut, or Ready
// without spec.rollout.
func progressReason(app *v1alpha1.AppService) string {
	for _, kind := range []string{v1alpha1.ConditionRolledOut, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(app.Status.Conditions, kind); c != nil {
			return c.Reason
		}
	}
	return ""
}

// IsStalled reports whether the operator has processed the spec, and nothing changes any more until
// somebody does something.
func IsStalled(app *v1alpha1.AppService) bool {
	stalled := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionStalled)
	return app.Status.ObservedGeneration == app.Generation && stalled != nil && stalled.Status == metav1.ConditionTrue
}

// soak returns how long a stage still soaks.
func (o Options) soak(app *v1alpha1.AppService, stage *v1alpha1.RolloutStageStatus) string {
	end, isSoaking := soakEnd(app, stage)
	switch left := end.Sub(o.Now); {
	case !isSoaking || o.HidesAges:
		return ""
	case left <= 0: // it ends when the clusters were observed again
		return ", its soak is over"
	default:
		return ", soaks for another " + duration.HumanDuration(left)
	}
}

// soakEnd returns when the soak of a stage ends, if the stage soaks.
func soakEnd(app *v1alpha1.AppService, stage *v1alpha1.RolloutStageStatus) (end time.Time, isSoaking bool) {
	if stage.Phase != v1alpha1.StageSoaking || stage.Promoted || app.Status.Rollout.Undo || app.Spec.Rollout == nil {
		return time.Time{}, false
	}
	for _, of := range app.Spec.Rollout.Stages {
		if of.Name == stage.Name && of.SoakSeconds != nil {
			return stage.Since.Add(time.Duration(*of.SoakSeconds) * time.Second), true
		}
	}
	return time.Time{}, false
}
