package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestPlacement tests which clusters are excluded, and why.
func TestPlacement(t *testing.T) {
	f := testFleet(t, onKind)
	early := f.createApp(t, "early", framework.Replicas(1))
	f.awaitReady(t, early, "north", "south", "east")
	f.setMemberSpec(t, "north", tainted(v1alpha1.TaintNoSchedule))
	f.setMemberSpec(t, "south", v1alpha1.MemberClusterSpec{Unschedulable: true})
	ahead := &v1alpha1.MemberCluster{}
	ahead.Name = "ahead" // it has no Secret
	if err := f.Hub.Client.Create(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Hub.Client.Delete(context.Background(), ahead); err != nil {
			t.Error(err)
		}
		f.removeMember(t, ahead.Name)
	})

	notReady := v1alpha1.ExcludedClusters{Reason: v1alpha1.ReasonClusterNotReady, Count: 1, Examples: []string{"ahead"}}
	unschedulable := v1alpha1.ExcludedClusters{Reason: v1alpha1.ReasonUnschedulable, Count: 1, Examples: []string{"south"}}
	tests := []struct {
		name, app string
		placement v1alpha1.Placement
		want      []string
		excluded  []v1alpha1.ExcludedClusters
	}{
		{
			name: "a taint and unschedulable exclude clusters", app: "plain",
			want: []string{"east"},
			excluded: []v1alpha1.ExcludedClusters{
				notReady, {Reason: v1alpha1.ReasonTaintNotTolerated, Count: 1, Examples: []string{"north"}, Requirements: []string{"e2e:NoSchedule"}}, unschedulable,
			},
		},
		{
			name: "a toleration includes the tainted cluster", app: "tolerant",
			placement: v1alpha1.Placement{Tolerations: []v1alpha1.Toleration{{Key: "e2e", Operator: v1alpha1.TolerationExists}}},
			want:      []string{"east", "north"},
			excluded:  []v1alpha1.ExcludedClusters{notReady, unschedulable},
		},
		{
			name: "clusters that are not named are excluded, and a name without a cluster is reported", app: "named",
			placement: v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east", "nowhere"}}},
			want:      []string{"east"},
			excluded: []v1alpha1.ExcludedClusters{
				{Reason: v1alpha1.ReasonNoSuchCluster, Count: 1, Examples: []string{"nowhere"}},
				{Reason: v1alpha1.ReasonNotNamed, Count: 3, Examples: []string{"ahead", "north", "south"}},
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			app := f.createApp(t, test.app, framework.Replicas(1), framework.Placement(test.placement))
			f.awaitReady(t, app, test.want...)
			if diff := cmp.Diff(test.excluded, app.Status.Placement.Excluded); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("an AppService that ran there before stays and is updated", func(t *testing.T) {
		f.EditApp(t, early, framework.Image("web:2"))
		f.awaitReady(t, early, "north", "south", "east")
	})
}

// TestLimitedPlacement tests a placement with a limit and a spread key. Each step continues where
// the previous one ended.
func TestLimitedPlacement(t *testing.T) {
	f := testFleet(t)
	for member, zone := range map[string]string{"north": "a", "south": "a", "east": "b"} {
		f.addLabels(t, member, map[string]string{"zone": zone})
	}
	t.Cleanup(func() { f.patchMemberSpec(t, "east", v1alpha1.MemberClusterSpec{}) })
	app := f.createApp(t, "spread", framework.Placement(v1alpha1.Placement{Limit: new(int32(2)), SpreadKey: "zone"}))
	var first, other string // the cluster of zone a that is chosen, and the other one

	t.Run("chooses one cluster of each zone, and reports the excluded one", func(t *testing.T) {
		f.Eventually(t, "two clusters to be chosen", func(context.Context) error {
			f.RefreshApp(t, app)
			if got := len(app.Status.Clusters); got != 2 {
				return fmt.Errorf("%d entries", got)
			}
			return nil
		})
		first, other = "north", "south"
		if app.Status.Cluster(first) == nil {
			first, other = other, first
		}
		f.awaitReady(t, app, first, "east")
		if err := checkLimitExcludes(app, other); err != nil {
			t.Error(err)
		}
	})

	t.Run("moves from a drained cluster, and always runs on two ready clusters", func(t *testing.T) {
		uncordon := f.cordon(t, other)
		done := f.expectAtLeast(t, app, 2, func(ready int32) int32 { return ready / 2 }, "east", first, other)
		f.patchMemberSpec(t, "east", tainted(v1alpha1.TaintNoExecute))
		f.Eventually(t, "east to wait for "+other, func(context.Context) error {
			f.RefreshApp(t, app)
			removed, added := app.Status.Cluster("east"), app.Status.Cluster(other)
			if removed == nil || removed.Reason != v1alpha1.ReasonRemovalPending || !strings.Contains(removed.Message, other) {
				return fmt.Errorf("the entry of east is %+v", removed)
			}
			if added == nil || added.CurrentReplicas() != 2 {
				return fmt.Errorf("the entry of %s is %+v", other, added)
			}
			return nil
		})
		uncordon()
		f.awaitReady(t, app, first, other)
		done()
	})

	t.Run("stays when the taint is removed", func(t *testing.T) {
		f.patchMemberSpec(t, "east", v1alpha1.MemberClusterSpec{})
		f.Eventually(t, "east to be excluded by the limit", func(context.Context) error {
			f.RefreshApp(t, app)
			return checkLimitExcludes(app, "east")
		})
		f.awaitReady(t, app, first, other)
	})
}

// checkLimitExcludes returns an error unless the limit excludes this member, and nothing excludes
// another one.
func checkLimitExcludes(app *v1alpha1.AppService, member string) error {
	want := []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonLimitReached, Count: 1, Examples: []string{member}, Requirements: []string{"limit=2"}}}
	if !slices.EqualFunc(want, app.Status.Placement.Excluded, func(a, b v1alpha1.ExcludedClusters) bool { return cmp.Equal(a, b) }) {
		return fmt.Errorf("want %s excluded by the limit, got %+v", member, app.Status.Placement.Excluded)
	}
	return nil
}
