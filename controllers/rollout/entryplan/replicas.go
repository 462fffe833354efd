package entryplan

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// isFirstAssignment reports whether the AppService is new on the cluster: it starts from nothing,
// or from a Removing or Detached entry, whose workload was not maintained. An entry that was
// recovered is not new, because its workload was found running.
func (e *Plan) isFirstAssignment() bool {
	return e.Previous == nil || e.Previous.Phase == v1alpha1.ClusterRemoving || e.Previous.Phase == v1alpha1.ClusterDetached
}

// assign sets the decision for a cluster. An increase takes effect at once, a decrease when package
// removal starts it. Replicas move between clusters only where the clusters divide them. Where each
// cluster runs all replicas, an edit changes all clusters in the same way, and nothing waits.
func (in *Input) assign(e *Plan, decision placement.Decision, mostLeaving func() int32) {
	e.Entry.Generation, e.Entry.Weight = in.App.Generation, decision.Weight
	in.startRevision(e)
	if in.mayWait(e, decision) {
		e.LowerTarget = &decision
		e.Entry.Transition = in.pendingScaleDown(e)
		return
	}
	e.Entry.Transition = v1alpha1.ClusterTransition{}
	previousDesired, previousReplicas := DesiredReplicas(e.Entry), e.Entry.Replicas
	SetReplicas(&e.Entry, decision)
	e.Entry.Surging = e.Entry.Surging || in.App.DividesReplicas() && e.Previous != nil && e.Previous.Generation > 0 && DesiredReplicas(e.Entry) > previousDesired
	isSameGeneration := e.Previous != nil && e.Previous.Generation == in.App.Generation // a later edit sets the initial replicas again
	if (e.Entry.Surging || isSameGeneration) && !in.App.DividesReplicas() && (in.App.Spec.ExternallyScaled || decision.MaxReplicas > 0) {
		e.Entry.Replicas = initialReplicas(e, decision, previousReplicas, mostLeaving)
	}
}

// mayWait reports whether a cluster is to be scaled down and may have to wait. A cluster that is
// being removed keeps no replicas.
func (in *Input) mayWait(e *Plan, decision placement.Decision) bool {
	if e.Previous == nil || e.Previous.Phase == v1alpha1.ClusterRemoving {
		return false
	}
	return in.App.DividesReplicas() && IsScaleDown(in.App, e.Entry, decision) || in.isCut(e, decision)
}

// initialReplicas returns the initial replicas of an autoscaled workload on a cluster: the largest
// number that it has on a cluster that leaves the plan, because the load of that cluster moves
// here. The number does not change until the next edit. mostLeaving returns the result of
// mostReplicasLeaving.
func initialReplicas(e *Plan, decision placement.Decision, previousReplicas int32, mostLeaving func() int32) int32 {
	initial := previousReplicas
	if e.isFirstAssignment() {
		initial = mostLeaving()
	}
	if decision.MaxReplicas > 0 {
		initial = min(initial, decision.MaxReplicas)
	}
	return max(initial, decision.Replicas)
}

// mostReplicasLeaving returns the largest number of replicas that a cluster which leaves the plan
// has.
func (in *Input) mostReplicasLeaving() int32 {
	var most int32
	for i := range in.App.Status.Clusters {
		entry := &in.App.Status.Clusters[i]
		if IsPlanned(*entry) && !in.Plan.Find(entry.Name).Chosen() {
			most = max(most, entry.CurrentReplicas())
		}
	}
	return most
}

// SetReplicas sets the desired replicas and bounds of an entry.
func SetReplicas(entry *v1alpha1.ClusterStatus, decision placement.Decision) {
	entry.Replicas, entry.MinReplicas, entry.MaxReplicas = decision.Replicas, decision.MinReplicas, decision.MaxReplicas
}

// DesiredReplicas returns the number of replicas of an entry that must be ready. With an
// autoscaler, it is the minimum.
func DesiredReplicas(entry v1alpha1.ClusterStatus) int32 {
	if entry.MaxReplicas > 0 {
		return entry.MinReplicas
	}
	return entry.Replicas
}

// IsFullyReady reports whether all desired replicas are ready. A Deployment that is Ready with
// fewer pods has an autoscaler that the member itself owns, which would never create all desired
// replicas.
func IsFullyReady(entry v1alpha1.ClusterStatus) bool {
	return entry.ReadyReplicas >= DesiredReplicas(entry) || entry.MaxReplicas == 0 && entry.CurrentReplicas() < entry.Replicas && entry.ReadyReplicas >= entry.CurrentReplicas()
}
