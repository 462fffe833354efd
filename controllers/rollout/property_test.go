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
	"github.com/fleetwright/fleetwright/controllers/status"
)

// Invariant 5: at rest, nothing is written. The status does not change if only time passes.
func TestStatus_of_its_own_answer_changes_nothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := anyInput.Draw(t, "input")
		abandonsNone(&first)
		second := then(first)
		if !waitsForGrace(second) {
			later(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "later")))(&second)
		}
		if diff := cmp.Diff(text(t, second.App.Status), text(t, statusOf(second))); diff != "" {
			t.Fatalf("status (-first +second):\n%s", diff)
		}
	})
}

// Invariant 5: after a restart in a converged state, nothing is written. A cluster whose removal is
// in progress has not converged.
func TestStatus_after_a_restart_changes_nothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		abandonsNone(&in)
		before := then(in)
		after := statusOf(then(before, restarted))
		removing := false
		for _, row := range before.App.Status.Clusters {
			if row.Phase == v1alpha1.ClusterRemoving {
				removing = true
			} else if diff := cmp.Diff(&row, after.Cluster(row.Name)); diff != "" {
				t.Fatalf("row (-before +after):\n%s", diff)
			}
		}
		if diff := cmp.Diff(text(t, before.App.Status), text(t, after)); diff != "" && !removing {
			t.Fatalf("status (-before +after):\n%s", diff)
		}
	})
}

// The planner passes MemberClusters that belong to its cache.
func TestStatus_changes_nothing_of_what_it_is_made_from(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		app, members := in.App.DeepCopy(), map[string]*v1alpha1.MemberCluster{}
		for name, member := range in.Members {
			members[name] = member.DeepCopy()
		}
		next := statusOf(in)
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
func TestStatus_is_never_Ready_for_a_member_that_is_not(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		status := statusOf(in)
		for _, row := range status.Clusters {
			member := in.Members[row.Name]
			if member != nil && member.IsReady() {
				continue
			}
			if row.Phase != v1alpha1.ClusterUnknown && row.Phase != v1alpha1.ClusterDetached && row.Phase != v1alpha1.ClusterRemoving {
				t.Fatalf("%s cannot be observed and is %s", row.Name, row.Phase)
			}
			if before := in.App.Status.Cluster(row.Name); before != nil &&
				(before.CurrentReplicas() != row.CurrentReplicas() || before.ReadyReplicas != row.ReadyReplicas || before.ObservedGeneration != row.ObservedGeneration) {
				t.Fatalf("%s cannot be observed, and what was known of it changed:\n%s", row.Name, cmp.Diff(*before, row))
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

// Invariant 3: an entry is Ready only if an observation answered the current generation.
func TestStatus_is_Ready_only_for_a_cluster_that_said_so(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		for _, row := range statusOf(in).Clusters {
			if row.Phase != v1alpha1.ClusterReady {
				continue
			}
			seen, found := in.Observations[row.Name]
			if found && seen.UID == in.App.UID {
				if seen.Phase != v1alpha1.ClusterReady || seen.Generation < row.Generation || seen.Planned != row.Replicas {
					t.Fatalf("%s is Ready; it said %+v", row.Name, seen)
				}
				continue
			}
			if before := in.App.Status.Cluster(row.Name); before == nil || before.Phase != v1alpha1.ClusterReady || before.ObservedGeneration < row.Generation || before.Replicas != row.Replicas {
				t.Fatalf("%s is Ready, and has said nothing; before: %+v", row.Name, before)
			}
		}
	})
}

// Invariant 2: an entry ends only if there is evidence that no object is left on the member, or
// that the cluster is no longer a member.
func TestStatus_loses_no_row_without_evidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		for _, row := range in.App.Status.Clusters {
			almostGone(t, row, &in)
		}
		status := statusOf(in)
		for _, before := range in.App.Status.Clusters {
			if status.Cluster(before.Name) == nil && !answeredGone(in, before) && !letGo(in, before) {
				t.Fatalf("the row of %s is gone without evidence:\nbefore: %+v\nseen: %+v", before.Name, before, in.Observations[before.Name])
			}
		}
	})
}

// Invariant 2: an entry becomes Removing only if the AppService is being deleted or its plan does
// not choose the cluster. The replicas of an entry change only to the number in the plan or, where
// the clusters divide the replicas, to a number between the previous one and the one in the plan.
// The initial replicas of an autoscaled workload do not say how many replicas run.
func TestStatus_tells_nothing_to_remove_or_scale_without_intent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		deleting := !in.App.DeletionTimestamp.IsZero()
		divided, scaled := in.App.Spec.ReplicaPolicy != nil, in.App.Spec.Autoscaling != nil || in.App.Spec.ExternallyScaled
		for _, row := range statusOf(in).Clusters {
			before := in.App.Status.Cluster(row.Name)
			leftOut := in.PlanError == nil && !in.Plan.Find(row.Name).Chosen()
			already := before != nil && before.Phase == v1alpha1.ClusterRemoving
			if row.Phase == v1alpha1.ClusterRemoving && !deleting && !leftOut && !already {
				t.Fatalf("%s is Removing, and nobody wanted that", row.Name)
			}
			if before == nil {
				continue
			}
			decision := in.Plan.Find(row.Name)
			intended := !deleting && in.PlanError == nil && decision.Chosen()
			for _, n := range []struct {
				what                  string
				before, decided, says int32
			}{
				{"replicas", before.Replicas, decision.Replicas, row.Replicas},
				{"minReplicas", before.MinReplicas, decision.MinReplicas, row.MinReplicas},
				{"maxReplicas", before.MaxReplicas, decision.MaxReplicas, row.MaxReplicas},
			} {
				if n.what == "replicas" && intended && (scaled || decision.MaxReplicas > 0) {
					continue // only the initial replicas of an autoscaled workload
				}
				onTheWay := divided && n.decided < n.says && n.says < n.before
				if n.says != n.before && (!intended || n.says != n.decided && !onTheWay) {
					t.Fatalf("%s is to run %d %s, had %d, and nobody wanted that", row.Name, n.says, n.what, n.before)
				}
			}
		}
	})
}

// An entry is written before anything is created on its cluster. Each chosen cluster has an entry.
func TestStatus_has_exactly_one_row_for_each_cluster_sorted_by_name(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		status := statusOf(in)
		for i, row := range status.Clusters {
			if i > 0 && status.Clusters[i-1].Name >= row.Name {
				t.Fatalf("%s comes after %s", row.Name, status.Clusters[i-1].Name)
			}
			if row.Phase == v1alpha1.ClusterReady != (row.Reason == "") {
				t.Fatalf("%s is %s because %q", row.Name, row.Phase, row.Reason)
			}
			if row.Surging && (row.Phase == v1alpha1.ClusterReady || row.Phase == v1alpha1.ClusterRemoving) {
				t.Fatalf("%s is %s, and arriving", row.Name, row.Phase)
			}
		}
		for _, decision := range in.Plan {
			if decision.Chosen() && in.App.DeletionTimestamp.IsZero() && !in.App.Spec.Suspend && status.Cluster(decision.Cluster) == nil {
				t.Fatalf("%s is chosen and has no row", decision.Cluster)
			}
		}
	})
}

func TestStatus_changes_nothing_of_its_input(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		before := text(t, in)
		statusOf(in)
		if diff := cmp.Diff(before, text(t, in)); diff != "" {
			t.Fatalf("input (-before +after):\n%s", diff)
		}
	})
}

// answeredGone reports whether delivery confirmed, in answer to exactly this entry, that no object
// is left.
func answeredGone(in rollout.Input, row v1alpha1.ClusterStatus) bool {
	member, seen := in.Members[row.Name], in.Observations[row.Name]
	wanted := !in.App.DeletionTimestamp.IsZero() || !in.Plan.Find(row.Name).Chosen()
	return wanted && row.Phase == v1alpha1.ClusterRemoving && member != nil && member.IsReady() &&
		seen.UID == in.App.UID && seen.GoneSince.Time.Equal(row.LastTransitionTime.Time)
}

// letGo reports whether a cluster is released: the AppService is being deleted and the cluster has
// been Detached for the grace period, or a user has abandoned the cluster and, where needed, its
// tombstone is written.
func letGo(in rollout.Input, row v1alpha1.ClusterStatus) bool {
	member := in.Members[row.Name]
	if slices.Contains(strings.Split(in.App.Annotations[v1alpha1.AnnotationAbandon], ","), row.Name) {
		switch row.Phase {
		case v1alpha1.ClusterDetached:
			return member == nil
		case v1alpha1.ClusterRemoving:
			wanted := !in.App.DeletionTimestamp.IsZero() || !in.Plan.Find(row.Name).Chosen()
			return wanted && (in.App.Spec.DeletionPolicy == v1alpha1.DeletionOrphan ||
				slices.ContainsFunc(member.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == uid }))
		}
	}
	return !in.App.DeletionTimestamp.IsZero() && in.Members[row.Name] == nil &&
		row.Phase == v1alpha1.ClusterDetached && in.Now.Sub(row.LastTransitionTime.Time) >= 30*time.Second
}

// abandonsNone removes the annotation that abandons clusters. With it, an entry is Removing or
// Detached first, and ends with the next status.
func abandonsNone(in *rollout.Input) { delete(in.App.Annotations, v1alpha1.AnnotationAbandon) }

// waitsForGrace reports whether time alone will change the status.
func waitsForGrace(in rollout.Input) bool {
	return !in.App.DeletionTimestamp.IsZero() &&
		slices.ContainsFunc(in.App.Status.Clusters, func(row v1alpha1.ClusterStatus) bool { return row.Phase == v1alpha1.ClusterDetached })
}

// The generators below produce every possible input. They use few names, generations and times, so
// that these coincide often. rapid draws the first value of a list most often, so the first value
// is the usual one.

var (
	anyTime  = rapid.SampledFrom([]metav1.Time{before, ago(2 * time.Hour), ago(30 * time.Second), ago(29 * time.Second)})
	anyCount = rapid.Int32Range(0, 3)

	anyInput = rapid.Custom(func(t *rapid.T) rollout.Input {
		in := given()
		for _, cluster := range []string{"a", "b", "c", "d"} {
			anyCluster(t, cluster, &in)
		}
		rapid.SampledFrom([]func(*rollout.Input){
			func(*rollout.Input) {},
			deleting,
			planError(errors.New("no")),
			func(in *rollout.Input) { deleting(in); planError(errors.New("no"))(in) },
			suspended,
		}).Draw(t, "besides")(&in)
		rapid.SampledFrom([]func(*rollout.Input){
			func(*rollout.Input) {},
			func(*rollout.Input) {},
			annotated(v1alpha1.AnnotationAbandon, "a,c"),
			annotated(v1alpha1.AnnotationAcceptRemovals, "2@2"),
			annotated(v1alpha1.AnnotationAcceptRemovals, "all"),
		}).Draw(t, "annotated")(&in)
		rapid.SampledFrom([]func(*rollout.Input){
			func(*rollout.Input) {},
			divided(4),
			autoscaling(2, 6),
			func(in *rollout.Input) { divided(4)(in); autoscaling(2, 6)(in) },
		}).Draw(t, "counts")(&in)
		if rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "orphans") {
			in.App.Spec.DeletionPolicy = v1alpha1.DeletionOrphan
		}
		if rapid.Bool().Draw(t, "has a past") {
			in = then(in, anyChange(t))
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
	if rapid.IntRange(0, 3).Draw(t, cluster+" has a row") > 0 {
		has(anyRow(t, cluster))(in)
	}
	if rapid.SampledFrom([]bool{true, true, true, false}).Draw(t, cluster+" is a member") {
		rapid.SampledFrom([]func(string) func(*rollout.Input){chosen, notChosen}).Draw(t, cluster+" is chosen or not")(cluster)(in)
		if in.Plan.Find(cluster).Chosen() {
			least := anyCount.Draw(t, cluster+"'s least")
			decide(in, placement.Decision{
				Cluster: cluster, Replicas: anyCount.Draw(t, cluster+" is to run"),
				MinReplicas: least, MaxReplicas: rapid.SampledFrom([]int32{0, least, 3}).Draw(t, cluster+"'s most"),
			})
		}
		if rapid.SampledFrom([]bool{false, false, true}).Draw(t, cluster+" is unreachable") {
			unreachable(cluster)(in)
		}
		if rapid.SampledFrom([]bool{false, false, true}).Draw(t, cluster+" was let go of") {
			remembering(cluster)(in)
		}
	}
	if rapid.SampledFrom([]bool{true, true, false}).Draw(t, cluster+" was seen") {
		saw(cluster, anyObservation(t, cluster))(in)
	}
}

func anyRow(t *rapid.T, cluster string) v1alpha1.ClusterStatus {
	phase := rapid.SampledFrom([]v1alpha1.ClusterPhase{
		v1alpha1.ClusterReady, v1alpha1.ClusterRemoving, v1alpha1.ClusterDetached, v1alpha1.ClusterUnknown,
		v1alpha1.ClusterFailed, v1alpha1.ClusterPending, v1alpha1.ClusterProgressing,
	}).Draw(t, cluster+"'s phase")
	planned := rapid.SampledFrom([]int64{generation, generation - 1}).Draw(t, cluster+"'s generation")
	row := row(cluster, phase,
		plannedFor(planned, anyCount.Draw(t, cluster+" runs")),
		tookOn(planned-rapid.Int64Range(0, 1).Draw(t, cluster+" lags")),
		running(anyCount.Draw(t, cluster+"'s pods"), anyCount.Draw(t, cluster+"'s ready pods")),
		since(anyTime.Draw(t, cluster+" since")),
	)
	if rapid.IntRange(0, 3).Draw(t, cluster+" has an autoscaler") == 3 {
		least := anyCount.Draw(t, cluster+" has at least")
		scaled(least, max(least, 1)+anyCount.Draw(t, cluster+" has at most"))(&row)
	}
	if phase != v1alpha1.ClusterReady {
		because("Because", "of something")(&row)
		row.Surging = rapid.Bool().Draw(t, cluster+" is arriving")
	}
	if rapid.IntRange(0, 3).Draw(t, cluster+" is reached") == 3 {
		reachedAt("192.0.2.1")(&row)
	}
	return row
}

// anyObservation returns an observation that delivery can make.
func anyObservation(t *rapid.T, cluster string) observation.Observation {
	if rapid.IntRange(0, 5).Draw(t, cluster+" was found") == 5 {
		return found
	}
	phase := rapid.SampledFrom([]v1alpha1.ClusterPhase{
		v1alpha1.ClusterReady, v1alpha1.ClusterRemoving, v1alpha1.ClusterFailed, v1alpha1.ClusterProgressing,
	}).Draw(t, cluster+" was seen to be")
	seen := seen(phase,
		answering(rapid.SampledFrom([]int64{generation, generation - 1}).Draw(t, cluster+" answered")),
		to(anyCount.Draw(t, cluster+" answered to")),
		counting(anyCount.Draw(t, cluster+"'s counted pods"), anyCount.Draw(t, cluster+"'s counted ready pods")),
	)
	seen.UID = rapid.SampledFrom([]types.UID{uid, uid, "uid-2"}).Draw(t, cluster+" was seen for")
	if phase == v1alpha1.ClusterRemoving && rapid.SampledFrom([]bool{true, true, false}).Draw(t, cluster+" is gone") {
		goneSince(anyTime.Draw(t, cluster+" is gone since"))(&seen)
		return seen
	}
	if phase != v1alpha1.ClusterReady {
		saying("Because", "it was seen")(&seen)
	}
	return seen
}

// almostGone adds an observation that no object is left on the cluster of an entry. It is valid
// evidence, or evidence with one defect.
func almostGone(t *rapid.T, row v1alpha1.ClusterStatus, in *rollout.Input) {
	answer := seen(v1alpha1.ClusterRemoving, goneSince(row.LastTransitionTime))
	switch rapid.IntRange(0, 5).Draw(t, row.Name+" is almost gone") {
	case 0: // The answer is evidence if the entry was Removing.
	case 1:
		answer.UID = "uid-2"
	case 2:
		answer.GoneSince = metav1.NewTime(row.LastTransitionTime.Add(time.Second))
	case 3:
		answer.GoneSince = metav1.Time{}
	case 4:
		if in.Members[row.Name] != nil {
			unreachable(row.Name)(in)
		}
	case 5:
		return
	}
	saw(row.Name, answer)(in)
}

// anyChange returns a change that happens after the status was written.
func anyChange(t *rapid.T) func(*rollout.Input) {
	cluster := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "what changes")
	change := rapid.SampledFrom([]func(*rollout.Input){
		notChosen(cluster),
		chosen(cluster),
		unreachable(cluster),
		saw(cluster, anyObservation(t, cluster)),
		restarted,
		deleting,
		func(in *rollout.Input) { in.App.Generation++ },
		func(in *rollout.Input) {
			delete(in.Members, cluster)
			decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNoSuchCluster})
		},
	}).Draw(t, "how")
	return func(in *rollout.Input) { later(time.Minute)(in); change(in) }
}
