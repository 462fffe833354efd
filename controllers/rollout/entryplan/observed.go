package entryplan

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// Refresh recomputes the observed part of an entry plan after its replicas have changed.
func (e *Plan) Refresh(entry v1alpha1.ClusterStatus) {
	e.Entry = *e.in.runningEntry(entry, e.Previous, e.Seen, e.Member)
}

// runningEntry returns the entry of a cluster that is to run the AppService. Without an observation
// the entry does not change, unless its desired state has changed. An entry that is Ready is not
// surging.
func (in *Input) runningEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *observation.Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	if !member.IsReady() {
		return unknownEntry(entry, previous, member)
	}
	switch {
	case seen != nil && previous != nil && previous.Phase == v1alpha1.ClusterFailed && seen.Revision == 0 && isOfOtherRevision(*seen, entry):
		// An older version of Fleetwright wrote the entry, without a revision. It has one now, and stays
		// as it is until delivery answers that.
	case seen != nil:
		applyObservation(&entry, *seen)
	case previous == nil || previous.Phase == v1alpha1.ClusterPending || previous.Phase == v1alpha1.ClusterRemoving || previous.Phase == v1alpha1.ClusterDetached:
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterPending, v1alpha1.ReasonPending, ""
	case previous.Phase == v1alpha1.ClusterReady && (entry.ObservedGeneration < entry.Generation || entry.Replicas != previous.Replicas || entry.Surging),
		previous.Phase == v1alpha1.ClusterFailed && previous.Revision != 0 && previous.Revision != entry.Revision,
		previous.Phase == v1alpha1.ClusterFailed && in.App.Status.IsHubBehind(),
		in.explainsRemoval(previous): // until the next observation or explanation
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
	}
	entry.Surging = entry.Surging && entry.Phase != v1alpha1.ClusterReady
	if entry.Phase != v1alpha1.ClusterUnknown { // an entry stays Unknown until the cluster is observed again
		entry.LastKnownPhase = ""
	}
	return &entry
}

// explainsRemoval reports whether the reason and message of an entry explain a pending removal
// instead of describing the workload.
func (in *Input) explainsRemoval(previous *v1alpha1.ClusterStatus) bool {
	return AwaitsRemoval(*previous) && previous.Phase == v1alpha1.ClusterProgressing && !in.App.IsSuspended() && in.HasPlan
}

// applyObservation sets the observed part of an entry. An observation that answers another plan (it
// was reported without an entry, or for an earlier generation, another revision or another number
// of replicas) sets only the counts. The same applies if it says Ready before the surging replicas
// are ready. While the pods are unlisted, what the entry says about them stays.
func applyObservation(entry *v1alpha1.ClusterStatus, seen observation.Observation) {
	setCounts(entry, seen)
	keepsReason := seen.PodsUnlisted && seen.Phase == entry.Phase && entry.ObservedGeneration == entry.Generation && v1alpha1.IsOfPods(entry.Reason)
	applied := seen.Applied
	if isOfOtherRevision(seen, *entry) {
		applied = min(applied, entry.Generation-1)
	}
	entry.ObservedGeneration = max(entry.ObservedGeneration, applied)
	readyTooSoon := seen.Phase == v1alpha1.ClusterReady && (entry.ObservedGeneration < entry.Generation || entry.Surging && !IsFullyReady(*entry))
	if !answers(seen, *entry) || readyTooSoon || seen.Phase == v1alpha1.ClusterRemoving {
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
		return
	}
	if !keepsReason {
		entry.Phase, entry.Reason, entry.Message = seen.Phase, seen.Reason, wording.Bound(seen.Message)
	}
}

// answers reports whether an observation answers the desired state of an entry.
func answers(seen observation.Observation, entry v1alpha1.ClusterStatus) bool {
	return !seen.Found && seen.Generation >= entry.Generation && !isOfOtherRevision(seen, entry) && seen.Planned == entry.Replicas
}

// AwaitsAnswer reports whether the cluster can be reached, and no observation answers its entry.
func (e *Plan) AwaitsAnswer() bool {
	return e.Member != nil && e.Member.IsReady() && IsPlanned(e.Entry) && (e.Seen == nil || !answers(*e.Seen, e.Entry))
}

// isOfOtherRevision reports whether an observation is about another revision than that of the entry.
// An older version of Fleetwright wrote entries without a revision: what has applied their generation
// has the first one.
func isOfOtherRevision(seen observation.Observation, entry v1alpha1.ClusterStatus) bool {
	return seen.Revision != entry.Revision && (seen.Revision != 0 || entry.ObservedGeneration < entry.Generation)
}

// setCounts sets the observed counts and addresses.
func setCounts(entry *v1alpha1.ClusterStatus, seen observation.Observation) {
	entry.ReadyReplicas, entry.UnreadyReplicas = seen.ReadyReplicas, max(0, seen.Replicas-seen.ReadyReplicas)
	entry.ObservedAvailableReplicas = seen.AvailableReplicas
	entry.Addresses = seen.Addresses
}

// unknownEntry returns the entry of a cluster that cannot be observed. It keeps the last known
// values.
func unknownEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	entry.LastKnownPhase = lastKnownPhase(previous)
	if previous == nil || previous.Phase != v1alpha1.ClusterUnknown {
		entry.Message = fmt.Sprintf("MemberCluster %s is not Ready%s", member.Name, lastKnown(previous))
	}
	entry.Phase, entry.Reason = v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable
	return &entry
}

// lastKnownPhase returns the last observed phase of a cluster that can no longer be observed.
func lastKnownPhase(previous *v1alpha1.ClusterStatus) v1alpha1.ClusterPhase {
	switch {
	case previous == nil:
		return v1alpha1.ClusterPending
	case previous.Phase == v1alpha1.ClusterUnknown, previous.Phase == v1alpha1.ClusterDetached:
		return previous.LastKnownPhase
	}
	return previous.Phase
}

// lastKnown returns the part of a message that describes the last known state of a cluster that can
// no longer be observed. It returns "" for an entry of an older version, which has no last known
// phase.
func lastKnown(previous *v1alpha1.ClusterStatus) string {
	switch phase := lastKnownPhase(previous); phase {
	case "":
		return ""
	case v1alpha1.ClusterPending:
		return "; the workload has not been observed yet"
	default:
		return fmt.Sprintf("; last known: %s, %d of %d replicas ready", phase, previous.ReadyReplicas, previous.Replicas)
	}
}
