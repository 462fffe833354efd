package rollout

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// isFirstAssignment reports whether the AppService is new on the cluster: it starts from nothing,
// or from a Removing or Detached entry, whose workload was not maintained. An entry that was
// recovered is not new, because its workload was found running.
func (e *entryPlan) isFirstAssignment() bool {
	return e.previous == nil || e.previous.Phase == v1alpha1.ClusterRemoving || e.previous.Phase == v1alpha1.ClusterDetached
}

// assign sets the decision for a cluster. An increase takes effect at once, a decrease later in
// scaleDown. Replicas move between clusters only where the clusters divide them. Where each cluster
// runs all replicas, an edit changes all clusters in the same way, and nothing waits.
func (in Input) assign(e *entryPlan, decision placement.Decision, mostLeaving func() int32) {
	e.entry.Generation, e.entry.Weight = in.App.Generation, decision.Weight
	in.startRevision(e)
	if in.mayWait(e, decision) {
		e.lowerTarget = &decision
		e.entry.Transition = in.pendingScaleDown(e)
		return
	}
	e.entry.Transition = v1alpha1.ClusterTransition{}
	previousDesired, previousReplicas := desiredReplicas(e.entry), e.entry.Replicas
	setReplicas(&e.entry, decision)
	e.entry.Surging = e.entry.Surging || in.IsDivided() && e.previous != nil && e.previous.Generation > 0 && desiredReplicas(e.entry) > previousDesired
	isSameGeneration := e.previous != nil && e.previous.Generation == in.App.Generation // a later edit sets the initial replicas again
	if (e.entry.Surging || isSameGeneration) && !in.IsDivided() && (in.App.Spec.ExternallyScaled || decision.MaxReplicas > 0) {
		e.entry.Replicas = initialReplicas(e, decision, previousReplicas, mostLeaving)
	}
}

// startRevision sets the revision from which the rollout of an entry starts. An older version of
// Fleetwright, which has no configuration, wrote entries without a revision: what they have applied is
// the first revision. Entries that wait for their configuration have none either, and run nothing. So do
// those of clusters from which the AppService was being removed.
func (in Input) startRevision(e *entryPlan) {
	if e.previous == nil || e.previous.Phase == v1alpha1.ClusterRemoving || in.isRecovering() {
		return
	}
	isFirst := in.App.Status.Rollout.Revision == 0 && len(in.App.Status.Configuration) == 0 && e.previous.Revision == 0 && e.previous.Generation == in.App.Generation
	if isFirst && IsPlanned(*e.previous) {
		e.entry.Revision = in.Revision
	}
}

// forgetRevision removes the revision of an entry whose cluster is chosen again while the AppService is
// being removed from it, also while the AppService is suspended: nothing is known to run there.
func (e *entryPlan) forgetRevision() {
	if e.previous != nil && e.previous.Phase == v1alpha1.ClusterRemoving {
		e.entry.Revision, e.entry.UnavailableSince, e.entry.ReadySince, e.entry.AvailableReplicas, e.entry.Stage = 0, nil, nil, 0, ""
		e.entry.Impaired, e.entry.Returned = false, false
	}
}

// mayWait reports whether a cluster is to be scaled down and may have to wait. A cluster that is
// being removed keeps no replicas.
func (in Input) mayWait(e *entryPlan, decision placement.Decision) bool {
	if e.previous == nil || e.previous.Phase == v1alpha1.ClusterRemoving {
		return false
	}
	return in.IsDivided() && in.isScaleDown(e.entry, decision) || in.isCut(e, decision)
}

// initialReplicas returns the initial replicas of an autoscaled workload on a cluster: the largest
// number that it has on a cluster that leaves the plan, because the load of that cluster moves
// here. The number does not change until the next edit. mostLeaving returns the result of
// mostReplicasLeaving.
func initialReplicas(e *entryPlan, decision placement.Decision, previousReplicas int32, mostLeaving func() int32) int32 {
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
func (in Input) mostReplicasLeaving() int32 {
	var most int32
	for i := range in.App.Status.Clusters {
		entry := &in.App.Status.Clusters[i]
		if IsPlanned(*entry) && !in.Plan.Find(entry.Name).Chosen() {
			most = max(most, entry.CurrentReplicas())
		}
	}
	return most
}

// setReplicas sets the desired replicas and bounds of an entry.
func setReplicas(entry *v1alpha1.ClusterStatus, decision placement.Decision) {
	entry.Replicas, entry.MinReplicas, entry.MaxReplicas = decision.Replicas, decision.MinReplicas, decision.MaxReplicas
}

// desiredReplicas returns the number of replicas of an entry that must be ready. With an
// autoscaler, it is the minimum.
func desiredReplicas(entry v1alpha1.ClusterStatus) int32 {
	if entry.MaxReplicas > 0 {
		return entry.MinReplicas
	}
	return entry.Replicas
}

// isFullyReady reports whether all desired replicas are ready. A Deployment that is Ready with
// fewer pods has an autoscaler that the member itself owns, which would never create all desired
// replicas.
func isFullyReady(entry v1alpha1.ClusterStatus) bool {
	return entry.ReadyReplicas >= desiredReplicas(entry) || entry.MaxReplicas == 0 && entry.CurrentReplicas() < entry.Replicas && entry.ReadyReplicas >= entry.CurrentReplicas()
}

// knownReadyReplicas returns the number of replicas of an entry that are known to be ready, which
// is 0 while the cluster cannot be observed.
func knownReadyReplicas(entry v1alpha1.ClusterStatus) int32 {
	if entry.Phase == v1alpha1.ClusterUnknown || entry.Phase == v1alpha1.ClusterPending {
		return 0
	}
	return entry.ReadyReplicas
}

// shortfall describes the replicas that are not ready yet on clusters of the plan.
type shortfall struct {
	clusters       []string // clusters with replicas that must become ready
	unready        int64    // number of replicas that must become ready
	readyOnLeaving int64    // number of ready replicas on leaving clusters, which stay until all others are ready
}

// shortfall returns the replicas that are not ready yet on the clusters for which counts returns
// true. A cluster with a lower target counts with its target, so that it does not wait for itself.
func (in Input) shortfall(plans []entryPlan, counts func(*entryPlan) bool) shortfall {
	var f shortfall
	for i := range plans {
		e := &plans[i]
		switch {
		case !IsPlanned(e.entry):
		case e.isLeaving:
			f.readyOnLeaving += int64(min(knownReadyReplicas(e.entry), e.entry.Replicas))
		case counts(e):
			final := e.entry
			if e.lowerTarget != nil {
				setReplicas(&final, *e.lowerTarget)
			}
			wants := desiredReplicas(final)
			if missing := wants - min(wants, knownReadyReplicas(e.entry)); missing > 0 || e.entry.Surging && wants > 0 {
				f.clusters = append(f.clusters, e.entry.Name)
				f.unready += int64(missing)
			}
		}
	}
	return f
}

// isSurging reports whether the cluster has new replicas that are not all ready.
func isSurging(e *entryPlan) bool { return e.entry.Surging }
