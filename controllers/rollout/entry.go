package rollout

import (
	"cmp"
	"fmt"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// detachedGrace is how long a deletion waits for a Detached cluster. A MemberCluster that was deleted by hand is created again well
// within it.
const detachedGrace = 30 * time.Second

// entryPlan is the next entry of one cluster, before scale-downs and removals are decided, and the facts that decide them.
type entryPlan struct {
	entry    v1alpha1.ClusterStatus
	previous *v1alpha1.ClusterStatus // nil for a new one
	seen     *observation.Observation
	member   *v1alpha1.MemberCluster // nil when it is gone
	leaves   bool                    // it is no longer in the plan, and its removal has not begun
	target   *placement.Decision     // what the cluster is to run in the end, when that is less than the entry says; else nil
	blockers []string                // the clusters that must become ready before its removal begins
}

// planEntry returns the entry plan of one cluster, or nil if its entry ends.
func (in Input) planEntry(name string) *entryPlan {
	e := entryPlan{entry: v1alpha1.ClusterStatus{Name: name}, previous: in.App.Status.Cluster(name), seen: in.ObservationOf(name), member: in.Members[name]}
	if e.previous != nil {
		e.entry = *e.previous
	}
	var entry *v1alpha1.ClusterStatus
	switch decision := in.Plan.Find(name); {
	case e.member == nil:
		entry = in.detachedEntry(e.entry, e.previous)
	case in.IsDeleting(), in.isRemoving(e.entry):
		if in.IsDeleting() {
			e.entry.Transition = v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemoving, Cause: v1alpha1.CauseDeletion}
		}
		entry = in.removingEntry(e.entry, e.previous, e.seen, e.member)
	default:
		e.leaves = in.PlanError == nil && !decision.Chosen()
		e.entry.Transition = in.departure(&e, decision)
		e.entry.Surging = e.entry.Surging || !e.leaves && e.isFirstAssignment()
		if in.PlanError == nil && decision.Chosen() && !in.IsSuspended() {
			in.assign(&e, decision)
		}
		entry = in.runningEntry(e.entry, e.previous, e.seen, e.member)
	}
	if entry == nil {
		return nil
	}
	e.entry = *entry
	return &e
}

// isRemoving reports whether an entry is Removing and stays so.
func (in Input) isRemoving(entry v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterRemoving && (in.IsDeleting() || in.PlanError != nil || !in.Plan.Find(entry.Name).Chosen())
}

// detachedEntry returns the entry of a cluster whose MemberCluster is gone or has no Secret. Its workload is left running. The entry ends
// when the AppService has been deleted for detachedGrace or the cluster is abandoned: with a tombstone first, where a MemberCluster
// can keep one for a removal that was decided.
func (in Input) detachedEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus) *v1alpha1.ClusterStatus {
	if in.isDetachmentOver(previous) && !in.needsTombstone(previous) {
		return nil
	}
	if previous.Phase != v1alpha1.ClusterDetached {
		entry.Message = "the cluster's Secret is gone; its workload is left running" + lastKnown(previous)
	}
	entry.LastKnownPhase = lastKnownPhase(previous)
	entry.Phase, entry.Reason = v1alpha1.ClusterDetached, v1alpha1.ReasonClusterDetached
	return &entry
}

// removingEntry returns the entry of a cluster that the AppService is removed from, or nil if it ends: when delivery has confirmed, in
// answer to this entry, that nothing is left, or when the removal is abandoned. An entry that leaves the plan keeps its generation.
func (in Input) removingEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *observation.Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	if in.IsDeleting() {
		entry.Generation = in.App.Generation
	}
	entry.Phase, entry.Surging, entry.LastKnownPhase = v1alpha1.ClusterRemoving, false, ""
	switch {
	case in.isRemovalAbandoned(previous, member):
		return nil
	case !member.IsReady():
		entry.LastKnownPhase = v1alpha1.ClusterRemoving
		entry.Reason, entry.Message = v1alpha1.ReasonClusterUnreachable, "it is removed when the cluster can be reached; see MemberCluster "+member.Name
	case seen != nil && ConfirmsRemoval(*seen, previous):
		return nil
	case seen != nil && seen.Phase == v1alpha1.ClusterRemoving:
		entry.Reason, entry.Message = cmp.Or(seen.Reason, v1alpha1.ReasonRemoving), BoundMessage(seen.Message)
		setCounts(&entry, *seen)
	case seen == nil && previous.Phase == v1alpha1.ClusterRemoving && previous.LastKnownPhase == "":
		// Nothing was seen since the start: it is what the entry says already.
	default:
		entry.Reason, entry.Message = v1alpha1.ReasonRemoving, ""
	}
	return &entry
}

// ConfirmsRemoval reports whether an observation confirms, in answer to this entry, that nothing is left.
func ConfirmsRemoval(seen observation.Observation, entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterRemoving && !seen.GoneSince.IsZero() && seen.GoneSince.Equal(&entry.LastTransitionTime)
}

// runningEntry returns the entry of a cluster that is to run the AppService. Without an observation the entry stays as it is, unless it is to
// run something else now. An entry that is Ready is not surging.
func (in Input) runningEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *observation.Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	if !member.IsReady() {
		return unknownEntry(entry, previous, member)
	}
	switch {
	case seen != nil:
		applyObservation(&entry, *seen)
	case previous == nil || previous.Phase == v1alpha1.ClusterPending || previous.Phase == v1alpha1.ClusterRemoving || previous.Phase == v1alpha1.ClusterDetached:
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterPending, v1alpha1.ReasonPending, ""
	case previous.Phase == v1alpha1.ClusterReady && (entry.ObservedGeneration < entry.Generation || entry.Replicas != previous.Replicas || entry.Surging),
		previous.Phase == v1alpha1.ClusterFailed && in.App.Status.IsHubBehind(),
		in.explainsRemoval(previous): // until it is seen, or explained again
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
	}
	entry.Surging = entry.Surging && entry.Phase != v1alpha1.ClusterReady
	if entry.Phase != v1alpha1.ClusterUnknown { // it is Unknown until it is observed again
		entry.LastKnownPhase = ""
	}
	return &entry
}

// explainsRemoval reports whether an entry says of its removal why that waits, and nothing of its workload.
func (in Input) explainsRemoval(previous *v1alpha1.ClusterStatus) bool {
	switch previous.Transition.Type {
	case v1alpha1.TransitionRemovalPending, v1alpha1.TransitionRemovalNeedsApproval:
		return previous.Phase == v1alpha1.ClusterProgressing && !in.IsSuspended() && in.PlanError == nil
	}
	return false
}

// applyObservation sets the observed part of an entry. An answer to another generation, or to another number of replicas, sets only
// the counts.
func applyObservation(entry *v1alpha1.ClusterStatus, seen observation.Observation) {
	setCounts(entry, seen)
	entry.ObservedGeneration = max(entry.ObservedGeneration, seen.Applied)
	older := seen.Found || seen.Generation < entry.Generation || seen.Planned != entry.Replicas
	early := seen.Phase == v1alpha1.ClusterReady && (entry.ObservedGeneration < entry.Generation || entry.Surging && !isFullyReady(*entry))
	if older || early || seen.Phase == v1alpha1.ClusterRemoving {
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
		return
	}
	entry.Phase, entry.Reason, entry.Message = seen.Phase, seen.Reason, BoundMessage(seen.Message)
}

// setCounts sets the counts and addresses that were observed.
func setCounts(entry *v1alpha1.ClusterStatus, seen observation.Observation) {
	entry.ReadyReplicas, entry.UnreadyReplicas = seen.ReadyReplicas, max(0, seen.Replicas-seen.ReadyReplicas)
	entry.Addresses = seen.Addresses
}

// unknownEntry returns the entry of a cluster that cannot be observed. It keeps what was known last.
func unknownEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	entry.LastKnownPhase = lastKnownPhase(previous)
	if previous == nil || previous.Phase != v1alpha1.ClusterUnknown {
		entry.Message = fmt.Sprintf("MemberCluster %s is not Ready%s", member.Name, lastKnown(previous))
	}
	entry.Phase, entry.Reason = v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable
	return &entry
}

// lastKnownPhase returns the phase in which a cluster was observed last that can no longer be observed.
func lastKnownPhase(previous *v1alpha1.ClusterStatus) v1alpha1.ClusterPhase {
	switch {
	case previous == nil:
		return v1alpha1.ClusterPending
	case previous.Phase == v1alpha1.ClusterUnknown, previous.Phase == v1alpha1.ClusterDetached:
		return previous.LastKnownPhase
	}
	return previous.Phase
}

// lastKnown explains what was known of a cluster that can no longer be observed. An entry of an older version does not say.
func lastKnown(previous *v1alpha1.ClusterStatus) string {
	switch phase := lastKnownPhase(previous); phase {
	case "":
		return ""
	case v1alpha1.ClusterPending:
		return "; nothing was seen there yet"
	default:
		return fmt.Sprintf("; last known: %s, %d of %d replicas ready", phase, previous.ReadyReplicas, previous.Replicas)
	}
}
