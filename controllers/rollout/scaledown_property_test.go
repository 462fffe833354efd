package rollout_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// The replicas are divided again and again, while members start the requested replicas and never
// stop one. So only the planner can stop ready replicas, and it must not stop more than
// the number by which the request was reduced. If no new division is requested, the move ends.
func TestScaleDown_never_stops_needed_replicas_and_ends(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c", "d", "e"}
	rapid.Check(t, func(t *rapid.T) {
		in := NewInput()
		for _, name := range names {
			Reachable(name)(&in)
		}
		in = moveReplicas(t, in, func(t *rapid.T, in *rollout.Input) { redivide(t, names, in) }, func(*rollout.Input) {})
		for _, entry := range in.App.Status.Clusters {
			if decision := in.Plan.Find(entry.Name); !decision.Chosen() || decision.Replicas != entry.Replicas || entry.Surging || entry.Phase != v1alpha1.ClusterReady {
				t.Fatalf("%s has %d desired replicas (%s), and its entry is\n%+v", entry.Name, decision.Replicas, decision.Reason, entry)
			}
		}
	})
}

// This test does the same with divisions that placement computes. They start from the entries while
// the move is in progress, and must not change because of the entries.
func TestScaleDown_of_divisions_by_placement_ends(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := NewInput()
		var members []v1alpha1.MemberCluster
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			Reachable(name)(&in)
			members = append(members, *in.Members[name])
		}
		place := func(in *rollout.Input) {
			in.Plan, in.PlanError = placement.Decide(in.App, members)
			if in.PlanError != nil {
				t.Fatal(in.PlanError)
			}
		}
		in = moveReplicas(t, in, func(t *rapid.T, in *rollout.Input) {
			Divided(rapid.Int32Range(0, 20).Draw(t, "replicas"))(in)
			names := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 1, 5, rapid.ID).Draw(t, "clusters")
			in.App.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: names}}
			for _, name := range names[1:] {
				weight := rapid.Int32Range(0, 3).Draw(t, name+"'s weight")
				in.App.Spec.ReplicaPolicy.Rules = append(in.App.Spec.ReplicaPolicy.Rules, v1alpha1.ReplicaRule{
					Name: name, ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{name}}, Weight: &weight,
				})
			}
			editPlacement(in)
		}, place)
		var sum int32
		for _, entry := range in.App.Status.Clusters {
			if entry.Surging || entry.Phase != v1alpha1.ClusterReady || !in.Plan.Find(entry.Name).Chosen() {
				t.Fatalf("%s has the entry\n%+v", entry.Name, entry)
			}
			sum += entry.Replicas
		}
		if sum != *in.App.Spec.Replicas {
			t.Fatalf("%d replicas, want %d", sum, *in.App.Spec.Replicas)
		}
	})
}

// moveReplicas divides the replicas again at random steps while members make progress. At the end,
// the members carry out their entries completely.
func moveReplicas(t *rapid.T, in rollout.Input, redivide func(*rapid.T, *rollout.Input), place func(*rollout.Input)) rollout.Input {
	redivide(t, &in)
	place(&in)
	in = Next(in)
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		if rapid.IntRange(0, 4).Draw(t, "divided again") == 4 {
			redivide(t, &in)
		}
		for _, name := range slices.Sorted(maps.Keys(in.Members)) {
			progress(t, name, &in)
		}
		if rapid.IntRange(0, 5).Draw(t, "restart") == 5 {
			Restarted(&in)
		}
		in = step(t, With(in, place))
	}
	for range 20 * len(in.Members) {
		for name := range in.Members {
			finish(name, &in)
		}
		in = step(t, With(in, place))
	}
	return in
}

// step returns the input after one more status, which it checks.
func step(t *rapid.T, in rollout.Input) rollout.Input {
	next := Next(in, Later(time.Minute))
	was, is := capacity(in.App.Status), capacity(next.App.Status)
	if enough := min(was, *in.App.Spec.Replicas); is < enough {
		t.Fatalf("%d of %d replicas were ready, and now at most %d may run\n%s\n%s",
			was, *in.App.Spec.Replicas, is, toJSON(t, in.App.Status.Clusters), toJSON(t, next.App.Status.Clusters))
	}
	if diff := cmp.Diff(toJSON(t, next.App.Status), toJSON(t, StatusOf(next))); diff != "" {
		t.Fatalf("the status changed at rest (-before +after):\n%s", diff)
	}
	return next
}

// capacity returns the number of ready replicas that may keep running: on each cluster at most as
// many as its entry allows. The ready replicas of a Pending entry are not known: its cluster was
// chosen again during a removal and has not been observed since.
func capacity(status v1alpha1.AppServiceStatus) int32 {
	var ready int32
	for _, entry := range status.Clusters {
		if entry.Phase != v1alpha1.ClusterRemoving && entry.Phase != v1alpha1.ClusterPending {
			ready += min(entry.ReadyReplicas, entry.Replicas)
		}
	}
	return ready
}

// redivide divides another number of replicas among other clusters, by an edit or because members
// changed.
func redivide(t *rapid.T, names []string, in *rollout.Input) {
	var total int32
	for _, name := range names {
		if !rapid.SampledFrom([]bool{true, true, false}).Draw(t, name+" is chosen") {
			SetDecision(in, placement.Decision{Cluster: name, Reason: v1alpha1.ReasonSelectorMismatch})
			continue
		}
		replicas := rapid.Int32Range(0, 6).Draw(t, name+"'s replicas")
		SetDecision(in, placement.Decision{Cluster: name, Replicas: replicas})
		total += replicas
	}
	Divided(total)(in)
	editPlacement(in) // without an edit, removals would be held forever
}

// progress makes a member carry out its entry completely, start some more replicas, or do nothing.
func progress(t *rapid.T, cluster string, in *rollout.Input) {
	entry := in.App.Status.Cluster(cluster)
	switch pace := rapid.IntRange(0, 3).Draw(t, cluster+" makes progress"); {
	case entry == nil || pace == 0:
	case pace == 3:
		finish(cluster, in)
	case entry.Phase != v1alpha1.ClusterRemoving:
		ready := min(entry.Replicas, entry.ReadyReplicas+rapid.Int32Range(0, 2).Draw(t, cluster+" starts"))
		Observed(cluster, Observation(v1alpha1.ClusterProgressing, Answering(entry.Generation), AnsweringReplicas(entry.Replicas), Counting(entry.Replicas, ready), Reporting(v1alpha1.ReasonRollingOut, "")))(in)
	}
}

// finish makes a member carry out its entry completely.
func finish(cluster string, in *rollout.Input) {
	entry := in.App.Status.Cluster(cluster)
	switch {
	case entry == nil:
		delete(in.Observations, cluster)
	case entry.Phase == v1alpha1.ClusterRemoving:
		Observed(cluster, Observation(v1alpha1.ClusterRemoving, GoneSince(entry.LastTransitionTime)))(in)
	default:
		Observed(cluster, Observation(v1alpha1.ClusterReady, Answering(entry.Generation), AnsweringReplicas(entry.Replicas), Counting(entry.Replicas, entry.Replicas)))(in)
	}
}
