package rollout_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestRows_of_cases_that_once_went_wrong(t *testing.T) {
	long := strings.Repeat("é", 2000)
	cut := strings.Repeat("é", 1023) + "…"
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"D2 without a plan a cluster that was being removed still is": {
			in:   NewInput(WithPlanError(errors.New("no")), Reachable("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")),
		},
		"D3 a Removing cluster that was not seen since the start says what it said": {
			in:   NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRefused, "forbidden")))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRefused, "forbidden")),
		},
		"D4 Unknown, then Detached: keeps what was known": {
			in:   NewInput(WithEntries(Entry("east", v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady)))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Now)),
		},
		"D4 Detached, then Unknown: keeps what was known": {
			in:   NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Surging, Since(Now)),
		},
		"D5 a message is bounded": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonConflict, long)))),
			want: onlyEast(v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonConflict, cut), Since(Now)),
		},
		"D5 a message of a removal is bounded": {
			in:   NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving)), Observed("east", Observation(v1alpha1.ClusterRemoving, Reporting(v1alpha1.ReasonConflict, long)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonConflict, cut)),
		},
		"D6 a chosen cluster without a MemberCluster gets no row": {
			in: NewInput(func(in *rollout.Input) { in.Plan = placement.Plan{{Cluster: "east", Replicas: 1}} }),
		},
		"D9 Ready needs the generation taken on": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 2), Applied(1))),
				Observed("east", Observation(v1alpha1.ClusterReady, func(o *observation.Observation) { o.Applied = 1 }))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1), Since(Now)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus_after_a_restart_keeps_what_a_removal_waits_for(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		withoutAbandon(&in)
		before := Next(in)
		before = Next(before)
		if diff := cmp.Diff(toJSON(t, before.App.Status), toJSON(t, StatusOf(Next(before, Restarted, Later(time.Second))))); diff != "" && !waitsForGracePeriod(before) {
			t.Fatalf("status (-before +after):\n%s", diff)
		}
	})
}
