package stages

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// assigner gives clusters another revision.
type assigner struct {
	judge *judge
	hold  Hold
}

// assign sets the desired revision of a cluster in a rollout.
func (a *assigner) assign(c *cluster, revision int64) {
	if !a.mayAssign(c, revision) {
		return
	}
	e := &c.Entry
	wasStable := e.Revision != 0 && e.Revision == a.judge.status.StableRevision
	isJoining := e.Revision == 0 && revision != a.judge.status.Revision // no rollout is the cause
	isImpaired := !c.isServing() && (e.Impaired || wasStable || isJoining)
	isReturned := e.Revision != 0 && revision == a.judge.status.StableRevision && !isImpaired && !a.judge.clock.isKnownUnready(c)
	c.ForgetAvailability()
	e.UnavailableSince, e.Impaired, e.Returned = &a.judge.clock.now, isImpaired, isReturned
	if revision == a.judge.status.Revision {
		c.recordPlace(revision)
	}
	c.Reassign(revision)
	c.isConfirmed = c.isConfirmed && !c.IsStale
}

// assignAtOnce sets the desired revision of a cluster without spec.rollout. Its entry has no record of
// its availability then.
func (a *assigner) assignAtOnce(c *cluster, revision int64) {
	c.ForgetAvailability()
	if a.mayAssign(c, revision) {
		c.Reassign(revision)
	}
}

// mayAssign reports whether a cluster may get a revision that it does not have.
func (a *assigner) mayAssign(c *cluster, revision int64) bool {
	contents := a.judge.contents
	return a.hold != Frozen && revision != 0 && c.Entry.Revision != revision &&
		!contents.isMissing(revision) && !contents.isUnread(c) && !contents.isRefused(c, revision)
}

// update assigns the target to clusters of a stage. New clusters first get the stable revision, if there is
// one: a cluster that never ran any pods is no evidence against the target.
func (a *assigner) update(s *stage) {
	a.startWithStable(s.clusters)
	for _, c := range s.next() {
		a.assign(c, a.judge.status.Revision)
	}
}

// isNew reports whether a cluster has no revision and may get one.
func (a *assigner) isNew(c *cluster) bool {
	return a.hold != Frozen && !a.judge.contents.isUnread(c) && c.Entry.Revision == 0 && c.Entry.Phase != v1alpha1.ClusterUnknown
}

// startsWithStable reports whether a cluster without a revision gets the stable one at once. It does not
// if its stage needs approval and the stable revision never went through that stage.
func (a *assigner) startsWithStable(c *cluster) bool {
	s := c.stage
	switch {
	case s.Approval == "":
		return true
	case a.judge.status.Phase == v1alpha1.RolloutCompleted:
		return s.status.Phase == v1alpha1.StageCompleted
	}
	return !s.status.StableSkipped
}

// startWithStable assigns the stable revision to the clusters without a revision. In the first rollout, there
// is none, and they wait for their turn. So they do in a stage that needs approval and that the stable
// revision never passed.
func (a *assigner) startWithStable(clusters []*cluster) {
	for _, c := range clusters {
		if a.isNew(c) && a.startsWithStable(c) {
			a.assign(c, a.judge.contents.stable())
		}
	}
}
