package rollout_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// placedAt is the observation of objects that were applied for a placement.
func placedAt(number int64, changes ...func(*observation.Observation)) observation.Observation {
	seen := Observation(v1alpha1.ClusterReady, changes...)
	seen.Placement = number
	return seen
}

func found(seen *observation.Observation) { seen.Found = true }

func counted(number int64) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Status.Placement.Count = number }
}

func TestPlan_numbers_placements(t *testing.T) {
	tests := map[string]struct {
		in    rollout.Input
		want  map[string]int64
		count int64
	}{
		"clusters that are placed together have the same number": {
			in:   NewInput(Chosen("a"), Chosen("b"), counted(3)),
			want: map[string]int64{"a": 4, "b": 4}, count: 4,
		},
		"entries of an older version have none, and get none": {
			in:   NewInput(Chosen("a"), WithEntries(Entry("a", v1alpha1.ClusterReady)), Observed("a", placedAt(0))),
			want: map[string]int64{"a": 0},
		},
		"a cluster that stays in the plan keeps its number": {
			in:   NewInput(Chosen("a"), Chosen("b"), WithEntries(Entry("a", v1alpha1.ClusterReady, Placed(2))), counted(2)),
			want: map[string]int64{"a": 2, "b": 3}, count: 3,
		},
		"a removal that is withdrawn is another placement": {
			in:   With(Clusters("D"), Chosen("a"), counted(5)),
			want: map[string]int64{"a": 6}, count: 6,
		},
		"a removal that is withdrawn after the cluster has rejoined": {
			in: NewInput(Chosen("a"), counted(5), WithEntries(Entry("a", v1alpha1.ClusterDetached, Placed(5),
				WithTransition(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit)))),
			want: map[string]int64{"a": 6}, count: 6,
		},
		"a removal that has not started is withdrawn": {
			in: NewInput(Chosen("a"), counted(5), WithEntries(Entry("a", v1alpha1.ClusterProgressing, Placed(5),
				WithTransition(v1alpha1.TransitionRemovalPending, v1alpha1.CauseEdit)))),
			want: map[string]int64{"a": 5}, count: 5,
		},
		"a removal that continues keeps its number": {
			in:   NewInput(NotChosen("a"), counted(5), WithEntries(Entry("a", v1alpha1.ClusterRemoving, Placed(4))), Observed("a", placedAt(7))),
			want: map[string]int64{"a": 4}, count: 5,
		},
		"a cluster that leaves keeps its number": {
			in:   NewInput(NotChosen("a"), counted(5), WithEntries(Entry("a", v1alpha1.ClusterReady, Placed(4))), Observed("a", placedAt(7))),
			want: map[string]int64{"a": 4}, count: 5,
		},
		"while there is no plan, nothing is known": {
			in:   NewInput(WithPlanError(errors.New("invalid")), counted(5), WithEntries(Entry("a", v1alpha1.ClusterReady, Placed(4))), Observed("a", placedAt(7))),
			want: map[string]int64{"a": 4}, count: 5,
		},
		"a restored entry of the plan takes over the number of its objects": {
			in:   NewInput(Chosen("a"), counted(5), WithEntries(Entry("a", v1alpha1.ClusterReady, Placed(4))), Observed("a", placedAt(7))),
			want: map[string]int64{"a": 7}, count: 7,
		},
		"after a lost status, the count goes on from the highest number of the members": {
			in:   NewInput(Chosen("a"), Chosen("b"), NotChosen("c"), Observed("a", placedAt(3, found)), Observed("c", placedAt(7, found))),
			want: map[string]int64{"a": 3, "b": 8, "c": 7}, count: 8,
		},
		"numbers of another AppService do not count": {
			in:   NewInput(Chosen("a"), Observed("b", placedAt(7, OfAnotherUID))),
			want: map[string]int64{"a": 1}, count: 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			got := map[string]int64{}
			for _, entry := range status.Clusters {
				got[entry.Name] = entry.Placement
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("numbers (-want +got):\n%s", diff)
			}
			if status.Placement.Count != test.count {
				t.Errorf("the count is %d, want %d", status.Placement.Count, test.count)
			}
		})
	}
}

func TestTombstone_ends_one_placement_unless_the_AppService_is_deleted(t *testing.T) {
	removing := WithEntries(Entry("a", v1alpha1.ClusterRemoving, Placed(4)))
	if got := NewInput(removing).TombstoneOf("a"); got.Placement == nil || *got.Placement != 4 || got.UID != UID {
		t.Errorf("the tombstone is %+v", got)
	}
	for name, in := range map[string]rollout.Input{
		"the AppService is being deleted": NewInput(removing, Deleting),
		"there is no entry":               NewInput(Deleting),
	} {
		if got := in.TombstoneOf("a"); got.Placement != nil {
			t.Errorf("%s: the tombstone ends placement %d", name, *got.Placement)
		}
	}
}
