// Package rollouttest has builders for tests of packages that plan AppServices: inputs of
// rollout.Plan, entries of status.clusters, and observations. Only tests may import it.
//
//	in := NewInput(Chosen("east"), WithEntries(Entry("east", v1alpha1.ClusterPending)))
//	got := StatusOf(With(in, Observed("east", Observation(v1alpha1.ClusterReady))))
//
// Each builder starts from a usual value: the AppService shop/web of generation 2 with two replicas
// per cluster. The other arguments change what a case is about. Tests import the package with a
// dot, because a qualifier before each of ten builders would hide what a line of a table is about.
package rollouttest

import (
	"cmp"
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
	// UID is the UID of the AppService.
	UID = "uid-1"
	// Generation is the generation of the AppService.
	Generation = 2
)

var (
	// Now is the time of an input.
	Now = metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	// AnHourAgo is the time since when an entry has its phase.
	AnHourAgo = Ago(time.Hour)
)

// Ago returns the time that is this long before Now.
func Ago(age time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-age)) }

// NewInput returns an input with an AppService. It has only the entries, decisions, members and
// observations that the changes add.
func NewInput(changes ...func(*rollout.Input)) rollout.Input {
	in := rollout.Input{
		App:          &v1alpha1.AppService{},
		Plan:         placement.Plan{},
		Members:      map[string]*v1alpha1.MemberCluster{},
		Observations: map[string]observation.Observation{},
		Now:          Now,
	}
	in.App.Namespace, in.App.Name, in.App.UID, in.App.Generation = "shop", "web", UID, Generation
	return With(in, changes...)
}

// With returns the input after the changes.
func With(in rollout.Input, changes ...func(*rollout.Input)) rollout.Input {
	for _, change := range changes {
		change(&in)
	}
	return in
}

// Next returns the input after its status was written, and after the changes.
func Next(in rollout.Input, changes ...func(*rollout.Input)) rollout.Input {
	in.App = in.App.DeepCopy()
	in.App.Status = StatusOf(in)
	return With(in, changes...)
}

// StatusOf returns the status that the planner writes for an input.
func StatusOf(in rollout.Input) v1alpha1.AppServiceStatus {
	return status.Compute(in, rollout.Plan(in))
}

// AtRevision sets the revision of the spec.
func AtRevision(number int64) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Revision = number }
}

// Later advances the time of the input.
func Later(d time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Now = metav1.NewTime(in.Now.Add(d)) }
}

// Restarted removes all observations, as a restart of the operator does.
func Restarted(in *rollout.Input) { in.Observations = map[string]observation.Observation{} }

// Deleting marks the AppService as being deleted.
func Deleting(in *rollout.Input) { in.App.DeletionTimestamp = &AnHourAgo }

// Suspended sets spec.suspend.
func Suspended(in *rollout.Input) { in.App.Spec.Suspend = true }

// Orphaning sets the deletion policy Orphan.
func Orphaning(in *rollout.Input) { in.App.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }

// Annotated sets the only annotation of the AppService.
func Annotated(key, value string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Annotations = map[string]string{key: value} }
}

// AcceptRemovals sets the annotation that approves removals.
func AcceptRemovals(value string) func(*rollout.Input) {
	return Annotated(v1alpha1.AnnotationAcceptRemovals, value)
}

// Divided makes the clusters divide this number of replicas.
func Divided(total int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Spec.Replicas = &total
		in.App.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided}
	}
}

// Autoscaling makes the members scale the workload within bounds.
func Autoscaling(least, most int32) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: &least, MaxReplicas: most}
	}
}

// WithLimit sets spec.placement.limit.
func WithLimit(n int32) func(*rollout.Input) {
	return func(in *rollout.Input) { in.App.Spec.Placement = &v1alpha1.Placement{Limit: &n} }
}

// RemovedWithoutEdit sets the counter of removals that started without an edit this long ago.
func RemovedWithoutEdit(n int32, age time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Status.Removals.WithoutEdit = []v1alpha1.RemovalCount{{StartTime: Ago(age), Count: n}}
	}
}

// WithPlanError replaces the plan by an error.
func WithPlanError(err error) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Plan, in.PlanError = nil, err }
}

// WithEntries adds entries to the status of the AppService.
func WithEntries(entries ...v1alpha1.ClusterStatus) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.App.Status.Clusters = append(in.App.Status.Clusters, entries...)
		in.App.Status.SortClusters()
	}
}

// Observed sets the observation of a cluster.
func Observed(cluster string, seen observation.Observation) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Observations[cluster] = seen }
}

// SetDecision sets the decision of the plan for a cluster.
func SetDecision(in *rollout.Input, decision placement.Decision) {
	in.Plan = slices.DeleteFunc(slices.Clone(in.Plan), func(d placement.Decision) bool { return d.Cluster == decision.Cluster })
	in.Plan = append(in.Plan, decision)
	slices.SortFunc(in.Plan, func(a, b placement.Decision) int { return cmp.Compare(a.Cluster, b.Cluster) })
}

// Chosen adds a Ready member that the plan chooses, with two replicas.
func Chosen(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Replicas: 2})
		Reachable(cluster)(in)
	}
}

// NotChosen adds a Ready member that the plan does not choose.
func NotChosen(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonSelectorMismatch})
		Reachable(cluster)(in)
	}
}

// NotReadyCandidate adds a member that has not been Ready for a minute. The plan would choose it if
// it were Ready.
func NotReadyCandidate(cluster string) func(*rollout.Input) {
	return NotReadyFor(cluster, time.Minute)
}

// NotReadyFor adds a member that has not been Ready for this long. The plan would choose it if it
// were Ready.
func NotReadyFor(cluster string, age time.Duration) func(*rollout.Input) {
	return func(in *rollout.Input) {
		SetDecision(in, placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonClusterNotReady})
		Unreachable(cluster)(in)
		in.Members[cluster].Status.Conditions[0].LastTransitionTime = Ago(age)
	}
}

// Reachable adds a Ready member.
func Reachable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Members[cluster] = NewMember(cluster, metav1.ConditionTrue) }
}

// Unreachable adds a member that is not Ready, so that it cannot be observed.
func Unreachable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Members[cluster] = NewMember(cluster, metav1.ConditionFalse) }
}

// NewMember returns a MemberCluster with a Ready condition.
func NewMember(name string, ready metav1.ConditionStatus) *v1alpha1.MemberCluster {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
	return member
}

// WithTombstone sets a tombstone of the AppService on a member.
func WithTombstone(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Members[cluster].Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: UID}}
	}
}
