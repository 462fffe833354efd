package rollout_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// Invariant 5: at rest, nothing is written. The status does not change if only time passes.
func TestStatus_does_not_change_at_rest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := anyInput.Draw(t, "input")
		withoutAbandon(&first)
		second := Next(first)
		if !waitsForGracePeriod(second) {
			Later(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "later")))(&second)
		}
		if diff := cmp.Diff(toJSON(t, second.App.Status), toJSON(t, StatusOf(second))); diff != "" {
			t.Fatalf("the status changed (-first +second):\n%s", diff)
		}
	})
}

// Invariant 5: after a restart in a converged state, nothing is written. A cluster whose removal is
// in progress has not converged.
func TestStatus_does_not_change_after_a_restart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		withoutAbandon(&in)
		before := Next(in)
		after := StatusOf(Next(before, Restarted))
		removing := false
		for _, entry := range before.App.Status.Clusters {
			if entry.Phase == v1alpha1.ClusterRemoving {
				removing = true
			} else if diff := cmp.Diff(&entry, after.Cluster(entry.Name)); diff != "" {
				t.Fatalf("the entry changed (-before +after):\n%s", diff)
			}
		}
		if diff := cmp.Diff(toJSON(t, before.App.Status), toJSON(t, after)); diff != "" && !removing {
			t.Fatalf("the status changed (-before +after):\n%s", diff)
		}
	})
}

// The planner passes MemberClusters that belong to its cache.
func TestStatus_does_not_change_the_cache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		app, members := in.App.DeepCopy(), map[string]*v1alpha1.MemberCluster{}
		for name, member := range in.Members {
			members[name] = member.DeepCopy()
		}
		next := StatusOf(in)
		in.TombstonesToAdd()
		in.TombstonesOfLostStatus()
		in.TombstonesOfTermination()
		in.TombstonesToRemove(next.Clusters)
		status.Changes(in, next)
		if diff := cmp.Diff(app, in.App) + cmp.Diff(members, in.Members); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
	})
}

// Invariant 3: a cluster that cannot be observed is never Ready, and keeps the last known values.
func TestStatus_is_never_Ready_for_an_unreachable_member(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		status := StatusOf(in)
		for _, entry := range status.Clusters {
			member := in.Members[entry.Name]
			if member != nil && member.IsReady() {
				continue
			}
			if entry.Phase != v1alpha1.ClusterUnknown && entry.Phase != v1alpha1.ClusterDetached && entry.Phase != v1alpha1.ClusterRemoving {
				t.Fatalf("%s cannot be observed and is %s", entry.Name, entry.Phase)
			}
			if before := in.App.Status.Cluster(entry.Name); before != nil &&
				(before.CurrentReplicas() != entry.CurrentReplicas() || before.ReadyReplicas != entry.ReadyReplicas ||
					before.CurrentAvailableReplicas() != entry.CurrentAvailableReplicas() || before.ObservedGeneration != entry.ObservedGeneration) {
				t.Fatalf("the last known values of %s, which cannot be observed, changed:\n%s", entry.Name, cmp.Diff(*before, entry))
			}
		}
		ready := slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue
		})
		if ready && (status.Summary.Ready != status.Summary.Clusters || status.Summary.Unknown > 0) {
			t.Fatalf("Ready is True with %+v", status.Summary)
		}
	})
}

// The available pods of the status are the sum of those of the entries, as the ready pods are. A cluster
// that cannot be observed counts in neither.
func TestStatus_sums_up_the_available_pods_of_its_entries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		status := StatusOf(in)
		var ready, available int32
		for _, entry := range status.Clusters {
			if own := entry.ObservedAvailableReplicas; own != nil && *own == entry.ReadyReplicas {
				t.Fatalf("%s has a number of available pods of its own, and all ready pods are available", entry.Name)
			}
			if member := in.Members[entry.Name]; member == nil || !member.IsReady() {
				continue
			}
			ready += entry.ReadyReplicas
			if entry.ObservedAvailableReplicas != nil {
				available += *entry.ObservedAvailableReplicas
			} else {
				available += entry.ReadyReplicas
			}
		}
		if status.AvailableReplicas == nil || *status.AvailableReplicas != available || status.Summary.ReadyReplicas != ready {
			t.Fatalf("the status has %v available and %d ready pods, and the entries %d and %d", status.AvailableReplicas, status.Summary.ReadyReplicas, available, ready)
		}
	})
}

// The number of available pods is only shown. What a rollout takes for available is its own decision.
func TestDecisions_do_not_depend_on_the_number_of_available_pods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		other := in
		other.App, other.Observations = in.App.DeepCopy(), map[string]observation.Observation{}
		for i := range other.App.Status.Clusters {
			other.App.Status.Clusters[i].ObservedAvailableReplicas = nil
		}
		for cluster, seen := range in.Observations {
			seen.AvailableReplicas = nil
			other.Observations[cluster] = seen
		}
		decision := rollout.Plan(in)
		for i := range decision.Entries {
			decision.Entries[i].ObservedAvailableReplicas = nil
		}
		if diff := cmp.Diff(rollout.Plan(other), decision); diff != "" {
			t.Fatalf("the decision depends on the available pods (-without +with):\n%s", diff)
		}
	})
}

// Invariant 3: an entry is Ready only if an observation answered the current generation.
func TestStatus_is_Ready_only_after_a_Ready_observation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		for _, entry := range StatusOf(in).Clusters {
			if entry.Phase != v1alpha1.ClusterReady {
				continue
			}
			seen, found := in.Observations[entry.Name]
			if found && seen.UID == in.App.UID {
				if seen.Phase != v1alpha1.ClusterReady || seen.Generation < entry.Generation || seen.Planned != entry.Replicas {
					t.Fatalf("%s is Ready; its observation is %+v", entry.Name, seen)
				}
				continue
			}
			if before := in.App.Status.Cluster(entry.Name); before == nil || before.Phase != v1alpha1.ClusterReady || before.ObservedGeneration < entry.Generation || before.Replicas != entry.Replicas {
				t.Fatalf("%s is Ready without an observation; before: %+v", entry.Name, before)
			}
		}
	})
}

// Invariant 2: an entry ends only if there is evidence that no object is left on the member, or
// that the cluster is no longer a member.
func TestStatus_drops_no_entry_without_evidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		for _, entry := range in.App.Status.Clusters {
			maybeConfirmGone(t, entry, &in)
		}
		status := StatusOf(in)
		for _, before := range in.App.Status.Clusters {
			if status.Cluster(before.Name) == nil && !isConfirmedGone(in, before) && !isReleased(in, before) {
				t.Fatalf("the entry of %s ended without evidence:\nbefore: %+v\nseen: %+v", before.Name, before, in.Observations[before.Name])
			}
		}
	})
}

// Invariant 2: an entry becomes Removing only if the AppService is being deleted or its plan does
// not choose the cluster. The replicas of an entry change only to the number in the plan or, where a
// scale-down waits for ready replicas, to a number between the previous one and the one in the plan.
// The initial replicas of an autoscaled workload do not say how many replicas run.
func TestStatus_removes_and_scales_nothing_without_intent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		deleting := !in.App.DeletionTimestamp.IsZero()
		scaled := in.App.Spec.Autoscaling != nil || in.App.Spec.ExternallyScaled
		for _, entry := range StatusOf(in).Clusters {
			before := in.App.Status.Cluster(entry.Name)
			leftOut := in.PlanError == nil && !in.Plan.Find(entry.Name).Chosen()
			already := before != nil && before.Phase == v1alpha1.ClusterRemoving
			if entry.Phase == v1alpha1.ClusterRemoving && !deleting && !leftOut && !already {
				t.Fatalf("%s is Removing without intent", entry.Name)
			}
			if before == nil {
				continue
			}
			decision := in.Plan.Find(entry.Name)
			intended := !deleting && in.PlanError == nil && decision.Chosen()
			for _, n := range []struct {
				what                 string
				before, decided, got int32
			}{
				{"replicas", before.Replicas, decision.Replicas, entry.Replicas},
				{"minReplicas", before.MinReplicas, decision.MinReplicas, entry.MinReplicas},
				{"maxReplicas", before.MaxReplicas, decision.MaxReplicas, entry.MaxReplicas},
			} {
				if n.what == "replicas" && intended && (scaled || decision.MaxReplicas > 0) {
					continue // only the initial replicas of an autoscaled workload
				}
				onTheWay := n.decided < n.got && n.got < n.before
				if n.got != n.before && (!intended || n.got != n.decided && !onTheWay) {
					t.Fatalf("%s has %d desired %s, had %d, without intent", entry.Name, n.got, n.what, n.before)
				}
			}
		}
	})
}

// An entry is written before anything is created on its cluster. Each chosen cluster has an entry.
func TestStatus_has_one_entry_for_each_cluster_sorted_by_name(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		status := StatusOf(in)
		for i, entry := range status.Clusters {
			if i > 0 && status.Clusters[i-1].Name >= entry.Name {
				t.Fatalf("%s is sorted after %s", entry.Name, status.Clusters[i-1].Name)
			}
			if entry.Phase == v1alpha1.ClusterReady != (entry.Reason == "") {
				t.Fatalf("%s is %s with the reason %q", entry.Name, entry.Phase, entry.Reason)
			}
			if entry.Surging && (entry.Phase == v1alpha1.ClusterReady || entry.Phase == v1alpha1.ClusterRemoving) {
				t.Fatalf("%s is %s and surging", entry.Name, entry.Phase)
			}
		}
		for _, decision := range in.Plan {
			if decision.Chosen() && in.App.DeletionTimestamp.IsZero() && !in.App.Spec.Suspend && status.Cluster(decision.Cluster) == nil {
				t.Fatalf("%s is chosen and has no entry", decision.Cluster)
			}
		}
	})
}

func TestStatus_does_not_change_its_input(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		before := toJSON(t, in)
		StatusOf(in)
		if diff := cmp.Diff(before, toJSON(t, in)); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
	})
}

// isConfirmedGone reports whether delivery confirmed, in answer to exactly this entry, that no
// object is left.
func isConfirmedGone(in rollout.Input, entry v1alpha1.ClusterStatus) bool {
	member, seen := in.Members[entry.Name], in.Observations[entry.Name]
	wanted := !in.App.DeletionTimestamp.IsZero() || !in.Plan.Find(entry.Name).Chosen()
	return wanted && entry.Phase == v1alpha1.ClusterRemoving && member != nil && member.IsReady() &&
		seen.UID == in.App.UID && seen.GoneSince.Time.Equal(entry.LastTransitionTime.Time)
}

// isReleased reports whether a cluster is released: the AppService is being deleted and the cluster
// has been Detached for the grace period, or a user has abandoned the cluster and, where needed,
// its tombstone is written.
func isReleased(in rollout.Input, entry v1alpha1.ClusterStatus) bool {
	member := in.Members[entry.Name]
	if slices.Contains(strings.Split(in.App.Annotations[v1alpha1.AnnotationAbandon], ","), entry.Name) {
		switch entry.Phase {
		case v1alpha1.ClusterDetached:
			return member == nil
		case v1alpha1.ClusterRemoving:
			wanted := !in.App.DeletionTimestamp.IsZero() || !in.Plan.Find(entry.Name).Chosen()
			return wanted && (in.App.Spec.DeletionPolicy == v1alpha1.DeletionOrphan ||
				slices.ContainsFunc(member.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == UID }))
		}
	}
	return !in.App.DeletionTimestamp.IsZero() && in.Members[entry.Name] == nil &&
		entry.Phase == v1alpha1.ClusterDetached && in.Now.Sub(entry.LastTransitionTime.Time) >= 30*time.Second
}

// withoutAbandon removes the annotation that abandons clusters. With it, an entry is Removing or
// Detached first, and ends with the next status.
func withoutAbandon(in *rollout.Input) { delete(in.App.Annotations, v1alpha1.AnnotationAbandon) }

// waitsForGracePeriod reports whether time alone will change the status.
func waitsForGracePeriod(in rollout.Input) bool {
	return !in.App.DeletionTimestamp.IsZero() &&
		slices.ContainsFunc(in.App.Status.Clusters, func(entry v1alpha1.ClusterStatus) bool { return entry.Phase == v1alpha1.ClusterDetached })
}

// The generators below produce every possible input. They use few names, generations and times, so
// that these coincide often. rapid draws the first value of a list most often, so the first value
// is the usual one.

var (
	anyTime  = rapid.SampledFrom([]metav1.Time{AnHourAgo, Ago(2 * time.Hour), Ago(30 * time.Second), Ago(29 * time.Second)})
	anyCount = rapid.Int32Range(0, 3)

	anyInput = rapid.Custom(func(t *rapid.T) rollout.Input {
		in := NewInput()
		for _, cluster := range []string{"a", "b", "c", "d"} {
			anyCluster(t, cluster, &in)
		}
		rapid.SampledFrom([]func(*rollout.Input){
			func(*rollout.Input) {},
			Deleting,
			WithPlanError(errors.New("no")),
			func(in *rollout.Input) { Deleting(in); WithPlanError(errors.New("no"))(in) },
			Suspended,
		}).Draw(t, "state")(&in)
		rapid.SampledFrom([]func(*rollout.Input){
			func(*rollout.Input) {},
			func(*rollout.Input) {},
			Annotated(v1alpha1.AnnotationAbandon, "a,c"),
			Annotated(v1alpha1.AnnotationAcceptRemovals, "2@2"),
			Annotated(v1alpha1.AnnotationAcceptRemovals, "all"),
		}).Draw(t, "annotated")(&in)
		rapid.SampledFrom([]func(*rollout.Input){
			func(*rollout.Input) {},
			Divided(4),
			Autoscaling(2, 6),
			func(in *rollout.Input) { Divided(4)(in); Autoscaling(2, 6)(in) },
		}).Draw(t, "replicas")(&in)
		if rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "orphaning") {
			in.App.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		}
		if rapid.Bool().Draw(t, "has a previous status") {
			in = Next(in, anyChange(t))
		}
		if in.PlanError != nil {
			in.Plan = nil
		}
		return in
	})
)

// anyCluster gives a cluster an optional entry, an optional member, a decision if it has a member,
// and an optional observation.
func anyCluster(t *rapid.T, cluster string, in *rollout.Input) {
	if rapid.IntRange(0, 3).Draw(t, cluster+" has an entry") > 0 {
		WithEntries(anyEntry(t, cluster))(in)
	}
	if rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, cluster+" is a member") {
		rapid.SampledFrom([]func(string) func(*rollout.Input){Chosen, NotChosen}).Draw(t, cluster+" is chosen or not")(cluster)(in)
		if in.Plan.Find(cluster).Chosen() {
			decision := placement.Decision{Cluster: cluster, Replicas: anyCount.Draw(t, cluster+"'s desired replicas")}
			least := anyCount.Draw(t, cluster+"'s minReplicas")
			decision.MaxReplicas = rapid.SampledFrom([]int32{0, least, 3}).Draw(t, cluster+"'s maxReplicas")
			if decision.MaxReplicas > 0 { // placement sets either both bounds or none
				decision.MinReplicas = least
			}
			SetDecision(in, decision)
		}
		if rapid.SampledFrom([]bool{false, false, true}).Draw(t, cluster+" is unreachable") {
			Unreachable(cluster)(in)
		}
		if rapid.SampledFrom([]bool{false, false, true}).Draw(t, cluster+" has a tombstone") {
			WithTombstone(cluster)(in)
		}
	}
	if rapid.SampledFrom([]bool{true, true, false}).Draw(t, cluster+" was observed") {
		Observed(cluster, anyObservation(t, cluster))(in)
	}
}

func anyEntry(t *rapid.T, cluster string) v1alpha1.ClusterStatus {
	phase := rapid.SampledFrom([]v1alpha1.ClusterPhase{
		v1alpha1.ClusterReady, v1alpha1.ClusterRemoving, v1alpha1.ClusterDetached, v1alpha1.ClusterUnknown,
		v1alpha1.ClusterFailed, v1alpha1.ClusterPending, v1alpha1.ClusterProgressing,
	}).Draw(t, cluster+"'s phase")
	planned := rapid.SampledFrom([]int64{Generation, Generation - 1}).Draw(t, cluster+"'s generation")
	entry := Entry(cluster, phase,
		Desired(planned, anyCount.Draw(t, cluster+"'s replicas")),
		Applied(planned-rapid.Int64Range(0, 1).Draw(t, cluster+"'s missing generations")),
		WithPods(anyCount.Draw(t, cluster+"'s pods"), anyCount.Draw(t, cluster+"'s ready pods")),
		Since(anyTime.Draw(t, cluster+" since")),
	)
	entry.ObservedAvailableReplicas = anyAvailable(t, cluster, entry.ReadyReplicas)
	if rapid.IntRange(0, 3).Draw(t, cluster+" has an autoscaler") == 3 {
		least := anyCount.Draw(t, cluster+"'s lower bound")
		WithBounds(least, max(least, 1)+anyCount.Draw(t, cluster+"'s upper bound"))(&entry)
	}
	if phase != v1alpha1.ClusterReady {
		WithReason("SomeReason", "a message")(&entry)
		entry.Surging = rapid.Bool().Draw(t, cluster+" is surging")
	}
	if rapid.IntRange(0, 3).Draw(t, cluster+" has an address") == 3 {
		reachedAt("192.0.2.1")(&entry)
	}
	return entry
}

// anyObservation returns an observation that delivery can make.
func anyObservation(t *rapid.T, cluster string) observation.Observation {
	if rapid.IntRange(0, 5).Draw(t, cluster+" was found") == 5 {
		return Found
	}
	phase := rapid.SampledFrom([]v1alpha1.ClusterPhase{
		v1alpha1.ClusterReady, v1alpha1.ClusterRemoving, v1alpha1.ClusterFailed, v1alpha1.ClusterProgressing,
	}).Draw(t, cluster+"'s observed phase")
	seen := Observation(phase,
		Answering(rapid.SampledFrom([]int64{Generation, Generation - 1}).Draw(t, cluster+"'s observed generation")),
		AnsweringReplicas(anyCount.Draw(t, cluster+"'s observed replicas")),
		Counting(anyCount.Draw(t, cluster+"'s counted pods"), anyCount.Draw(t, cluster+"'s counted ready pods")),
	)
	seen.AvailableReplicas = anyAvailable(t, cluster, seen.ReadyReplicas)
	seen.UID = rapid.SampledFrom([]types.UID{UID, UID, "uid-2"}).Draw(t, cluster+"'s observed UID")
	if phase == v1alpha1.ClusterRemoving && rapid.SampledFrom([]bool{true, true, false}).Draw(t, cluster+" is gone") {
		GoneSince(anyTime.Draw(t, cluster+" is gone since"))(&seen)
		return seen
	}
	if phase != v1alpha1.ClusterReady {
		Reporting("SomeReason", "an observed message")(&seen)
	}
	return seen
}

// anyAvailable returns a number of available pods as an entry and an observation have it: nil if it is that
// of the ready pods.
func anyAvailable(t *rapid.T, cluster string, ready int32) *int32 {
	available := rapid.Int32Range(0, ready).Draw(t, cluster+"'s available pods")
	if available == ready {
		return nil
	}
	return &available
}

// maybeConfirmGone adds an observation that no object is left on the cluster of an entry. It is
// valid evidence, or evidence with one defect.
func maybeConfirmGone(t *rapid.T, entry v1alpha1.ClusterStatus, in *rollout.Input) {
	answer := Observation(v1alpha1.ClusterRemoving, GoneSince(entry.LastTransitionTime))
	switch rapid.IntRange(0, 5).Draw(t, entry.Name+"'s confirmation") {
	case 0: // The answer is evidence if the entry was Removing.
	case 1:
		answer.UID = "uid-2"
	case 2:
		answer.GoneSince = metav1.NewTime(entry.LastTransitionTime.Add(time.Second))
	case 3:
		answer.GoneSince = metav1.Time{}
	case 4:
		if in.Members[entry.Name] != nil {
			Unreachable(entry.Name)(in)
		}
	case 5:
		return
	}
	Observed(entry.Name, answer)(in)
}

// anyChange returns a change that happens after the status was written.
func anyChange(t *rapid.T) func(*rollout.Input) {
	cluster := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "changed cluster")
	change := rapid.SampledFrom([]func(*rollout.Input){
		NotChosen(cluster),
		Chosen(cluster),
		Unreachable(cluster),
		Observed(cluster, anyObservation(t, cluster)),
		Restarted,
		Deleting,
		func(in *rollout.Input) { in.App.Generation++ },
		func(in *rollout.Input) {
			delete(in.Members, cluster)
			SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster})
		},
	}).Draw(t, "change")
	return func(in *rollout.Input) { Later(time.Minute)(in); change(in) }
}
