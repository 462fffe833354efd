package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func placed(placement v1alpha1.Placement) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Placement = &placement }
}

// Who is left out, and why.
func TestPlacement(t *testing.T) {
	f := theFleet
	early := f.declare(t, "early", replicas(1))
	f.awaitReady(t, early, "north", "south", "east")
	f.govern(t, "north", tainted(v1alpha1.TaintNoSchedule))
	f.govern(t, "south", v1alpha1.MemberClusterSpec{Unschedulable: true})
	ahead := &v1alpha1.MemberCluster{}
	ahead.Name = "ahead" // of its Secret
	if err := f.hub.api.Create(t.Context(), ahead); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.hub.api.Delete(background, ahead); err != nil {
			t.Error(err)
		}
		f.leave(t, ahead.Name)
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
			name: "a taint and unschedulable keep new ones away", app: "plain",
			want: []string{"east"},
			excluded: []v1alpha1.ExcludedClusters{
				notReady, {Reason: v1alpha1.ReasonTaintNotTolerated, Count: 1, Examples: []string{"north"}, Requirements: []string{"e2e:NoSchedule"}}, unschedulable,
			},
		},
		{
			name: "a toleration lets it in", app: "tolerant",
			placement: v1alpha1.Placement{Tolerations: []v1alpha1.Toleration{{Key: "e2e", Operator: v1alpha1.TolerationExists}}},
			want:      []string{"east", "north"},
			excluded:  []v1alpha1.ExcludedClusters{notReady, unschedulable},
		},
		{
			name: "names that are not listed, and one that nobody has", app: "named",
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
			app := f.declare(t, test.app, replicas(1), placed(test.placement))
			f.awaitReady(t, app, test.want...)
			if diff := cmp.Diff(test.excluded, app.Status.Placement.Excluded); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("what ran there before stays, and takes changes", func(t *testing.T) {
		f.edit(t, early, image("web:2"))
		f.awaitReady(t, early, "north", "south", "east")
	})
}

// Of two zones, and of as many clusters as a limit says. Each step goes on from the one before.
func TestLimitedPlacement(t *testing.T) {
	f := theFleet
	for member, zone := range map[string]string{"north": "a", "south": "a", "east": "b"} {
		f.label(t, member, map[string]string{"zone": zone})
	}
	t.Cleanup(func() { f.setSpec(t, "east", v1alpha1.MemberClusterSpec{}) })
	app := f.declare(t, "spread", placed(v1alpha1.Placement{Limit: new(int32(2)), SpreadKey: "zone"}))
	var first, other string // the one of zone a that is taken, and the one that is not

	t.Run("takes one of each zone, and says who is beyond the limit", func(t *testing.T) {
		eventually(t, "two clusters to be chosen", func() error {
			f.refresh(t, app)
			if got := len(app.Status.Clusters); got != 2 {
				return fmt.Errorf("%d rows", got)
			}
			return nil
		})
		first, other = "north", "south"
		if app.Status.Cluster(first) == nil {
			first, other = other, first
		}
		f.awaitReady(t, app, first, "east")
		f.wantBeyond(t, app, other)
	})

	t.Run("drained, it moves, and is on two ready clusters at every moment", func(t *testing.T) {
		uncordon := f.cordon(t, other)
		done := f.neverFewer(t, app, 2, func(ready int32) int32 { return ready / 2 }, "east", first, other)
		f.setSpec(t, "east", tainted(v1alpha1.TaintNoExecute))
		eventually(t, "it to wait on east for "+other, func() error {
			f.refresh(t, app)
			leaving, arriving := app.Status.Cluster("east"), app.Status.Cluster(other)
			if leaving == nil || leaving.Reason != v1alpha1.ReasonRemovalPending || !strings.Contains(leaving.Message, other) {
				return fmt.Errorf("the row of east is %+v", leaving)
			}
			if arriving == nil || arriving.CurrentReplicas() != 2 {
				return fmt.Errorf("the row of %s is %+v", other, arriving)
			}
			return nil
		})
		uncordon()
		f.awaitReady(t, app, first, other)
		done()
	})

	t.Run("and stays there when the taint is gone", func(t *testing.T) {
		f.setSpec(t, "east", v1alpha1.MemberClusterSpec{})
		eventually(t, "east to be beyond the limit", func() error {
			f.refresh(t, app)
			return beyond(app, "east")
		})
		f.awaitReady(t, app, first, other)
	})
}

func (f *fleet) wantBeyond(t *testing.T, app *v1alpha1.AppService, member string) {
	t.Helper()
	if err := beyond(app, member); err != nil {
		t.Error(err)
	}
}

// beyond is nil when the limit, and nothing else, leaves out that member alone.
func beyond(app *v1alpha1.AppService, member string) error {
	want := []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonLimitReached, Count: 1, Examples: []string{member}}}
	if !slices.EqualFunc(want, app.Status.Placement.Excluded, func(a, b v1alpha1.ExcludedClusters) bool { return cmp.Equal(a, b) }) {
		return fmt.Errorf("want %s left out by the limit, got %+v", member, app.Status.Placement.Excluded)
	}
	return nil
}
