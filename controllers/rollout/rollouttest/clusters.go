package rollouttest

import (
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// Each letter describes the state of one cluster, so that a case shows many clusters in a line.
const (
	StateReady               = 'r' // in the plan and Ready
	StateLeftByEdit          = 'e' // no longer in the plan since an edit
	StateLeftWithoutEdit     = 'd' // no longer in the plan, without an edit
	StateLeftUnreachable     = 'u' // no longer in the plan since an edit, unreachable
	StateRemovingByEdit      = 'G' // Removing since an edit
	StateRemovingWithoutEdit = 'D' // Removing without an edit
	StateRemovingUnreachable = 'U' // Removing since an edit, unreachable

	StateRemoving      = 'R' // expected: Removing
	StatePending       = 'w' // expected: RemovalPending
	StateNeedsApproval = 'h' // expected: RemovalNeedsApproval
	StateUnknown       = '?' // expected: Unknown
)

// Clusters returns an input with one cluster per letter. The clusters are a, b, c and so on.
// Generation 1 is from before the last edit, and generation 2 is the current one.
func Clusters(letters string) rollout.Input {
	in := NewInput()
	removing := WithReason(v1alpha1.ReasonRemoving, "")
	for i, letter := range letters {
		name := ClusterName(i)
		NotChosen(name)(&in)
		switch letter {
		case StateReady:
			Chosen(name)(&in)
			WithEntries(Entry(name, v1alpha1.ClusterReady))(&in)
			Observed(name, Observation(v1alpha1.ClusterReady))(&in)
		case StateLeftByEdit, StateLeftUnreachable:
			WithEntries(Entry(name, v1alpha1.ClusterReady, Desired(1, 2), Applied(1)))(&in)
			Observed(name, Observation(v1alpha1.ClusterReady, Answering(1)))(&in)
		case StateLeftWithoutEdit:
			WithEntries(Entry(name, v1alpha1.ClusterReady))(&in)
			Observed(name, Observation(v1alpha1.ClusterReady))(&in)
		case StateRemovingByEdit, StateRemovingUnreachable:
			WithEntries(Entry(name, v1alpha1.ClusterRemoving, Desired(1, 2), Applied(1), removing, WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit)))(&in)
		case StateRemovingWithoutEdit:
			WithEntries(Entry(name, v1alpha1.ClusterRemoving, removing, WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseClustersChanged)))(&in)
		}
		if letter == StateRemovingUnreachable || letter == StateLeftUnreachable {
			Unreachable(name)(&in)
			delete(in.Observations, name)
		}
	}
	return in
}

// ClusterName returns the name of a cluster of Clusters.
func ClusterName(i int) string { return string(rune('a' + i)) }

// Letters returns the states of the clusters as letters.
func Letters(status v1alpha1.AppServiceStatus) string {
	var letters strings.Builder
	for i := range status.Clusters {
		letters.WriteRune(state(&status.Clusters[i]))
	}
	return letters.String()
}

func state(entry *v1alpha1.ClusterStatus) rune {
	switch {
	case entry.Phase == v1alpha1.ClusterRemoving:
		return StateRemoving
	case entry.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval:
		return StateNeedsApproval
	case entry.Phase == v1alpha1.ClusterUnknown:
		return StateUnknown
	case entry.Transition.Type == v1alpha1.TransitionRemovalPending:
		return StatePending
	}
	return StateReady
}
