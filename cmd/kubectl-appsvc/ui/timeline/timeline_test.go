package timeline_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/ui/timeline"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// Each case changes a rollout whose only stage is in progress since an hour, and names a line of its
// timeline.
func TestOf(t *testing.T) {
	t.Parallel()
	soak := int32(90)
	for name, test := range map[string]struct {
		change func(*timeline.Input, *v1alpha1.RolloutStatus, *v1alpha1.RolloutStageStatus)
		want   []string
		not    string
	}{
		"in progress": {want: []string{"> stage eu (1/4 available, 2 updated, 1 failed)", "    > 11:00 the clusters get the revision", "?   soaks 90 s", "  completed"}},
		"paused": {
			change: func(_ *timeline.Input, state *v1alpha1.RolloutStatus, _ *v1alpha1.RolloutStageStatus) {
				state.Paused = true
			},
			want: []string{"    >   ?   paused: no cluster gets another revision"},
		},
		"too few clusters": {
			change: func(in *timeline.Input, _ *v1alpha1.RolloutStatus, _ *v1alpha1.RolloutStageStatus) {
				in.App.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionRolledOut, Reason: v1alpha1.ReasonWaitingForClusters}}
			},
			want: []string{"    > 11:00 the clusters get the revision, and too few can prove it: see the condition RolledOut"},
		},
		"a promoted stage does not soak": {
			change: func(_ *timeline.Input, _ *v1alpha1.RolloutStatus, stage *v1alpha1.RolloutStageStatus) {
				stage.Promoted = true
			},
			want: []string{"    > 11:00 the clusters get the revision, promoted by a user"},
			not:  "soaks",
		},
		"an undo needs no approval and does not soak": {
			change: func(in *timeline.Input, state *v1alpha1.RolloutStatus, stage *v1alpha1.RolloutStageStatus) {
				in.App.Spec.Rollout.Stages[0].Approval = v1alpha1.ApprovalRequired
				state.Undo, stage.Phase = true, v1alpha1.StagePending
			},
			want: []string{"  stage eu"},
			not:  "needs approval",
		},
		"skipped": {
			change: func(_ *timeline.Input, _ *v1alpha1.RolloutStatus, stage *v1alpha1.RolloutStageStatus) {
				stage.Phase = v1alpha1.StageSkipped
			},
			want: []string{"    - 11:00 skipped: no cluster is in the stage"},
		},
		"the stable revision fails too": {
			change: func(_ *timeline.Input, state *v1alpha1.RolloutStatus, _ *v1alpha1.RolloutStageStatus) {
				state.Phase, state.FailedStage, state.FailedClusters = v1alpha1.RolloutHalted, "eu", []string{"fra"}
				state.ReturnFailedClusters, state.ReturnFailedReason = []string{"par"}, "OOMKilled"
			},
			want: []string{"    X   ?   failed on fra: not available in time", "X return to revision 6", "    X 11:00 revision 6 fails too on par (OOMKilled), so no other Ready cluster returns to it"},
		},
		"events of another AppService, of another revision and of other reasons": {
			change: func(in *timeline.Input, _ *v1alpha1.RolloutStatus, stage *v1alpha1.RolloutStageStatus) {
				stage.Phase = v1alpha1.StageCompleted
				for _, e := range []corev1.Event{
					{InvolvedObject: corev1.ObjectReference{UID: "another"}, Reason: "StageStarted", Message: "revision 7, stage eu: wrong"},
					{InvolvedObject: corev1.ObjectReference{UID: UID}, Reason: "StageStarted", Message: "revision 5, stage eu: wrong"},
					{InvolvedObject: corev1.ObjectReference{UID: UID}, Reason: "StageStarted", Message: "revision 77, stage eu: wrong"},
					{InvolvedObject: corev1.ObjectReference{UID: UID}, Reason: "Adopted", Message: "revision 7, stage eu: wrong"},
				} {
					e.Action = "Plan stage eu"
					in.Events = append(in.Events, e)
				}
			},
			want: []string{"    +   ?   the stage began", "! Where no time stands, it is not known: the hub deletes events, by default after an hour."},
			not:  "wrong",
		},
		"characters that are not printable": {
			change: func(_ *timeline.Input, state *v1alpha1.RolloutStatus, _ *v1alpha1.RolloutStageStatus) {
				state.Phase, state.FailedStage, state.FailedClusters, state.FailedReason = v1alpha1.RolloutRollingBack, "eu", []string{"a\x1b]0;b\x07"}, "<img>\u202e"
			},
			want: []string{"failed on a]0;b: <img>"},
			not:  "\x1b",
		},
		"without stages": {
			change: func(_ *timeline.Input, state *v1alpha1.RolloutStatus, _ *v1alpha1.RolloutStageStatus) {
				state.Stages = nil
			},
			want: []string{"none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := timeline.Input{App: NewInput().App}
			in.App.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "eu", SoakSeconds: &soak}}}
			state := &in.App.Status.Rollout
			*state = v1alpha1.RolloutStatus{Revision: 7, StableRevision: 6, Phase: v1alpha1.RolloutProgressing, Since: &AnHourAgo, Stages: []v1alpha1.RolloutStageStatus{
				{Name: "eu", Phase: v1alpha1.StageProgressing, Since: AnHourAgo, Clusters: 4, UpToDate: 2, Available: 1, Failed: 1}}}
			if test.change != nil {
				test.change(&in, state, &state.Stages[0])
			}
			got := text(timeline.Of(in))
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("there is no %q in\n%s", want, got)
				}
			}
			if test.not != "" && strings.Contains(got, test.not) {
				t.Errorf("there is %q in\n%s", test.not, got)
			}
		})
	}
}
