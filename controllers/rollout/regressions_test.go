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

func TestPlan_of_former_defects(t *testing.T) {
	long := strings.Repeat("é", 2000)
	cut := strings.Repeat("é", 1023) + "…"
	tests := map[string]struct {
		in   rollout.Input
		want []v1alpha1.ClusterStatus
	}{
		"without a plan a Removing cluster stays Removing": {
			in:   NewInput(WithPlanError(errors.New("no")), Reachable("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRemoving, "")),
		},
		"a Removing cluster keeps its reason after a restart": {
			in:   NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRefused, "forbidden")))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonRefused, "forbidden")),
		},
		"suspended, a Removing cluster that is chosen again has no revision": {
			in:   NewInput(Chosen("east"), Suspended, WithEntries(Entry("east", v1alpha1.ClusterRemoving, DesiredRevision(1)))),
			want: onlyEast(v1alpha1.ClusterPending, WithReason(v1alpha1.ReasonPending, ""), DesiredRevision(0), Surging, Since(Now), func(e *v1alpha1.ClusterStatus) { e.Placement = 1 }),
		},
		"Unknown, then Detached: keeps the last known state": {
			in:   NewInput(WithEntries(Entry("east", v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady)))),
			want: onlyEast(v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone), Since(Now)),
		},
		"Detached, then Unknown: keeps the last known state": {
			in:   NewInput(Chosen("east"), Unreachable("east"), WithEntries(Entry("east", v1alpha1.ClusterDetached, WithReason(v1alpha1.ReasonClusterDetached, MessageSecretGone)))),
			want: onlyEast(v1alpha1.ClusterUnknown, WithReason(v1alpha1.ReasonClusterUnreachable, MessageNotReady), Surging, Since(Now)),
		},
		"a message is bounded": {
			in:   NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonConflict, long)))),
			want: onlyEast(v1alpha1.ClusterFailed, WithReason(v1alpha1.ReasonConflict, cut), Since(Now)),
		},
		"a message of a removal is bounded": {
			in:   NewInput(NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterRemoving)), Observed("east", Observation(v1alpha1.ClusterRemoving, Reporting(v1alpha1.ReasonConflict, long)))),
			want: onlyEast(v1alpha1.ClusterRemoving, WithReason(v1alpha1.ReasonConflict, cut)),
		},
		"a chosen cluster without a MemberCluster gets no entry": {
			in: NewInput(func(in *rollout.Input) { in.Plan = placement.Plan{{Cluster: "east", Replicas: 1}} }),
		},
		"Ready needs the applied generation": {
			in: NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(1, 2), Applied(1))),
				Observed("east", Observation(v1alpha1.ClusterReady, func(o *observation.Observation) { o.Applied = 1 }))),
			want: onlyEast(v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Applied(1), Since(Now)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, StatusOf(test.in).Clusters); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// An override gives replicas to other clusters than the plan has now. No cluster of the plan will
// ever be ready, so waiting for them would never end.
func TestRemoval_from_the_only_cluster_with_replicas_needs_approval(t *testing.T) {
	in := Clusters("rd")
	in.App.Spec.Replicas = new(int32(0))
	in.App.Spec.Overrides = []v1alpha1.Override{{Name: "us", Replicas: new(int32(2))}}
	SetDecision(&in, placement.Decision{Cluster: ClusterName(0)})
	entry := in.App.Status.Cluster(ClusterName(0))
	entry.Replicas, entry.ReadyReplicas = 0, 0
	Observed(ClusterName(0), Observation(v1alpha1.ClusterReady, func(o *observation.Observation) { o.Planned, o.Replicas, o.ReadyReplicas = 0, 0, 0 }))(&in)
	got := StatusOf(in)
	if letters := Letters(got); letters != "rh" {
		t.Fatalf("states %s, want the removal to need approval: %+v", letters, got.Clusters[1])
	}
	if message := got.Clusters[1].Message; !strings.HasPrefix(message, "the plan has 0 replicas on the other clusters, and no other cluster is known to be ready") {
		t.Errorf("message %q", message)
	}
}

func TestStatus_after_a_restart_keeps_pending_removals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		withoutAbandon(&in)
		before := Next(in)
		before = Next(before)
		if diff := cmp.Diff(toJSON(t, before.App.Status), toJSON(t, StatusOf(Next(before, Restarted, Later(time.Second))))); diff != "" && !waitsForGracePeriod(before) {
			t.Fatalf("the status changed (-before +after):\n%s", diff)
		}
	})
}
