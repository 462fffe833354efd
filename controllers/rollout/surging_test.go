package rollout_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestArriving_ends_when_all_of_it_is_ready(t *testing.T) {
	newcomer := WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Surging))
	autoscaled := func(changes ...func(*rollout.Input)) rollout.Input {
		return With(NewInput(Chosen("east"), func(in *rollout.Input) {
			SetDecision(in, placement.Decision{Cluster: "east", Replicas: 3, MinReplicas: 2, MaxReplicas: 9})
		}), changes...)
	}
	tests := map[string]struct {
		in    rollout.Input
		want  bool
		phase v1alpha1.ClusterPhase
	}{
		"all is ready":                               {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterReady))), false, v1alpha1.ClusterReady},
		"nothing was seen since the start":           {NewInput(Chosen("east"), newcomer), true, v1alpha1.ClusterProgressing},
		"some of it is":                              {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterProgressing, Counting(2, 1)))), true, v1alpha1.ClusterProgressing},
		"the pods are, and not all of what it needs": {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonLoadBalancerPending, "")))), true, v1alpha1.ClusterProgressing},
		"it has failed":                              {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterFailed, Reporting("Because", "")))), true, v1alpha1.ClusterFailed},
		"of the generation before":                   {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterReady, Answering(1)))), true, v1alpha1.ClusterProgressing},
		"of the share before":                        {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(1)))), true, v1alpha1.ClusterProgressing},
		"it is lost":                                 {NewInput(Chosen("east"), newcomer, Unreachable("east"), Observed("east", Observation(v1alpha1.ClusterReady))), true, v1alpha1.ClusterUnknown},
		"it is Ready, and pods are not":              {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterReady, Counting(2, 1)))), true, v1alpha1.ClusterProgressing},
		"somebody's autoscaler has it smaller, and a pod is not ready": {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterReady, Counting(1, 0)))), true, v1alpha1.ClusterProgressing},
		"somebody's autoscaler has it smaller":                         {NewInput(Chosen("east"), newcomer, Observed("east", Observation(v1alpha1.ClusterReady, Counting(1, 1)))), false, v1alpha1.ClusterReady},
		"our autoscaler has yet to reach its least":                    {autoscaled(newcomer, Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3), Counting(1, 1)))), true, v1alpha1.ClusterProgressing},
		"our autoscaler has reached its least":                         {autoscaled(newcomer, Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3)))), false, v1alpha1.ClusterReady},
		"what is Ready does not arrive for one less":                   {autoscaled(WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3), Counting(1, 1)))), false, v1alpha1.ClusterReady},
		"a share is raised, and nothing was seen":                      {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 1)))), true, v1alpha1.ClusterProgressing},
		"a least is raised, and nothing was seen":                      {autoscaled(Divided(2), Autoscaling(2, 9), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 3), WithBounds(1, 9)))), true, v1alpha1.ClusterProgressing},
		"a share is lowered, and nothing was seen":                     {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 3)))), false, v1alpha1.ClusterProgressing},
		"a share is lowered, and seen as it was":                       {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 3))), Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3)))), false, v1alpha1.ClusterProgressing},
		"a failure with the share before is no answer":                 {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterFailed, Desired(Generation, 3))), Observed("east", Observation(v1alpha1.ClusterFailed, AnsweringReplicas(3)))), false, v1alpha1.ClusterProgressing},
		"it leaves": {NewInput(NotChosen("east"), AcceptRemovals("1@2"), newcomer), false, v1alpha1.ClusterRemoving},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := StatusOf(test.in).Clusters[0]
			if got.Surging != test.want || got.Phase != test.phase {
				t.Errorf("it is %s, arriving: %t; want %s, %t", got.Phase, got.Surging, test.phase, test.want)
			}
		})
	}
}

// The load of a cluster that leaves the plan moves to the surging cluster. So the AppService starts
// there with the same number of replicas.
func TestAutoscaled_begins_with_what_leaves(t *testing.T) {
	autoscaled := func(in *rollout.Input) { in.App.Spec.ExternallyScaled = true }
	bounded := func(in *rollout.Input) {
		in.App.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 30}
		for i := range in.Plan {
			if in.Plan[i].Chosen() {
				in.Plan[i].MinReplicas, in.Plan[i].MaxReplicas = 2, 30
			}
		}
	}
	leavesNow := func(in *rollout.Input) {
		NotChosen("a")(in)
		in.App.Status.Clusters = nil
		WithEntries(Entry("a", v1alpha1.ClusterReady, Desired(1, 2), WithPods(40, 40)))(in)
	}
	tests := map[string]struct {
		in   rollout.Input
		want int32
	}{
		"by something else":                {With(Clusters("r"), leavesNow, Chosen("z"), autoscaled), 40},
		"within the bounds of ours":        {With(Clusters("r"), leavesNow, Chosen("z"), bounded), 30},
		"not where nothing leaves":         {With(Clusters("r"), Chosen("z"), autoscaled), 2},
		"not where nothing is scaled":      {With(Clusters("r"), leavesNow, Chosen("z")), 2},
		"and keeps them until it is there": {Next(With(Clusters("r"), leavesNow, Chosen("z"), autoscaled)), 40},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if got := status.Cluster("z").Replicas; got != test.want {
				t.Errorf("begins with %d, want %d", got, test.want)
			}
		})
	}
}
