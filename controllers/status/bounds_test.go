package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestReplicasOutOfBounds_is_explained(t *testing.T) {
	const most = 1<<31 - 1
	ruled := func(weight int32) func(*rollout.Input) {
		return func(in *rollout.Input) {
			in.App.Spec.ReplicaPolicy.Rules = []v1alpha1.ReplicaRule{{Name: "all", Weight: &weight}}
		}
	}
	gets := func(cluster string, replicas, least, limit int32) func(*rollout.Input) {
		return func(in *rollout.Input) {
			Chosen(cluster)(in)
			SetDecision(in, placement.Decision{Cluster: cluster, Replicas: replicas, MinReplicas: least, MaxReplicas: limit})
		}
	}
	tests := map[string]struct {
		in   rollout.Input
		want string
	}{
		"the shares add up": {in: NewInput(Divided(4), Chosen("a"), Chosen("b"))},
		"fewer than spec.replicas": {
			in:   NewInput(Divided(10), gets("a", 4, 0, 0), gets("b", 3, 0, 0)),
			want: "the clusters' maxReplicas together allow 7 of 10 replicas: raise maxReplicas in spec.replicaPolicy.rules, add clusters, or lower spec.replicas",
		},
		"fewer than spec.replicas, with a weight of 0": {
			in:   NewInput(Divided(10), ruled(0), gets("a", 4, 0, 0)),
			want: "the clusters' maxReplicas together allow 4 of 10 replicas: raise maxReplicas, or a weight of 0, in spec.replicaPolicy.rules, add clusters, or lower spec.replicas",
		},
		"more than spec.replicas": {
			in:   NewInput(Divided(10), ruled(1), gets("a", 6, 0, 0), gets("b", 6, 0, 0)),
			want: "the clusters' minReplicas together require 12 replicas instead of 10: lower minReplicas in spec.replicaPolicy.rules, choose fewer clusters, or raise spec.replicas",
		},
		"more than 32 bits": {
			in:   NewInput(Divided(10), gets("a", most, 0, 0), gets("b", most, 0, 0), gets("c", 12, 0, 0)),
			want: "the clusters' minReplicas together require 4294967306 replicas instead of 10: lower minReplicas in spec.replicaPolicy.rules, choose fewer clusters, or raise spec.replicas",
		},
		"the bounds add up, and one cluster has no autoscaler": {in: NewInput(Divided(9), Autoscaling(2, 10), gets("a", 1, 1, 5), gets("b", 1, 1, 5), gets("c", 0, 0, 0))},
		"fewer than minReplicas": {
			in:   NewInput(Divided(0), Autoscaling(6, 10), gets("a", 2, 2, 5), gets("b", 3, 3, 5)),
			want: "the clusters' maxReplicas together allow 5 of 6 replicas: raise maxReplicas in spec.replicaPolicy.rules, add clusters, or lower spec.autoscaling.minReplicas",
		},
		"more than minReplicas": {
			in:   NewInput(Divided(0), Autoscaling(6, 10), gets("a", 4, 4, 5), gets("b", 3, 3, 5)),
			want: "the clusters' minReplicas together require 7 replicas instead of 6: lower minReplicas in spec.replicaPolicy.rules, choose fewer clusters, or raise spec.autoscaling.minReplicas",
		},
		"fewer than maxReplicas": {
			in:   NewInput(Divided(0), Autoscaling(6, 10), gets("a", 3, 3, 5), gets("b", 3, 3, 4)),
			want: "the clusters' maxReplicas together allow 9 of 10 replicas: raise maxReplicas in spec.replicaPolicy.rules, add clusters, or lower spec.autoscaling.maxReplicas",
		},
		"minReplicas is 1 by default": {
			in: NewInput(Divided(0), Autoscaling(1, 4), gets("a", 1, 1, 4), func(in *rollout.Input) { in.App.Spec.Autoscaling.MinReplicas = nil }),
		},
		"Duplicated": {in: NewInput(gets("a", 7, 0, 0))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status := StatusOf(test.in)
			if test.want == "" {
				if placed := status.Conditions[0]; placed.Status != metav1.ConditionTrue {
					t.Errorf("Placed: %s", placed.Message)
				}
				return
			}
			want := current(
				notPlaced(v1alpha1.ReasonReplicasOutOfBounds, test.want),
				notReady(v1alpha1.ReasonReplicasOutOfBounds, test.want),
				stalled(v1alpha1.ReasonReplicasOutOfBounds, test.want),
			)
			if diff := cmp.Diff(want, status.Conditions); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplicasOutOfBounds_has_the_lowest_priority(t *testing.T) {
	tests := map[string]struct {
		in   rollout.Input
		want map[string]string
	}{
		"no cluster is chosen": {
			in:   NewInput(Divided(4), NotChosen("a")),
			want: map[string]string{"Placed": v1alpha1.ReasonNoClusters, "Ready": v1alpha1.ReasonNoClusters, "Reconciling": v1alpha1.ReasonNoClusters},
		},
		"a deletion": {
			in:   NewInput(Deleting, Divided(9), inPhase("a", v1alpha1.ClusterReady)),
			want: map[string]string{"Ready": v1alpha1.ReasonDeleting, "Reconciling": v1alpha1.ReasonDeleting},
		},
		"suspended": {
			in: NewInput(Suspended, Divided(9), inPhase("a", v1alpha1.ClusterReady)),
			want: map[string]string{"Placed": v1alpha1.ReasonReplicasOutOfBounds, "Ready": v1alpha1.ReasonReplicasOutOfBounds,
				"Stalled": v1alpha1.ReasonReplicasOutOfBounds, "Suspended": v1alpha1.ReasonSuspended},
		},
		"suspended, with a pending change": {
			in:   NewInput(Suspended, Divided(9), Chosen("a")),
			want: map[string]string{"Placed": v1alpha1.ReasonReplicasOutOfBounds, "Ready": v1alpha1.ReasonSuspended, "Suspended": v1alpha1.ReasonSuspended},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for _, condition := range StatusOf(test.in).Conditions {
				got[condition.Type] = condition.Reason
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
		})
	}
}
