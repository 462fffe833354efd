package rollout_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestPlan_knows_whether_all_clusters_have_answered(t *testing.T) {
	east := func(changes ...func(*rollout.Input)) rollout.Input {
		return With(NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady))), changes...)
	}
	for name, test := range map[string]struct {
		in   rollout.Input
		want bool
	}{
		"answered":                          {in: east(Observed("east", Observation(v1alpha1.ClusterReady)))},
		"not observed":                      {in: east(), want: true},
		"an answer to another generation":   {in: east(Observed("east", Observation(v1alpha1.ClusterReady, Answering(1)))), want: true},
		"an answer to other replicas":       {in: east(Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(7)))), want: true},
		"a failure is an answer":            {in: east(Observed("east", Observation(v1alpha1.ClusterFailed)))},
		"a cluster that cannot be reached":  {in: east(Unreachable("east"))},
		"a new cluster":                     {in: east(Observed("east", Observation(v1alpha1.ClusterReady)), Chosen("west")), want: true},
		"a cluster that is left":            {in: east(Observed("east", Observation(v1alpha1.ClusterReady)), WithEntries(Entry("east", v1alpha1.ClusterReady), Entry("west", v1alpha1.ClusterRemoving)), NotChosen("west"))},
		"no cluster":                        {in: NewInput()},
		"objects that were found somewhere": {in: east(Observed("east", Observation(v1alpha1.ClusterReady)), Chosen("west"), Observed("west", Found)), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rollout.Plan(test.in).AwaitsAnswers; got != test.want {
				t.Errorf("AwaitsAnswers is %t", got)
			}
		})
	}
}
