package status_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// recordSteps makes decisions, one a minute, until the rollout has this reason, and returns what they
// announce.
func (s *story) recordSteps(t *testing.T, reason string) []string {
	t.Helper()
	var steps []string
	for range 120 {
		s.observe()
		for _, step := range status.RolloutSteps(s.in, rollout.Plan(s.in)) {
			line := fmt.Sprintf("%s: %s", step.Reason, step.Message)
			if step.Bad {
				line = "Warning " + line
			}
			steps = append(steps, line)
		}
		s.in = Next(s.in)
		if reasonOfRollout(s.in.App.Status) == reason {
			return steps
		}
		Later(time.Minute)(&s.in)
	}
	t.Fatalf("never %s, but %q", reason, steps)
	return nil
}

func TestRolloutSteps(t *testing.T) {
	stages := []v1alpha1.RolloutStage{stageOf("canary", soaking), stageOf("eu", approval)}
	bad := func(_ *testing.T, s *story) { s.crashes = storyClusters }
	tests := map[string]struct {
		stages []v1alpha1.RolloutStage
		before func(*testing.T, *story)
		until  string
		want   []string
	}{
		"until an approval": {
			stages: stages,
			until:  v1alpha1.ReasonAwaitingApproval,
			want: []string{
				"RolloutStarted: revision 7 is to replace revision 6",
				"StageStarted: revision 7, stage canary: the rollout begins on 1 cluster",
				"StageCompleted: revision 7, stage canary: 1 of 1 cluster is available",
				"ApprovalNeeded: revision 7 waits for approval of stage eu (3 clusters): annotate the AppService with fleetwright.dev/approve=7/eu",
			},
		},
		"after an approval": {
			stages: stages,
			before: func(t *testing.T, s *story) {
				edit(t, s)
				s.runTo(t, v1alpha1.ReasonAwaitingApproval)
				Annotated(v1alpha1.AnnotationApprove, "7/eu")(&s.in)
			},
			until: v1alpha1.ReasonCompleted,
			want: []string{
				"StageStarted: revision 7, stage eu: the rollout begins on 3 clusters",
				"StageCompleted: revision 7, stage eu: 3 of 3 clusters are available",
				"StageStarted: revision 7, stage (rest): the rollout begins on 4 clusters",
				"StageCompleted: revision 7, stage (rest): 4 of 4 clusters are available",
				"RolloutCompleted: revision 7 runs on 8 clusters",
			},
		},
		"a failure": {
			before: bad,
			until:  v1alpha1.ReasonRolledBack,
			want: []string{
				"RolloutStarted: revision 7 is to replace revision 6",
				"StageStarted: revision 7: the rollout begins on 8 clusters",
				"Warning RolloutFailed: revision 7 failed (fra: CrashLoopBackOff); fra says: 1 of 2 pods: exited with code 132",
				"RollingBack: 1 of 8 clusters returns from revision 7 to 6: those that are not Ready at once, the others as maxUnavailable of their stage allows",
				"Warning RolledBack: revision 7 failed (fra: CrashLoopBackOff) and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7",
			},
		},
		"a failure that halts": {
			before: func(t *testing.T, s *story) {
				bad(t, s)
				haltingOnFailure(&s.in)
			},
			until: v1alpha1.ReasonRolloutHalted,
			want: []string{
				"RolloutStarted: revision 7 is to replace revision 6",
				"StageStarted: revision 7: the rollout begins on 8 clusters",
				"Warning RolloutFailed: revision 7 failed (fra: CrashLoopBackOff), and each cluster keeps what it runs: " +
					"change the spec, or annotate the AppService with fleetwright.dev/abort=7 to return to revision 6, or with fleetwright.dev/retry=7; fra says: 1 of 2 pods: exited with code 132",
			},
		},
		"an abort": {
			stages: stages,
			before: func(t *testing.T, s *story) {
				edit(t, s)
				s.runTo(t, v1alpha1.ReasonSoaking)
				Annotated(v1alpha1.AnnotationAbort, "7")(&s.in)
			},
			until: v1alpha1.ReasonRollingBack,
			want: []string{
				"Warning RolloutFailed: revision 7 was aborted by the annotation fleetwright.dev/abort",
				"RollingBack: 1 of 8 clusters returns from revision 7 to 6: those that are not Ready at once, the others as maxUnavailable of their stage allows",
			},
		},
		"the first rollout": {
			before: first,
			until:  v1alpha1.ReasonRollingOut,
			want:   []string{"RolloutStarted: revision 7 is the first one", "StageStarted: revision 7: the rollout begins on 8 clusters"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory(test.stages...)
			if test.before != nil {
				test.before(t, s)
			}
			AtRevision(7)(&s.in)
			if diff := cmp.Diff(test.want, s.recordSteps(t, test.until)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRolloutSteps_of_a_return_to_a_revision_that_fails(t *testing.T) {
	s := newStory()
	AtRevision(7)(&s.in)
	for range 6 {
		s.step(Later(time.Minute))
	}
	s.returnsCrash = true
	AtRevision(6)(&s.in)
	want := []string{
		"Superseded: revision 6 replaces revision 7, whose rollout was not over",
		"RolloutStarted: the spec has the template of revision 6 again; 5 of 8 clusters return to it",
		"Warning RolloutHalted: the spec has the template of revision 6 again; 5 of 8 clusters return to it, but revision 6 fails too where it returned " +
			"(bom, fra: CrashLoopBackOff), so no other Ready cluster returns to it: fix that, or change the spec",
	}
	if diff := cmp.Diff(want, s.recordSteps(t, v1alpha1.ReasonRolloutHalted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A revert after a failure completes at once, because the clusters have returned already.
func TestRolloutSteps_of_a_revert(t *testing.T) {
	s := newStory()
	s.crashes = storyClusters
	AtRevision(7)(&s.in)
	s.runTo(t, v1alpha1.ReasonRolledBack)
	AtRevision(6)(&s.in)
	want := []string{"RolloutStarted: the spec has the template of revision 6 again", "RolloutCompleted: revision 6 runs on 8 clusters"}
	if diff := cmp.Diff(want, s.recordSteps(t, v1alpha1.ReasonCompleted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRolloutSteps_of_an_edit_in_a_rollout(t *testing.T) {
	tests := map[string]struct {
		next int64
		want []string
	}{
		"a newer template": {8, []string{
			"Superseded: revision 8 replaces revision 7, whose rollout was not over",
			"RolloutStarted: revision 8 is to replace revision 6",
			"StageStarted: revision 8, stage canary: the rollout begins on 1 cluster",
		}},
		"the stable template": {6, []string{
			"Superseded: revision 6 replaces revision 7, whose rollout was not over",
			"RolloutStarted: the spec has the template of revision 6 again; 1 of 8 clusters returns to it",
			"RolloutCompleted: revision 6 runs on 8 clusters",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newStory(stageOf("canary", soaking))
			edit(t, s)
			s.runTo(t, v1alpha1.ReasonSoaking)
			AtRevision(test.next)(&s.in)
			until := map[int64]string{8: v1alpha1.ReasonRollingOut, 6: v1alpha1.ReasonCompleted}[test.next]
			if diff := cmp.Diff(test.want, s.recordSteps(t, until)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
