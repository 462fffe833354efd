package rollout

import (
	"cmp"
	"fmt"
	"sort"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// detachedGrace is how long a deletion waits for a Detached cluster. A MemberCluster that was
// deleted by hand is created again well within this time.
const detachedGrace = 30 * time.Second

// entryPlan is the next entry of one cluster, before scale-downs and removals are decided, with the
// facts for these decisions.
type entryPlan struct {
	entry       v1alpha1.ClusterStatus
	previous    *v1alpha1.ClusterStatus // nil for a new entry
	seen        *observation.Observation
	member      *v1alpha1.MemberCluster // nil if the cluster is not a member
	isLeaving   bool                    // the cluster is no longer in the plan, and its removal has not started
	lowerTarget *placement.Decision     // the final decision for the cluster if it is lower than the entry, otherwise nil
	blockers    []string                // the clusters that must become ready before its removal starts

	isReassigned bool // the cluster gets another revision, so its phase begins now
	isStale      bool // its observation is of an earlier time when the cluster had this revision
	// isReadyRefused is set if the cluster is Ready with what it keeps, and the entry is Failed
	// because pod security refuses another revision there.
	isReadyRefused bool
}

// find returns the plan of a cluster's entry, which must exist. The plans are sorted by name.
func find(plans []entryPlan, name string) *entryPlan {
	i := sort.Search(len(plans), func(i int) bool { return plans[i].entry.Name >= name })
	return &plans[i]
}

// planEntry returns the entry plan of one cluster, or nil if its entry ends. mostLeaving and
// highestPlacement return the results of mostReplicasLeaving and highestPlacement.
func (in Input) planEntry(name string, mostLeaving func() int32, highestPlacement func() int64) *entryPlan {
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
		e.isLeaving = in.PlanError == nil && !decision.Chosen()
		e.entry.Placement = in.placementNumber(&e, decision, highestPlacement)
		e.entry.Transition = in.departure(&e, decision)
		e.entry.Surging = e.entry.Surging || !e.isLeaving && e.isFirstAssignment()
		e.forgetRevision()
		if in.PlanError == nil && decision.Chosen() && !in.IsSuspended() {
			in.assign(&e, decision, mostLeaving)
		}
		entry = in.runningEntry(e.entry, e.previous, e.seen, e.member)
	}
	if entry == nil {
		return nil
	}
	e.entry = *entry
	return &e
}

// isRemoving reports whether an entry is Removing and remains Removing.
func (in Input) isRemoving(entry v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterRemoving && (in.IsDeleting() || in.PlanError != nil || !in.Plan.Find(entry.Name).Chosen())
}

// detachedEntry returns the entry of a cluster whose MemberCluster is deleted or has no Secret. Its
// workload keeps running. The entry ends (the result is nil) when the AppService has been deleted
// for detachedGrace or the cluster is abandoned. If a removal was decided and the MemberCluster
// still exists, the MemberCluster must have a tombstone first.
// docs/decisions/detached-clusters-do-not-count.md says why.
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

// removingEntry returns the entry of a cluster that the AppService is being removed from, or nil if
// the entry ends. It ends when delivery has confirmed, in answer to this entry, that no object is
// left, or when the removal is abandoned. An entry that leaves the plan keeps its generation.
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
		entry.Reason, entry.Message = v1alpha1.ReasonClusterUnreachable, "the removal continues when the cluster can be reached; see MemberCluster "+member.Name
		if command := in.AbandonCommand([]string{member.Name}); command != "" {
			entry.Message = BoundMessage(entry.Message + "; to stop waiting: " + command)
		}
	case seen != nil && ConfirmsRemoval(*seen, previous):
		return nil
	case seen != nil && seen.Phase == v1alpha1.ClusterRemoving:
		entry.Reason, entry.Message = cmp.Or(seen.Reason, v1alpha1.ReasonRemoving), BoundMessage(seen.Message)
		setCounts(&entry, *seen)
	case seen == nil && previous.Phase == v1alpha1.ClusterRemoving && previous.LastKnownPhase == "":
		// There is no observation since the start: the entry keeps its reason and message.
	default:
		entry.Reason, entry.Message = v1alpha1.ReasonRemoving, ""
	}
	return &entry
}

// ConfirmsRemoval reports whether an observation confirms, in answer to this entry, that no object
// is left.
func ConfirmsRemoval(seen observation.Observation, entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterRemoving && !seen.GoneSince.IsZero() && seen.GoneSince.Equal(&entry.LastTransitionTime)
}

// runningEntry returns the entry of a cluster that is to run the AppService. Without an observation
// the entry does not change, unless its desired state has changed. An entry that is Ready is not
// surging.
func (in Input) runningEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *observation.Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
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
func (in Input) explainsRemoval(previous *v1alpha1.ClusterStatus) bool {
	return awaitsRemoval(*previous) && previous.Phase == v1alpha1.ClusterProgressing && !in.IsSuspended() && in.PlanError == nil
}

// awaitsRemoval reports whether the cluster left the plan and its removal has not started.
func awaitsRemoval(entry v1alpha1.ClusterStatus) bool {
	return entry.Transition.Type == v1alpha1.TransitionRemovalPending || entry.Transition.Type == v1alpha1.TransitionRemovalNeedsApproval
}

// applyObservation sets the observed part of an entry. An observation that answers another plan (it
// was reported without an entry, or for an earlier generation, another revision or another number
// of replicas) sets only the counts. The same applies if it says Ready before the surging replicas
// are ready.
func applyObservation(entry *v1alpha1.ClusterStatus, seen observation.Observation) {
	setCounts(entry, seen)
	applied := seen.Applied
	if isOfOtherRevision(seen, *entry) {
		applied = min(applied, entry.Generation-1)
	}
	entry.ObservedGeneration = max(entry.ObservedGeneration, applied)
	readyTooSoon := seen.Phase == v1alpha1.ClusterReady && (entry.ObservedGeneration < entry.Generation || entry.Surging && !isFullyReady(*entry))
	if !answers(seen, *entry) || readyTooSoon || seen.Phase == v1alpha1.ClusterRemoving {
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
		return
	}
	entry.Phase, entry.Reason, entry.Message = seen.Phase, seen.Reason, BoundMessage(seen.Message)
}

// answers reports whether an observation answers the desired state of an entry.
func answers(seen observation.Observation, entry v1alpha1.ClusterStatus) bool {
	return !seen.Found && seen.Generation >= entry.Generation && !isOfOtherRevision(seen, entry) && seen.Planned == entry.Replicas
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
