package rollout

// vacancies returns how many available clusters of a stage may become unavailable, so that no more
// than maxUnavailable of the stage are. All clusters that are not available count, as in a Deployment.
// If the rollout has made none of them unavailable, one vacancy remains: otherwise dead clusters would
// hold up every rollout.
func (r *revisions) vacancies(s *stage) int {
	held, down := 0, 0
	for _, c := range s.clusters {
		switch {
		case r.holdsPlace(c):
			held++
		case r.isUnavailable(c) && !c.isEmpty():
			down++
		}
	}
	return max(s.maxUpdating()-held-down, 1-held)
}

// isUnavailable reports whether a cluster that has a revision is known not to be available.
func (r *revisions) isUnavailable(c *stagedCluster) bool {
	return c.entry.Revision != 0 && (c.entry.UnavailableSince != nil || r.isKnownUnready(c))
}

// holdsPlace reports whether a cluster is unavailable because of the rollout: it is updating, it has lost
// ready pods with the target, it was lost with the target in a stage that goes on, or it is in transit.
func (r *revisions) holdsPlace(c *stagedCluster) bool {
	if c.entry.Revision != r.status.Revision {
		return r.isInTransit(c)
	}
	switch r.stateOf(c) {
	case isUpdating, isDegraded:
		return true
	case isLost:
		return c.stage.keepsLost()
	}
	return false
}

// isInTransit reports whether the rollout has made a cluster unavailable that does not have the target,
// and its deadline has not passed. After a cluster has got the stable revision, it is in transit only
// while it may become available by itself.
func (r *revisions) isInTransit(c *stagedCluster) bool {
	e := &c.entry
	if e.Revision == r.status.StableRevision {
		return r.isGoingBack(c)
	}
	return e.Revision != 0 && e.UnavailableSince != nil && !e.Impaired && !r.isLate(c)
}
