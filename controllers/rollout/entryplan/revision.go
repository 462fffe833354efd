package entryplan

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// startRevision sets the revision from which the rollout of an entry starts. An older version of
// Fleetwright, which has no configuration, wrote entries without a revision: what they have applied is
// the first revision. Entries that wait for their configuration have none either, and run nothing. So do
// those of clusters from which the AppService was being removed.
func (in *Input) startRevision(e *Plan) {
	if e.Previous == nil || e.Previous.Phase == v1alpha1.ClusterRemoving || in.IsRecovering {
		return
	}
	isFirst := in.App.Status.Rollout.Revision == 0 && len(in.App.Status.Configuration) == 0 && e.Previous.Revision == 0 && e.Previous.Generation == in.App.Generation
	if isFirst && IsPlanned(*e.Previous) {
		e.Entry.Revision = in.Revision
	}
}

// forgetRevision removes the revision of an entry whose cluster is chosen again while the AppService is
// being removed from it, also while the AppService is suspended: nothing is known to run there.
func (e *Plan) forgetRevision() {
	if e.Previous != nil && e.Previous.Phase == v1alpha1.ClusterRemoving {
		e.Entry.Revision, e.Entry.Stage, e.Entry.StageRevision = 0, "", 0
		e.ForgetAvailability()
	}
}

// ForgetAvailability removes from an entry what is recorded about its availability with a revision.
func (e *Plan) ForgetAvailability() {
	e.Entry.UnavailableSince, e.Entry.ReadySince, e.Entry.AvailableReplicas = nil, nil, 0
	e.Entry.Impaired, e.Entry.Returned = false, false
}

// Reassign sets the desired revision of an entry. What was observed before is no answer to it, even if
// it was observed with this revision: the cluster may have got another one in between, or lost the workload.
func (e *Plan) Reassign(revision int64) {
	e.Entry.Revision = revision
	e.Entry.ObservedGeneration = min(e.Entry.ObservedGeneration, e.Entry.Generation-1)
	e.IsReassigned = true
	wasElsewhere := e.Previous != nil && (e.Previous.Revision != revision || e.Previous.Phase == v1alpha1.ClusterRemoving)
	if e.Seen != nil && e.Seen.Revision == revision && wasElsewhere {
		e.Seen, e.IsStale = nil, true
	}
	e.Refresh(e.Entry)
}

// IsTakenBack reports whether delivery has found that a restore of the hub has taken back the
// revision that the entry has.
func (e *Plan) IsTakenBack() bool {
	return e.Seen != nil && e.Seen.IsTakenBack && e.Seen.StampedRevision != 0 && e.Seen.Revision == e.Entry.Revision
}

// HubBehind returns the state on a cluster that this hub has never planned, or nil. The state is
// remembered while the cluster cannot be observed.
func (e *Plan) HubBehind() *v1alpha1.HubBehind {
	switch {
	case e.Seen != nil && e.Seen.HubBehind != nil:
		return e.Seen.HubBehind
	case e.Previous != nil:
		return e.Previous.HubBehind
	}
	return nil
}

// StaleObservations returns the clusters whose observations must be dropped.
func StaleObservations(plans []Plan) []string {
	var names []string
	for i := range plans {
		if plans[i].IsStale {
			names = append(names, plans[i].Entry.Name)
		}
	}
	return names
}
