package rollout

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// isFirstAssignment reports whether the AppService starts on the cluster from nothing, or from a state that nobody looked after. An entry
// that was recovered does not: its workload was found running.
func (e *entryPlan) isFirstAssignment() bool {
	return e.previous == nil || e.previous.Phase == v1alpha1.ClusterRemoving || e.previous.Phase == v1alpha1.ClusterDetached
}

// assign sets what was decided for a cluster: an increase at once, a decrease later in scaleDown. Only a division moves replicas
// from one cluster to another. Where each cluster runs all of them, an edit changes all clusters alike, and nothing waits.
func (in Input) assign(e *entryPlan, decision placement.Decision) {
	e.entry.Generation, e.entry.Weight = in.App.Generation, decision.Weight
	if in.mayWait(e, decision) {
		e.target = &decision
		e.entry.Transition = v1alpha1.ClusterTransition{Type: v1alpha1.TransitionScaleDownPending, Cause: in.scaleDownCause(e)}
		return
	}
	e.entry.Transition = v1alpha1.ClusterTransition{}
	had, began := desiredReplicas(e.entry), e.entry.Replicas
	setReplicas(&e.entry, decision)
	e.entry.Surging = e.entry.Surging || in.IsDivided() && e.previous != nil && e.previous.Generation > 0 && desiredReplicas(e.entry) > had
	settled := e.previous != nil && e.previous.Generation == in.App.Generation // a later edit says anew what it begins with
	if (e.entry.Surging || settled) && !in.IsDivided() && (in.App.Spec.ExternallyScaled || decision.MaxReplicas > 0) {
		e.entry.Replicas = in.initialReplicas(e, decision, began)
	}
}

// mayWait reports whether the cluster is to run less, and may have to wait with that. One that is being removed keeps nothing.
func (in Input) mayWait(e *entryPlan, decision placement.Decision) bool {
	if e.previous == nil || e.previous.Phase == v1alpha1.ClusterRemoving {
		return false
	}
	return in.IsDivided() && in.isScaleDown(e.entry, decision) || in.isEmptied(e, decision)
}

// initialReplicas returns with how many replicas an autoscaled workload starts on a cluster: as many as the clusters have that it leaves,
// because their load moves here. The number stays until the next edit.
func (in Input) initialReplicas(e *entryPlan, decision placement.Decision, began int32) int32 {
	if e.isFirstAssignment() {
		began = 0
		for _, entry := range in.App.Status.Clusters {
			if IsPlanned(entry) && !in.Plan.Find(entry.Name).Chosen() {
				began = max(began, entry.CurrentReplicas())
			}
		}
	}
	if decision.MaxReplicas > 0 {
		began = min(began, decision.MaxReplicas)
	}
	return max(began, decision.Replicas)
}

// setReplicas sets what an entry is to run.
func setReplicas(entry *v1alpha1.ClusterStatus, decision placement.Decision) {
	entry.Replicas, entry.MinReplicas, entry.MaxReplicas = decision.Replicas, decision.MinReplicas, decision.MaxReplicas
}

// desiredReplicas returns how many replicas of an entry must be ready: with an autoscaler, its minimum.
func desiredReplicas(entry v1alpha1.ClusterStatus) int32 {
	if entry.MaxReplicas > 0 {
		return entry.MinReplicas
	}
	return entry.Replicas
}

// isFullyReady reports whether as many replicas are ready as are desired. A Deployment that is Ready with fewer pods has an autoscaler
// of the member's own, which would never let it have as many.
func isFullyReady(entry v1alpha1.ClusterStatus) bool {
	return entry.ReadyReplicas >= desiredReplicas(entry) || entry.MaxReplicas == 0 && entry.CurrentReplicas() < entry.Replicas && entry.ReadyReplicas >= entry.CurrentReplicas()
}

// knownReadyReplicas returns how many replicas of an entry are known to be ready: none while the cluster cannot be observed.
func knownReadyReplicas(entry v1alpha1.ClusterStatus) int32 {
	if entry.Phase == v1alpha1.ClusterUnknown || entry.Phase == v1alpha1.ClusterPending {
		return 0
	}
	return entry.ReadyReplicas
}

// shortfall is what is not ready yet on clusters of the plan.
type shortfall struct {
	clusters       []string // where replicas are to become ready
	unready        int64    // how many replicas are to become ready
	readyOnLeaving int64    // how many are ready on the clusters that leave, which stay until all others are ready
}

// shortfall returns what is not ready yet on the clusters that count. A cluster that is itself to run less counts with what it is to run in
// the end: it does not wait for itself.
func (in Input) shortfall(plans []entryPlan, counts func(*entryPlan) bool) shortfall {
	var f shortfall
	for i := range plans {
		e := &plans[i]
		switch {
		case !IsPlanned(e.entry):
		case e.leaves:
			f.readyOnLeaving += int64(min(knownReadyReplicas(e.entry), e.entry.Replicas))
		case counts(e):
			final := e.entry
			if e.target != nil {
				setReplicas(&final, *e.target)
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
