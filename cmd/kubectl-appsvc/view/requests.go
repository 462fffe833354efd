package view

import (
	"strconv"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Request is a command of kubectl appsvc rollout that asks the operator for something.
type Request struct {
	// Purpose says what the command does.
	Purpose string
	// Command is the name of the command, such as approve.
	Command string
	// IsNeeded is set if the rollout does not continue without the command.
	IsNeeded bool
	// Flags always name the revision that the user looks at: after an edit, another revision waits, and
	// the command refuses to act on it.
	Flags []string
}

// Requests returns the requests that are possible in the state of a rollout, those that are needed
// first. The command status and the page show the same ones.
func Requests(app *v1alpha1.AppService) []Request {
	state := &app.Status.Rollout
	revision := []string{"--revision", strconv.FormatInt(state.Revision, 10)}
	isOpen := state.IsOpen()
	var requests []Request
	add := func(isNeeded bool, command, purpose string, flags ...string) {
		requests = append(requests, Request{purpose, command, isNeeded, append(flags, revision...)})
	}
	isFailed := state.Phase == v1alpha1.RolloutRolledBack || state.Phase == v1alpha1.RolloutHalted
	isPaused := IsPaused(app)
	switch {
	case isFailed:
		add(true, "retry", "roll the revision out again")
	case !isOpen && state.Phase != v1alpha1.RolloutProgressing:
		return nil
	case isPaused:
		add(true, "resume", "continue the rollout")
	}
	for i := range state.Stages {
		switch stage := &state.Stages[i]; {
		case !isOpen:
		case stage.Phase == v1alpha1.StageAwaitingApproval:
			add(true, "approve", "approve the stage "+stage.Name, "--stage", stage.Name)
		case stage.Phase == v1alpha1.StageSoaking:
			add(false, "promote", "end the stage "+stage.Name+" now", "--stage", stage.Name)
		}
	}
	if !isFailed && !isPaused {
		add(false, "pause", "pause the rollout")
	}
	if canAbort(state) {
		add(false, "abort", "abort the rollout")
	}
	return requests
}

// canAbort reports whether the clusters can be asked to return to the stable revision.
func canAbort(state *v1alpha1.RolloutStatus) bool {
	isHalted := state.Phase == v1alpha1.RolloutHalted && state.StableRevision != 0
	return isHalted || state.IsOpen() && state.Phase == v1alpha1.RolloutProgressing
}
