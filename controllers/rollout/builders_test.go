package rollout_test

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

// unlessUnready is the part of a message that says how to remove an AppService from a cluster
// before it is ready on other clusters.
const unlessUnready = "; annotate the AppService with fleetwright.dev/accept-unready=true to end this wait"

func ago(age time.Duration) metav1.Time { return metav1.NewTime(now.Add(-age)) }

// given returns an input: an AppService of generation 2, without entries, plan, members or
// observations except those that the case sets.
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

// then returns the input after its status was written, with further changes.
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

// restarted removes all observations, as a restart does.
func restarted(in *rollout.Input) { in.Observations = map[string]observation.Observation{} }

func deleting(in *rollout.Input) { in.App.DeletionTimestamp = &before }

func suspended(in *rollout.Input) { in.App.Spec.Suspend = true }

func orphaning(in *rollout.Input) { in.App.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }

func annotated(key, value string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Annotations = map[string]string{key: value} }
}

// remembering adds a tombstone of the AppService to a member.
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

// chosen adds a Ready member for which two replicas are planned.
func chosen(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Replicas: 2})
		in.Members[cluster] = member(cluster, metav1.ConditionTrue)
	}
}

// notChosen adds a Ready member that the plan does not choose.
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

// unreachable makes a member one that cannot be observed.
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

// row returns the entry of a cluster that has run two replicas of the current generation for an
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

// running sets the number of pods and the number of ready pods.
func running(pods, ready int32) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.ReadyReplicas, row.UnreadyReplicas = ready, max(0, pods-ready) }
}

// plannedFor sets the generation and the replicas that the cluster is to run.
func plannedFor(generation int64, replicas int32) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.Generation, row.Replicas = generation, replicas }
}

// tookOn sets the generation that the cluster has applied.
func tookOn(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.ObservedGeneration = generation }
}

func neverSeen(row *v1alpha1.ClusterStatus) {
	tookOn(0)(row)
	running(0, 0)(row)
}

func arriving(row *v1alpha1.ClusterStatus) { row.Surging = true }

// moves sets the transition of an entry.
func moves(transition v1alpha1.TransitionType, cause v1alpha1.TransitionCause) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) {
		row.Transition = v1alpha1.ClusterTransition{Type: transition, Cause: cause}
	}
}

func accepted(row *v1alpha1.ClusterStatus) { row.Transition.Accepted = true }

// removedWithoutEdit sets the counter of removals that started without an edit.
func removedWithoutEdit(n int32, age time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Status.Removals.WithoutEdit = []v1alpha1.RemovalCount{{StartTime: ago(age), Count: n}}
	}
}

// accepting annotates the AppService with the removals that are approved.
func accepting(value string) func(*rollout.Input) {
	return annotated(v1alpha1.AnnotationAcceptRemovals, value)
}

// scaled sets the bounds of an autoscaler on an entry.
func scaled(least, most int32) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.MinReplicas, row.MaxReplicas = least, most }
}

// seen returns an observation that answers two replicas of the current generation, with two ready
// pods.
func seen(phase v1alpha1.ClusterPhase, changes ...func(*observation.Observation)) observation.Observation {
	seen := observation.Observation{UID: uid, Generation: generation, Planned: 2, Phase: phase, Applied: generation, Replicas: 2, ReadyReplicas: 2}
	for _, change := range changes {
		change(&seen)
	}
	return seen
}

// found is the observation that delivery reports for objects without an entry.
var found = observation.Observation{UID: uid, Found: true}

func saying(reason, message string) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Reason, seen.Message = reason, message }
}

func counting(pods, ready int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Replicas, seen.ReadyReplicas = pods, ready }
}

func answering(generation int64) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Generation, seen.Applied = generation, generation }
}

// to sets the number of replicas that the observation answers.
func to(planned int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Planned = planned }
}

func ofAnother(seen *observation.Observation) { seen.UID = "uid-2" }

// goneSince makes an observation confirm that no object is left, in answer to the Removing entry
// with this time.
func goneSince(t metav1.Time) func(*observation.Observation) {
	return func(seen *observation.Observation) {
		seen.Applied, seen.Replicas, seen.ReadyReplicas, seen.GoneSince = 0, 0, 0, t
	}
}

// failedFor makes an entry one that has been Failed for this long.
func failedFor(age time.Duration) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) {
		row.Phase, row.Reason, row.LastTransitionTime = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, metav1.NewTime(now.Add(-age))
	}
}

func limitedTo(n int32) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Spec.Placement = &v1alpha1.Placement{Limit: &n} }
}

// notReadyYet adds a cluster that would be chosen if it were Ready.
func notReadyYet(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decide(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonClusterNotReady})
		in.Members[cluster] = member(cluster, metav1.ConditionFalse)
		in.Members[cluster].Status.Conditions[0].LastTransitionTime = ago(time.Minute)
	}
}

// deadFor adds a cluster that would be chosen if it were Ready, and that has not been Ready for
// this long.
func deadFor(cluster string, age time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) {
		notReadyYet(cluster)(in)
		in.Members[cluster].Status.Conditions[0].LastTransitionTime = ago(age)
	}
}

// statusOf returns the status that the planner would write.
func statusOf(in rollout.Input) v1alpha1.AppServiceStatus {
	return status.Compute(in, rollout.Plan(in))
}

// lastSeen sets the last phase in which the cluster was observed.
func lastSeen(phase v1alpha1.ClusterPhase) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.LastKnownPhase = phase }
}
