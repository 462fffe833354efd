package rollout_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestRecheckAfter(t *testing.T) {
	fails := func(age time.Duration) func(*rollout.Input) {
		return WithEntries(Entry("east", v1alpha1.ClusterFailed, FailedFor(age), Surging))
	}
	tests := map[string]struct {
		in   rollout.Input
		want time.Duration
	}{
		"nothing is pending":                                   {NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), 0},
		"a surging cluster without a failure":                  {NewInput(Chosen("east")), 0},
		"a candidate that is not Ready":                        {NewInput(Chosen("east"), NotReadyCandidate("west")), 9 * time.Minute},
		"the earlier of two candidates":                        {NewInput(Chosen("east"), NotReadyCandidate("west"), NotReadyFor("south", 8*time.Minute)), 2 * time.Minute},
		"a candidate that has not been Ready for long":         {NewInput(Chosen("east"), NotReadyFor("west", time.Hour)), 0},
		"a surging cluster that failed recently":               {NewInput(Chosen("east"), fails(4*time.Minute)), 6 * time.Minute},
		"a surging cluster that failed long ago":               {NewInput(Chosen("east"), fails(time.Hour)), 0},
		"a surging cluster that is unreachable":                {NewInput(Chosen("east"), Unreachable("east")), 10 * time.Minute},
		"an earlier removal that counts against a pending one": {NewInput(Divided(2), NotChosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), RemovedWithoutEdit(1, 50*time.Minute)), 15 * time.Minute},
		"an earlier removal, and no pending one":               {NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady)), RemovedWithoutEdit(1, 50*time.Minute)), 0},
		"a deletion":                                           {NewInput(Deleting, Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), 10 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := rollout.Plan(test.in).RecheckAfter; got != test.want {
				t.Errorf("RecheckAfter is %v, want %v", got, test.want)
			}
		})
	}
}

// A division without enough capacity is Stalled when no further cluster is expected. The planner
// must plan again at that time.
func TestReplicasOutOfBounds_is_Stalled_after_the_wait_for_candidates(t *testing.T) {
	in := Next(NewInput(Divided(6), share("east", 2, 2, 4), NotReadyCandidate("west")))
	if !meta.IsStatusConditionTrue(in.App.Status.Conditions, v1alpha1.ConditionReconciling) {
		t.Fatalf("conditions are %+v", in.App.Status.Conditions)
	}
	in = Next(in, Later(rollout.Plan(in).RecheckAfter))
	if status := StatusOf(in); !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled) || rollout.Plan(in).RecheckAfter != 0 {
		t.Errorf("conditions are %+v", status.Conditions)
	}
}
