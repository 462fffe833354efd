package rollout_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestSurging_ends_when_all_replicas_are_ready(t *testing.T) {
	newEntry := WithEntries(Entry("east", v1alpha1.ClusterProgressing, WithReason(v1alpha1.ReasonRollingOut, ""), Surging))
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
		"all replicas are ready":                                            {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterReady))), false, v1alpha1.ClusterReady},
		"there is no observation":                                           {NewInput(Chosen("east"), newEntry), true, v1alpha1.ClusterProgressing},
		"one replica is ready":                                              {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterProgressing, Counting(2, 1)))), true, v1alpha1.ClusterProgressing},
		"the pods are ready, and the Service has no address":                {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonLoadBalancerPending, "")))), true, v1alpha1.ClusterProgressing},
		"the workload has failed":                                           {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterFailed, Reporting("Because", "")))), true, v1alpha1.ClusterFailed},
		"the observation answers the previous generation":                   {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterReady, Answering(1)))), true, v1alpha1.ClusterProgressing},
		"the observation answers the previous share":                        {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(1)))), true, v1alpha1.ClusterProgressing},
		"the cluster is unreachable":                                        {NewInput(Chosen("east"), newEntry, Unreachable("east"), Observed("east", Observation(v1alpha1.ClusterReady))), true, v1alpha1.ClusterUnknown},
		"the Deployment is Ready, and a pod is not":                         {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterReady, Counting(2, 1)))), true, v1alpha1.ClusterProgressing},
		"the member's autoscaler has scaled down, and a pod is not ready":   {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterReady, Counting(1, 0)))), true, v1alpha1.ClusterProgressing},
		"the member's autoscaler has scaled down":                           {NewInput(Chosen("east"), newEntry, Observed("east", Observation(v1alpha1.ClusterReady, Counting(1, 1)))), false, v1alpha1.ClusterReady},
		"our autoscaler has not reached minReplicas":                        {autoscaled(newEntry, Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3), Counting(1, 1)))), true, v1alpha1.ClusterProgressing},
		"our autoscaler has reached minReplicas":                            {autoscaled(newEntry, Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3)))), false, v1alpha1.ClusterReady},
		"a Ready entry with fewer pods does not become surging":             {autoscaled(WithEntries(Entry("east", v1alpha1.ClusterReady)), Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3), Counting(1, 1)))), false, v1alpha1.ClusterReady},
		"a share increases, and there is no observation":                    {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 1)))), true, v1alpha1.ClusterProgressing},
		"minReplicas increases, and there is no observation":                {autoscaled(Divided(2), Autoscaling(2, 9), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 3), WithBounds(1, 9)))), true, v1alpha1.ClusterProgressing},
		"a share decreases, and there is no observation":                    {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 3)))), false, v1alpha1.ClusterProgressing},
		"a share decreases, and the observation answers the previous share": {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterReady, Desired(Generation, 3))), Observed("east", Observation(v1alpha1.ClusterReady, AnsweringReplicas(3)))), false, v1alpha1.ClusterProgressing},
		"a failure that answers the previous share does not count":          {NewInput(Divided(2), Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterFailed, Desired(Generation, 3))), Observed("east", Observation(v1alpha1.ClusterFailed, AnsweringReplicas(3)))), false, v1alpha1.ClusterProgressing},
		"the cluster leaves the plan":                                       {NewInput(NotChosen("east"), AcceptRemovals("1@2"), newEntry), false, v1alpha1.ClusterRemoving},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := StatusOf(test.in).Clusters[0]
			if got.Surging != test.want || got.Phase != test.phase {
				t.Errorf("phase %s, surging %t; want %s, %t", got.Phase, got.Surging, test.phase, test.want)
			}
		})
	}
}

// The load of a cluster that leaves the plan moves to the surging cluster. So the AppService starts
// there with the same number of replicas.
func TestSurging_starts_with_the_replicas_of_the_leaving_cluster(t *testing.T) {
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
		"another autoscaler scales the workload":                {With(Clusters("r"), leavesNow, Chosen("z"), autoscaled), 40},
		"our autoscaler scales the workload: within its bounds": {With(Clusters("r"), leavesNow, Chosen("z"), bounded), 30},
		"no cluster leaves the plan":                            {With(Clusters("r"), Chosen("z"), autoscaled), 2},
		"no autoscaler scales the workload":                     {With(Clusters("r"), leavesNow, Chosen("z")), 2},
		"the initial replicas do not change before the rollout": {Next(With(Clusters("r"), leavesNow, Chosen("z"), autoscaled)), 40},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if got := status.Cluster("z").Replicas; got != test.want {
				t.Errorf("%d initial replicas, want %d", got, test.want)
			}
		})
	}
}
