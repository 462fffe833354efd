package stages

import "slices"

// next returns the clusters of a stage that are to get the target: candidates, one more than are
// available, up to maxUnavailable. Those that are not available anyway come first. Those without pods
// come last, and only one until others prove the target: all of them would start pods at the same time.
// When nothing else is left, broken clusters are tried: otherwise no fix could reach a fleet that is
// broken.
func (s *stage) next() []*cluster {
	t := s.tally()
	var unavailable, available, empty []*cluster
	for _, c := range s.inState(stateCandidate) {
		switch {
		case c.isEmpty():
			empty = append(empty, c)
		case c.Entry.Revision == 0 || s.judge.isUnavailable(c):
			unavailable = append(unavailable, c)
		default:
			available = append(available, c)
		}
	}
	budget := s.budget(t) - t[stateDegraded] - s.unconfirmedWithTarget()
	free := budget - t[stateUpdating]
	freeForEmpty := free
	if t[stateAvailable] == 0 && s.keepsLost() {
		freeForEmpty -= s.emptyWithTarget()
	}
	chosen := firstOf(unavailable, free)
	chosen = slices.Concat(chosen, firstOf(available, min(free-len(chosen), s.vacancies())))
	if areLeft := len(chosen) < len(unavailable)+len(available) || s.awaitsCandidates(); !areLeft {
		chosen = slices.Concat(chosen, firstOf(empty, freeForEmpty-len(chosen)))
	}
	switch {
	case len(chosen)+len(unavailable)+len(available) > 0:
		return chosen
	case t[stateUpdating]+t[stateUnconfirmed] > 0, s.awaitsAnswers():
		return nil
	}
	return firstOf(s.inState(stateBroken), budget-t[stateTrying])
}

// budget returns how many clusters of a stage may be updating at the same time: one more than are
// available, up to maxUnavailable. Until the stage is over or promoted, lost clusters keep their vacancies:
// a revision that cuts its clusters off must not reach one after another.
func (s *stage) budget(t tally) int {
	switch {
	case s.status.Promoted:
		return s.maxUpdating()
	case !s.keepsLost():
		return min(s.maxUpdating(), t[stateAvailable]+1)
	}
	return min(s.maxUpdating(), t[stateAvailable]+1) - t[stateLost]
}

// vacancies returns how many available clusters of a stage may become unavailable, so that no more
// than maxUnavailable of the stage are. All clusters that are not available count, as in a Deployment.
// If the rollout has made none of them unavailable, one vacancy remains: otherwise dead clusters would
// hold up every rollout.
func (s *stage) vacancies() int {
	held, down := 0, 0
	for _, c := range s.clusters {
		switch {
		case s.judge.takesVacancy(c):
			held++
		case s.judge.isUnavailable(c) && !c.isEmpty():
			down++
		}
	}
	return max(s.maxUpdating()-held-down, 1-held)
}

// unconfirmedWithTarget returns how many clusters of a stage have the target and can be reached,
// but were not observed by this process yet. After a restore of the hub, the first of them may show
// that the target was taken back.
func (s *stage) unconfirmedWithTarget() int {
	n := 0
	for _, c := range s.clusters {
		if c.Entry.Revision == s.judge.status.Revision && !c.isConfirmed && s.judge.stateOf(c) == stateUnconfirmed {
			n++
		}
	}
	return n
}

// awaitsCandidates reports whether clusters with pods may become candidates when this process has
// observed them.
func (s *stage) awaitsCandidates() bool {
	return slices.ContainsFunc(s.inState(stateUnconfirmed), func(c *cluster) bool {
		return c.Entry.Revision != s.judge.status.Revision && !c.isEmpty()
	})
}

// awaitsAnswers reports whether clusters have not answered the latest edit yet. They may become candidates.
func (s *stage) awaitsAnswers() bool {
	return slices.ContainsFunc(s.inState(stateRecovering), s.judge.clock.isUnanswered)
}

// emptyWithTarget returns how many clusters of a stage have run no pods with the target, as far as it is
// known: this process may not have observed them yet.
func (s *stage) emptyWithTarget() int {
	n := 0
	for _, c := range s.clusters {
		state := s.judge.stateOf(c)
		if state == stateIdle || state == stateUnconfirmed && c.Entry.Revision == s.judge.status.Revision && c.isEmpty() {
			n++
		}
	}
	return n
}
