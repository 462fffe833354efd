package entryplan

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// pendingScaleDown returns the transition of a cluster that is to be scaled down. One that has started
// without an edit, or is approved, remains so.
func (in *Input) pendingScaleDown(e *Plan) v1alpha1.ClusterTransition {
	before := e.Previous.Transition
	next := v1alpha1.ClusterTransition{Type: v1alpha1.TransitionScaleDownPending, Cause: in.scaleDownCause(e)}
	next.Accepted = before.Accepted && before.Type == next.Type && before.Cause == next.Cause
	return next
}

// scaleDownCause returns CauseEdit if the scale-down follows from an edit, even if it has been
// pending since an earlier edit, and CauseClustersChanged otherwise.
func (in *Input) scaleDownCause(e *Plan) v1alpha1.TransitionCause {
	before := e.Previous.Transition
	isPending := before.Type == v1alpha1.TransitionScaleDownPending && before.Cause == v1alpha1.CauseEdit
	if isPending || in.isReplicasEdited(e.Previous) {
		return v1alpha1.CauseEdit
	}
	return v1alpha1.CauseClustersChanged
}

// isReplicasEdited reports whether a user has edited a field that sets replicas since an entry was
// planned. Any other edit expresses no intent to scale down. An entry that was not planned with the last
// status, for example while the AppService was suspended, may have missed such an edit. A status of an
// older version does not have the hash, so every edit counts.
func (in *Input) isReplicasEdited(previous *v1alpha1.ClusterStatus) bool {
	if previous.Generation == 0 || previous.Generation == in.App.Generation {
		return false
	}
	planned := in.App.Status.Placement.ReplicasHash
	return previous.Generation != in.App.Status.ObservedGeneration || planned == "" || planned != lineage.ReplicasHash(in.App)
}

// IsScaleDown reports whether a decision scales an entry down. The bounds of an entry do not count
// if spec.autoscaling is no longer set.
func IsScaleDown(app *v1alpha1.AppService, entry v1alpha1.ClusterStatus, decision placement.Decision) bool {
	if app.Spec.Autoscaling == nil {
		return decision.Replicas < entry.Replicas
	}
	return decision.MinReplicas < entry.MinReplicas || decision.MaxReplicas < entry.MaxReplicas ||
		decision.MaxReplicas == 0 && decision.Replicas < entry.Replicas
}

// isCut reports whether a cluster is to be scaled down without an edit, where each cluster runs all
// replicas: an override has started or stopped to match. With externallyScaled, replicas is only the
// initial number, unless it is 0. What runs on a cluster that was recovered is not compared.
func (in *Input) isCut(e *Plan, decision placement.Decision) bool {
	if in.App.DividesReplicas() || decision.MaxReplicas > 0 || decision.Replicas >= e.Entry.Replicas || in.scaleDownCause(e) != v1alpha1.CauseClustersChanged {
		return false
	}
	return decision.Replicas == 0 || !in.App.Spec.ExternallyScaled && e.Previous.Generation != 0
}
