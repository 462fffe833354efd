package rollout_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

func TestArriving_ends_when_all_of_it_is_ready(t *testing.T) {
	newcomer := has(row("east", v1alpha1.ClusterProgressing, because(v1alpha1.ReasonRollingOut, ""), arriving))
	autoscaled := func(changes ...func(*rollout.Input)) rollout.Input {
		return with(given(chosen("east"), func(in *rollout.Input) {
			decide(in, placement.Decision{Cluster: "east", Replicas: 3, MinReplicas: 2, MaxReplicas: 9})
		}), changes...)
	}
	tests := map[string]struct {
		in    rollout.Input
		want  bool
		phase v1alpha1.ClusterPhase
	}{
		"all is ready":                               {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterReady))), false, v1alpha1.ClusterReady},
		"nothing was seen since the start":           {given(chosen("east"), newcomer), true, v1alpha1.ClusterProgressing},
		"some of it is":                              {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterProgressing, counting(2, 1)))), true, v1alpha1.ClusterProgressing},
		"the pods are, and not all of what it needs": {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterProgressing, saying(v1alpha1.ReasonLoadBalancerPending, "")))), true, v1alpha1.ClusterProgressing},
		"it has failed":                              {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterFailed, saying("Because", "")))), true, v1alpha1.ClusterFailed},
		"of the generation before":                   {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterReady, answering(1)))), true, v1alpha1.ClusterProgressing},
		"of the share before":                        {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterReady, to(1)))), true, v1alpha1.ClusterProgressing},
		"it is lost":                                 {given(chosen("east"), newcomer, unreachable("east"), saw("east", seen(v1alpha1.ClusterReady))), true, v1alpha1.ClusterUnknown},
		"it is Ready, and pods are not":              {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterReady, counting(2, 1)))), true, v1alpha1.ClusterProgressing},
		"somebody's autoscaler has it smaller, and a pod is not ready": {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterReady, counting(1, 0)))), true, v1alpha1.ClusterProgressing},
		"somebody's autoscaler has it smaller":                         {given(chosen("east"), newcomer, saw("east", seen(v1alpha1.ClusterReady, counting(1, 1)))), false, v1alpha1.ClusterReady},
		"our autoscaler has yet to reach its least":                    {autoscaled(newcomer, saw("east", seen(v1alpha1.ClusterReady, to(3), counting(1, 1)))), true, v1alpha1.ClusterProgressing},
		"our autoscaler has reached its least":                         {autoscaled(newcomer, saw("east", seen(v1alpha1.ClusterReady, to(3)))), false, v1alpha1.ClusterReady},
		"what is Ready does not arrive for one less":                   {autoscaled(has(row("east", v1alpha1.ClusterReady)), saw("east", seen(v1alpha1.ClusterReady, to(3), counting(1, 1)))), false, v1alpha1.ClusterReady},
		"a share is raised, and nothing was seen":                      {given(divided(2), chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(generation, 1)))), true, v1alpha1.ClusterProgressing},
		"a least is raised, and nothing was seen":                      {autoscaled(divided(2), autoscaling(2, 9), has(row("east", v1alpha1.ClusterReady, plannedFor(generation, 3), scaled(1, 9)))), true, v1alpha1.ClusterProgressing},
		"a share is lowered, and nothing was seen":                     {given(divided(2), chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(generation, 3)))), false, v1alpha1.ClusterProgressing},
		"a share is lowered, and seen as it was":                       {given(divided(2), chosen("east"), has(row("east", v1alpha1.ClusterReady, plannedFor(generation, 3))), saw("east", seen(v1alpha1.ClusterReady, to(3)))), false, v1alpha1.ClusterProgressing},
		"a failure with the share before is no answer":                 {given(divided(2), chosen("east"), has(row("east", v1alpha1.ClusterFailed, plannedFor(generation, 3))), saw("east", seen(v1alpha1.ClusterFailed, to(3)))), false, v1alpha1.ClusterProgressing},
		"it leaves": {given(notChosen("east"), accepting("1@2"), newcomer), false, v1alpha1.ClusterRemoving},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := statusOf(test.in).Clusters[0]
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
		notChosen("a")(in)
		in.App.Status.Clusters = nil
		has(row("a", v1alpha1.ClusterReady, plannedFor(1, 2), running(40, 40)))(in)
	}
	tests := map[string]struct {
		in   rollout.Input
		want int32
	}{
		"by something else":                {with(clusters("r"), leavesNow, chosen("z"), autoscaled), 40},
		"within the bounds of ours":        {with(clusters("r"), leavesNow, chosen("z"), bounded), 30},
		"not where nothing leaves":         {with(clusters("r"), chosen("z"), autoscaled), 2},
		"not where nothing is scaled":      {with(clusters("r"), leavesNow, chosen("z")), 2},
		"and keeps them until it is there": {then(with(clusters("r"), leavesNow, chosen("z"), autoscaled)), 40},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := statusOf(test.in)
			if got := status.Cluster("z").Replicas; got != test.want {
				t.Errorf("begins with %d, want %d", got, test.want)
			}
		})
	}
}
