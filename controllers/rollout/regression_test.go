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
)

func TestRows_of_cases_that_once_went_wrong(t *testing.T) {
	long := strings.Repeat("é", 2000)
	cut := strings.Repeat("é", 1023) + "…"
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"D2 without a plan a cluster that was being removed still is": {
			in:   given(planError(errors.New("no")), reachable("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, "")),
		},
		"D3 a Removing cluster that was not seen since the start says what it said": {
			in:   given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRefused, "forbidden")))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRefused, "forbidden")),
		},
		"D4 Unknown, then Detached: keeps what was known": {
			in:   given(has(row("east", v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady)))),
			want: rows(v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone), since(now)),
		},
		"D4 Detached, then Unknown: keeps what was known": {
			in:   given(chosen("east"), unreachable("east"), has(row("east", v1alpha1.ClusterDetached, because(v1alpha1.ReasonClusterDetached, secretGone)))),
			want: rows(v1alpha1.ClusterUnknown, because(v1alpha1.ReasonClusterUnreachable, lastKnownReady), arriving, since(now)),
		},
		"D5 a message is bounded": {
			in:   given(chosen("east"), has(row("east", v1alpha1.ClusterReady)), saw("east", seen(v1alpha1.ClusterFailed, saying(v1alpha1.ReasonConflict, long)))),
			want: rows(v1alpha1.ClusterFailed, because(v1alpha1.ReasonConflict, cut), since(now)),
		},
		"D5 a message of a removal is bounded": {
			in:   given(notChosen("east"), has(row("east", v1alpha1.ClusterRemoving)), saw("east", seen(v1alpha1.ClusterRemoving, saying(v1alpha1.ReasonConflict, long)))),
			want: rows(v1alpha1.ClusterRemoving, because(v1alpha1.ReasonConflict, cut)),
		},
		"D6 a chosen cluster without a MemberCluster gets no row": {
			in: given(func(in *rollout.Input) { in.Plan = placement.Plan{{Cluster: "east", Replicas: 1}} }),
		},
		"D9 Ready needs the generation taken on": {
			in: given(chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(1, 2), tookOn(1))),
				saw("east", seen(v1alpha1.ClusterReady, func(o *observation.Observation) { o.Applied = 1 }))),
			want: rows(v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), tookOn(1), since(now)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, statusOf(test.in).Clusters); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatus_after_a_restart_keeps_what_a_removal_waits_for(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		abandonsNone(&in)
		before := then(in)
		before = then(before)
		if diff := cmp.Diff(text(t, before.App.Status), text(t, statusOf(then(before, restarted, later(time.Second))))); diff != "" && !waitsForGrace(before) {
			t.Fatalf("status (-before +after):\n%s", diff)
		}
	})
}
