package rollout_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// anyText replaces a reason or a message. Some are those that the planner writes.
var anyText = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
	"", v1alpha1.ReasonReady, v1alpha1.ReasonPending, v1alpha1.ReasonRollingOut, v1alpha1.ReasonRemoving, v1alpha1.ReasonRemovalPending,
	v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonCrashLoopBackOff, v1alpha1.ReasonPodsNotReady, v1alpha1.ReasonRemovalNeedsApproval, v1alpha1.ReasonClusterUnreachable, v1alpha1.ReasonClusterDetached, v1alpha1.ReasonHubBehind,
	"x; last known: Ready, 2 of 2 replicas ready",
}))

// withOtherTexts returns an AppService whose status has other reasons and messages.
func withOtherTexts(t *rapid.T, app *v1alpha1.AppService) *v1alpha1.AppService {
	app = app.DeepCopy()
	for i := range app.Status.Clusters {
		entry := &app.Status.Clusters[i]
		entry.Reason, entry.Message = anyText.Draw(t, "reason"), anyText.Draw(t, "message")
	}
	for i := range app.Status.Conditions {
		condition := &app.Status.Conditions[i]
		condition.Reason, condition.Message = anyText.Draw(t, "reason"), anyText.Draw(t, "message")
	}
	for i := range app.Status.Placement.Excluded {
		excluded := &app.Status.Placement.Excluded[i]
		excluded.Reason, excluded.Examples, excluded.Requirements = anyText.Draw(t, "reason"), nil, nil
	}
	return app
}

// withoutTexts returns a decision without its reasons, messages and notes.
func withoutTexts(decision rollout.Decision) rollout.Decision {
	decision.Notes, decision.Rollout.FailedReason, decision.Rollout.ReturnFailedReason = nil, "", ""
	for i := range decision.Entries {
		decision.Entries[i].Reason, decision.Entries[i].Message = "", ""
	}
	return decision
}

// checkSameDecisions compares the decisions for two inputs that differ only in texts.
func checkSameDecisions(t *rapid.T, in, other rollout.Input) {
	if diff := cmp.Diff(in.Plan, other.Plan); diff != "" {
		t.Fatalf("placement depends on texts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(withoutTexts(rollout.Plan(in)), withoutTexts(rollout.Plan(other))); diff != "" {
		t.Fatalf("rollout depends on texts (-want +got):\n%s", diff)
	}
	tombstones := func(in rollout.Input) [][]string {
		return [][]string{in.TombstonesToAdd(), in.TombstonesOfLostStatus(), in.TombstonesOfTermination(), in.TombstonesToRemove(rollout.Plan(in).Entries)}
	}
	if diff := cmp.Diff(tombstones(in), tombstones(other)); diff != "" {
		t.Fatalf("tombstones depend on texts (-want +got):\n%s", diff)
	}
}

// State that must be remembered is stored in typed fields. No code reads it back from a reason or a
// message.
func TestDecisions_do_not_depend_on_reasons_and_messages(t *testing.T) {
	t.Run("for any entries", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			in := anyInput.Draw(t, "input")
			for range 3 {
				other := in
				other.App = withOtherTexts(t, in.App)
				checkSameDecisions(t, in, other)
				in = Next(other, anyChange(t))
			}
		})
	})
	t.Run("for a fleet that changes", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			l := &loop{simulation: newSimulation(rapid.IntRange(1, 6).Draw(t, "clusters")), leftWithoutEdit: map[string]bool{}}
			for range rapid.IntRange(1, 30).Draw(t, "steps") {
				l.act(t)
				in := l.input()
				l.app = withOtherTexts(t, l.app)
				other := l.input() // placement plans with the same texts
				checkSameDecisions(t, in, other)
				l.write(StatusOf(other))
			}
		})
	})
}
