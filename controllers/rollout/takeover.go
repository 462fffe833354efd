package rollout

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// isTakenBack reports whether delivery has found that a restore of the hub has taken back the
// revision that the entry has.
func (e *entryPlan) isTakenBack() bool {
	return e.seen != nil && e.seen.IsTakenBack && e.seen.StampedRevision != 0 && e.seen.Revision == e.entry.Revision
}

// takeOver lets entries take over the revisions that their clusters run, where a restore of the hub
// has taken back what it had assigned: the target, or the stable revision. If a cluster had lost
// the target that way, the hub has forgotten a failure or an abort. Then the rollout is halted, and
// a person decides.
// docs/decisions/an-entry-takes-over-what-its-cluster-runs.md says why.
func (r *revisions) takeOver() {
	var lost []*stagedCluster
	isRollingOut := r.isRollingOut()
	for _, c := range r.clusters {
		if !c.isTakenBack() {
			continue
		}
		if isRollingOut && c.entry.Revision == r.status.Revision {
			lost = append(lost, c)
		}
		r.takeOverBy(c, c.seen.StampedRevision)
	}
	if len(lost) == 0 {
		return
	}
	r.status.FailedRevision = r.status.Revision
	r.status.FailedStage = lost[0].stage.Name
	r.status.FailedClusters, r.status.FailedReason = firstNames(namesOf(lost)), v1alpha1.ReasonTakenBack
	r.status.ReturnFailedClusters, r.status.ReturnFailedReason = nil, ""
	r.setPhase(v1alpha1.RolloutHalted)
}

// takeOverBy sets the revision of an entry to the one that its cluster runs. It is not known whether that
// is available there. Revisions other than the target and the stable one are not taken over: the entry
// keeps what the hub wants.
func (r *revisions) takeOverBy(c *stagedCluster, revision int64) {
	e := &c.entry
	isTarget := revision == r.status.Revision && r.status.Phase != v1alpha1.RolloutRollingBack && r.status.Phase != v1alpha1.RolloutRolledBack
	if !isTarget && revision != r.status.StableRevision {
		return
	}
	e.UnavailableSince, e.ReadySince, e.AvailableReplicas = &r.in.Now, nil, 0
	e.Impaired, e.Returned, e.Stage = false, false, ""
	if isTarget && c.stage.Limit != nil {
		e.Stage = c.stage.Name
	}
	r.in.reassign(c.entryPlan, revision)
}
