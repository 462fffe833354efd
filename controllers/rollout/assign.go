package rollout

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// assignNew assigns a revision to the clusters without one: the target where its stage, or the
// rollout, is completed, and otherwise the stable revision. In the first rollout, they wait for
// their turn, and so they do in a stage that needs approval and that the stable revision never passed.
func (r *revisions) assignNew() {
	for _, c := range r.clusters {
		if !r.isNew(c) || !r.startsWithStable(c) {
			continue
		}
		isDone := r.status.Phase == v1alpha1.RolloutCompleted || r.isRollingOut() && c.stage.status.Phase == v1alpha1.StageCompleted
		if isDone && !r.in.IsRevisionMissing {
			r.assign(c, r.status.Revision)
		} else {
			r.assign(c, r.stable())
		}
	}
}

// startWithStable assigns the stable revision to the clusters without a revision that need not wait for
// the target, where a stage could not assign it. The result of the stage does not depend on them, so this
// is decided before the result.
func (r *revisions) startWithStable(clusters []*stagedCluster) {
	for _, c := range clusters {
		if r.isNew(c) && r.startsWithStable(c) {
			r.assign(c, r.stable())
		}
	}
}

// isNew reports whether a cluster has no revision and may get one.
func (r *revisions) isNew(c *stagedCluster) bool {
	return !r.isFrozen && !r.isUnread(c) && c.entry.Revision == 0 && c.entry.Phase != v1alpha1.ClusterUnknown
}

// isUnread reports whether a cluster has no revision, and gets none because its content cannot be read.
func (r *revisions) isUnread(c *stagedCluster) bool {
	return r.in.AreRevisionsUnread && c.entry.Revision == 0
}

// stable returns the stable revision, or 0 if there is none to return to.
func (r *revisions) stable() int64 {
	if r.in.IsStableMissing && r.status.StableRevision != r.in.Revision {
		return 0
	}
	return r.status.StableRevision
}

// isMissing reports whether no cluster may get a revision, because a snapshot of it is missing, or
// because it is not known yet which snapshots exist.
func (r *revisions) isMissing(revision int64) bool {
	areUnlisted := r.in.Configuration != nil && r.in.Configuration.AreUnlisted
	return areUnlisted || r.in.IsRevisionMissing && revision == r.in.Revision
}

// assign sets the desired revision of a cluster in a rollout.
func (r *revisions) assign(c *stagedCluster, revision int64) {
	e := &c.entry
	if revision == 0 || e.Revision == revision || r.isMissing(revision) || r.isUnread(c) || r.isRefused(c, revision) {
		return
	}
	wasStable := e.Revision != 0 && e.Revision == r.status.StableRevision
	e.Impaired = !c.isServing() && (e.Impaired || wasStable)
	e.Returned = e.Revision != 0 && revision == r.status.StableRevision && !r.isKnownUnready(c)
	e.UnavailableSince, e.ReadySince, e.AvailableReplicas = &r.in.Now, nil, 0
	e.Stage = ""
	if c.stage.Limit != nil && revision == r.status.Revision {
		e.Stage = c.stage.Name
	}
	r.in.reassign(c.entryPlan, revision)
	c.isConfirmed = c.isConfirmed && !c.isStale
}

// reassign sets the desired revision of an entry. What was observed before is no answer to it, even if
// it was observed with this revision: the cluster may have got another one in between.
func (in Input) reassign(e *entryPlan, revision int64) {
	e.entry.Revision = revision
	e.entry.ObservedGeneration = min(e.entry.ObservedGeneration, e.entry.Generation-1)
	e.isReassigned = true
	if e.seen != nil && e.seen.Revision == revision && e.previous != nil && e.previous.Revision != revision {
		e.seen, e.isStale = nil, true
	}
	in.refresh(e, e.entry)
}

// staleObservations returns the clusters whose observations must be dropped.
func staleObservations(plans []entryPlan) []string {
	var names []string
	for i := range plans {
		if plans[i].isStale {
			names = append(names, plans[i].entry.Name)
		}
	}
	return names
}
