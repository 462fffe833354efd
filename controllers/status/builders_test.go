package status_test

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

const (
	uid        = "uid-1"
	generation = 2
)

var (
	now    = metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	before = ago(time.Hour)
)

func ago(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }

// given returns an input with an AppService of generation 2. It has only the entries, plan, members
// and observations that the case sets.
func given(changes ...func(*rollout.Input)) rollout.Input {
	in := rollout.Input{
		App:          &v1alpha1.AppService{},
		Plan:         placement.Plan{},
		Members:      map[string]*v1alpha1.MemberCluster{},
		Observations: map[string]observation.Observation{},
		Now:          now,
	}
	in.App.Namespace, in.App.Name, in.App.UID, in.App.Generation = "shop", "web", uid, generation
	for _, change := range changes {
		change(&in)
	}
	return in
}

// then returns the input after its status was written and the changes were made.
func then(in rollout.Input, changes ...func(*rollout.Input)) rollout.Input {
	in.App = in.App.DeepCopy()
	in.App.Status = statusOf(in)
	for _, change := range changes {
		change(&in)
	}
	return in
}

func later(d time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Now = metav1.NewTime(in.Now.Add(d)) }
}

// restarted removes all observations, as after a restart.
func restarted(in *rollout.Input) { in.Observations = map[string]observation.Observation{} }

func deleting(in *rollout.Input) { in.App.DeletionTimestamp = &before }

func suspended(in *rollout.Input) { in.App.Spec.Suspend = true }

func orphaning(in *rollout.Input) { in.App.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }

func annotated(key, value string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Annotations = map[string]string{key: value} }
}

// remembering sets a tombstone of the AppService in the status of a member.
func remembering(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Members[cluster].Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: uid}}
	}
}

func planError(err error) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Plan, in.PlanError = nil, err }
}

// has adds entries to the status of the AppService.
func has(rows ...v1alpha1.ClusterStatus) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Status.Clusters = append(in.App.Status.Clusters, rows...) }
}

// chosen plans two replicas for a member that is Ready.
func chosen(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Replicas: 2})
		in.Members[cluster] = member(cluster, metav1.ConditionTrue)
	}
}

// notChosen adds a member that is Ready and not in the plan.
func notChosen(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonSelectorMismatch})
		in.Members[cluster] = member(cluster, metav1.ConditionTrue)
	}
}

func decide(in *rollout.Input, decision placement.Decision) {
	in.Plan = slices.DeleteFunc(slices.Clone(in.Plan), func(d placement.Decision) bool { return d.Cluster == decision.Cluster })
	in.Plan = append(in.Plan, decision)
	slices.SortFunc(in.Plan, func(a, b placement.Decision) int {
		if a.Cluster < b.Cluster {
			return -1
		}
		return 1
	})
}

// unreachable sets a member that is not Ready, so that it cannot be observed.
func unreachable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Members[cluster] = member(cluster, metav1.ConditionFalse) }
}

func saw(cluster string, seen observation.Observation) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Observations[cluster] = seen }
}

func member(name string, ready metav1.ConditionStatus) *v1alpha1.MemberCluster {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
	return member
}

// row returns an entry of a cluster that has run two replicas of the present generation for an
// hour.
func row(cluster string, phase v1alpha1.ClusterPhase, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	row := v1alpha1.ClusterStatus{
		Name:               cluster,
		Phase:              phase,
		Generation:         generation,
		Replicas:           2,
		ObservedGeneration: generation,
		ReadyReplicas:      2,
		LastTransitionTime: before,
	}
	if phase == v1alpha1.ClusterUnknown || phase == v1alpha1.ClusterDetached {
		row.LastKnownPhase = v1alpha1.ClusterReady
	}
	for _, change := range changes {
		change(&row)
	}
	return row
}

func since(t metav1.Time) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.LastTransitionTime = t }
}

func because(reason, message string) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Reason, row.Message = reason, message }
}

// plannedFor sets the generation, and the number of replicas, that the cluster is to run.
func plannedFor(generation int64, replicas int32) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Generation, row.Replicas = generation, replicas }
}

// tookOn sets the generation that the cluster has taken on.
func tookOn(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.ObservedGeneration = generation }
}

// moves sets the transition of an entry.
func moves(transition v1alpha1.TransitionType, cause v1alpha1.TransitionCause) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) {
		row.Transition = v1alpha1.ClusterTransition{Type: transition, Cause: cause}
	}
}

// seen returns the observation of two planned replicas of the present generation, with two pods
// ready.
func seen(phase v1alpha1.ClusterPhase, changes ...func(*observation.Observation)) observation.Observation {
	seen := observation.Observation{UID: uid, Generation: generation, Planned: 2, Phase: phase, Applied: generation, Replicas: 2, ReadyReplicas: 2}
	for _, change := range changes {
		change(&seen)
	}
	return seen
}

func saying(reason, message string) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Reason, seen.Message = reason, message }
}

func counting(pods, ready int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Replicas, seen.ReadyReplicas = pods, ready }
}

func answering(generation int64) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Generation, seen.Applied = generation, generation }
}

// goneSince sets an observation that nothing is left on the cluster. The time identifies the
// Removing entry that the observation refers to.
func goneSince(t metav1.Time) func(*observation.Observation) {
	return func(seen *observation.Observation) {
		seen.Applied, seen.Replicas, seen.ReadyReplicas, seen.GoneSince = 0, 0, 0, t
	}
}

// statusOf returns the status that the planner would write.
func statusOf(in rollout.Input) v1alpha1.AppServiceStatus {
	return status.Compute(in, rollout.Plan(in))
}

// divided sets a policy by which the clusters run this number of replicas together.
func divided(total int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Spec.Replicas = &total
		in.App.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided}
	}
}

// autoscaling sets bounds within which the members scale the pods.
func autoscaling(least, most int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: &least, MaxReplicas: most}
	}
}

// Letters stand for the states of the clusters a, b, c …, in that order.
const (
	runs     = 'r' // chosen and Ready
	edited   = 'e' // no longer chosen since an edit
	drifts   = 'd' // no longer chosen, without an edit
	going    = 'G' // being removed since an edit
	drifting = 'D' // being removed, without an edit
	dead     = 'U' // being removed since an edit; unreachable
	darkness = 'u' // no longer chosen since an edit; unreachable
	begun    = 'R' // expected: Removing
	waits    = 'w' // expected: RemovalPending
	held     = 'h' // expected: RemovalNeedsApproval
	unknown  = '?' // expected: Unknown
)

// clusters returns an input with one cluster for each letter. Generation 1 is from before the last
// edit, and generation 2 is the present generation.
func clusters(letters string) rollout.Input {
	in := given()
	for i, letter := range letters {
		name := nameOf(i)
		switch letter {
		case runs:
			chosen(name)(&in)
			has(row(name, v1alpha1.ClusterReady))(&in)
			saw(name, seen(v1alpha1.ClusterReady))(&in)
		case edited, darkness:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterReady, plannedFor(1, 2), tookOn(1)))(&in)
			saw(name, seen(v1alpha1.ClusterReady, answering(1)))(&in)
		case drifts:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterReady))(&in)
			saw(name, seen(v1alpha1.ClusterReady))(&in)
		case going, dead:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterRemoving, plannedFor(1, 2), tookOn(1), because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseEdit)))(&in)
		case drifting:
			notChosen(name)(&in)
			has(row(name, v1alpha1.ClusterRemoving, because(v1alpha1.ReasonRemoving, ""), moves(v1alpha1.TransitionRemoving, v1alpha1.CauseDrift)))(&in)
		}
		if letter == dead || letter == darkness {
			unreachable(name)(&in)
			delete(in.Observations, name)
		}
	}
	return in
}

func nameOf(i int) string { return string(rune('a' + i)) }

func with(in rollout.Input, changes ...func(*rollout.Input)) rollout.Input {
	for _, change := range changes {
		change(&in)
	}
	return in
}

const (
	lastKnownReady = "MemberCluster east is not Ready; last known: Ready, 2 of 2 replicas ready"
	secretGone     = "the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"
	waitsToRemove  = "the removal continues when the cluster can be reached; see MemberCluster east"
)

// old returns an entry that runs the previous generation.
func old(cluster string, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	return row(cluster, v1alpha1.ClusterReady, append([]func(*v1alpha1.ClusterStatus){plannedFor(1, 3), tookOn(1)}, changes...)...)
}
