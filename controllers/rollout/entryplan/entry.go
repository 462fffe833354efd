package entryplan

import (
	"cmp"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// DetachedGrace is how long a deletion waits for a Detached cluster. A MemberCluster that was
// deleted by hand is created again well within this time.
const DetachedGrace = 30 * time.Second

// planEntry returns the entry plan of one cluster, or nil if its entry ends. mostLeaving and
// highestPlacement return the results of mostReplicasLeaving and highestPlacement.
func (in *Input) planEntry(name string, mostLeaving func() int32, highestPlacement func() int64) *Plan {
	e := Plan{in: in, Entry: v1alpha1.ClusterStatus{Name: name}, Previous: in.App.Status.Cluster(name), Seen: in.observationOf(name), Member: in.Members[name]}
	if e.Previous != nil {
		e.Entry = *e.Previous
	}
	var entry *v1alpha1.ClusterStatus
	switch decision := in.Plan.Find(name); {
	case e.Member == nil:
		entry = in.detachedEntry(e.Entry, e.Previous)
	case in.App.IsDeleting(), in.IsRemoving(e.Entry):
		if in.App.IsDeleting() {
			e.Entry.Transition = v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemoving, Cause: v1alpha1.CauseDeletion}
		}
		entry = in.removingEntry(e.Entry, e.Previous, e.Seen, e.Member)
	default:
		e.IsLeaving = in.HasPlan && !decision.Chosen()
		e.Entry.Placement = in.placementNumber(&e, decision, highestPlacement)
		e.Entry.Transition = in.departure(&e, decision)
		e.Entry.Surging = e.Entry.Surging || !e.IsLeaving && e.isFirstAssignment()
		e.forgetRevision()
		if in.HasPlan && decision.Chosen() && !in.App.IsSuspended() {
			in.assign(&e, decision, mostLeaving)
		}
		entry = in.runningEntry(e.Entry, e.Previous, e.Seen, e.Member)
	}
	if entry == nil {
		return nil
	}
	e.Entry = *entry
	return &e
}

// IsRemoving reports whether an entry is Removing and remains Removing.
func (in *Input) IsRemoving(entry v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterRemoving && (in.App.IsDeleting() || !in.HasPlan || !in.Plan.Find(entry.Name).Chosen())
}

// detachedEntry returns the entry of a cluster whose MemberCluster is deleted or has no Secret. Its
// workload keeps running. The entry ends (the result is nil) when the AppService has been deleted
// for DetachedGrace or the cluster is abandoned. If a removal was decided and the MemberCluster
// still exists, the MemberCluster must have a tombstone first.
// docs/decisions/detached-clusters-do-not-count.md says why.
func (in *Input) detachedEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus) *v1alpha1.ClusterStatus {
	if in.IsDetachmentOver(previous) && !in.NeedsTombstone(previous) {
		return nil
	}
	if previous.Phase != v1alpha1.ClusterDetached {
		entry.Message = "the cluster's Secret is gone; its workload is left running" + lastKnown(previous)
	}
	entry.LastKnownPhase = lastKnownPhase(previous)
	entry.Phase, entry.Reason = v1alpha1.ClusterDetached, v1alpha1.ReasonClusterDetached
	return &entry
}

// IsDetachmentOver reports whether the entry of a Detached cluster no longer waits for the cluster
// to return.
func (in *Input) IsDetachmentOver(entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterDetached &&
		(in.Abandoned[entry.Name] || in.App.IsDeleting() && in.Now.Sub(entry.LastTransitionTime.Time) >= DetachedGrace)
}

// NeedsTombstone reports whether a Detached cluster may return with a workload whose removal was
// decided, and its MemberCluster has no tombstone yet. While the hub is behind, nothing is removed,
// so rollout.Input.TombstonesToAdd does not return such a cluster.
func (in *Input) NeedsTombstone(entry *v1alpha1.ClusterStatus) bool {
	member := in.Secretless[entry.Name]
	return member != nil && !in.App.OrphansWorkloads() && !member.IsAbandoned(in.App.UID) &&
		(in.App.IsDeleting() || entry.Transition.Type == v1alpha1.TransitionRemoving)
}

// removingEntry returns the entry of a cluster that the AppService is being removed from, or nil if
// the entry ends. It ends when delivery has confirmed, in answer to this entry, that no object is
// left, or when the removal is abandoned. An entry that leaves the plan keeps its generation.
func (in *Input) removingEntry(entry v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *observation.Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	if in.App.IsDeleting() {
		entry.Generation = in.App.Generation
	}
	entry.Phase, entry.Surging, entry.LastKnownPhase = v1alpha1.ClusterRemoving, false, ""
	switch {
	case in.isRemovalAbandoned(previous, member):
		return nil
	case !member.IsReady():
		entry.LastKnownPhase = v1alpha1.ClusterRemoving
		entry.Reason, entry.Message = v1alpha1.ReasonClusterUnreachable, "the removal continues when the cluster can be reached; see MemberCluster "+member.Name
		if command := AbandonCommand(in.App, []string{member.Name}); command != "" {
			entry.Message = wording.Bound(entry.Message + "; to stop waiting: " + command)
		}
	case seen != nil && ConfirmsRemoval(*seen, previous):
		return nil
	case seen != nil && seen.Phase == v1alpha1.ClusterRemoving:
		entry.Reason, entry.Message = cmp.Or(seen.Reason, v1alpha1.ReasonRemoving), wording.Bound(seen.Message)
		setCounts(&entry, *seen)
	case seen == nil && previous.Phase == v1alpha1.ClusterRemoving && previous.LastKnownPhase == "":
		// There is no observation since the start: the entry keeps its reason and message.
	default:
		entry.Reason, entry.Message = v1alpha1.ReasonRemoving, ""
	}
	return &entry
}

// isRemovalAbandoned reports whether a Removing entry ends because its cluster is abandoned, and
// either has a tombstone or keeps its workload.
func (in *Input) isRemovalAbandoned(previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) bool {
	return previous.Phase == v1alpha1.ClusterRemoving && in.Abandoned[previous.Name] && (in.App.OrphansWorkloads() || member.IsAbandoned(in.App.UID))
}

// ConfirmsRemoval reports whether an observation confirms, in answer to this entry, that no object
// is left.
func ConfirmsRemoval(seen observation.Observation, entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase == v1alpha1.ClusterRemoving && !seen.GoneSince.IsZero() && seen.GoneSince.Equal(&entry.LastTransitionTime)
}

// BeginRemoval makes the entry Removing. It keeps its transition and the cause in it.
func (e *Plan) BeginRemoval() {
	transition := e.Entry.Transition
	transition.Type = v1alpha1.TransitionRemoving
	e.Entry = *e.in.removingEntry(e.Entry, e.Previous, e.Seen, e.Member)
	e.Entry.Transition, e.IsLeaving = transition, false
}
