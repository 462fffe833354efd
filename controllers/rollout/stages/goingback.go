package stages

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// goingBack is the phase RollingBack, and each phase in which clusters return to the stable revision.
type goingBack struct{ scope }

// rollBack returns the clusters to the stable revision. It is halted while the stable revision fails on
// those that returned, and goes on when they are available. After it is over, clusters that come back
// with another revision return, too. The phase changes only if the stable revision fails on them.
func (p goingBack) rollBack() {
	switch isLeft, isUpdating := p.goBack(); {
	case !isLeft && (!isUpdating || p.status.Phase == v1alpha1.RolloutRolledBack):
		p.status.setPhase(v1alpha1.RolloutRolledBack)
	case p.status.returnsFail():
		p.status.setPhase(v1alpha1.RolloutHalted)
	case p.status.Phase == v1alpha1.RolloutHalted:
		p.status.setPhase(v1alpha1.RolloutRollingBack)
	}
}

// goBack assigns the stable revision to the clusters that do not have it, and that need not wait for a
// revision and may have this one. It reports whether one of them still lacks it, and whether one that has
// it is updating.
func (p goingBack) goBack() (isLeft, isUpdating bool) {
	stable := p.judge.contents.stable()
	isLeft = stable == 0
	for _, s := range p.stages {
		returns := func(c *cluster) bool {
			return c.Entry.Revision != stable && !p.judge.contents.isRefused(c, stable) && !p.judge.contents.isUnread(c) && (c.Entry.Revision != 0 || p.assigner.startsWithStable(c))
		}
		updating := p.returnClusters(s, returns)
		isLeft = isLeft || slices.ContainsFunc(s.clusters, returns)
		isUpdating = isUpdating || updating > 0
	}
	return isLeft, isUpdating
}

// returnClusters assigns the stable revision to the clusters of a stage that do not have it and
// that are to return: to those that are not Ready at once, and to the others as far as
// maxUnavailable of the stage allows, unless the stable revision fails on those that returned. It
// never waits for a cluster that was broken before. It returns how many clusters of the stage are
// about to become available with the stable revision.
func (p goingBack) returnClusters(s *stage, returns func(*cluster) bool) (updating int) {
	stable := p.judge.contents.stable()
	mayReturn := func(c *cluster) bool { return p.assigner.mayAssign(c, stable) && returns(c) }
	for _, c := range s.clusters {
		isDown := p.judge.clock.isKnownUnready(c) || c.Entry.Impaired && !c.isServing()
		if isDown && mayReturn(c) {
			p.assigner.assign(c, stable)
		}
	}
	if !p.status.returnsFail() {
		p.returnUnavailable(s, mayReturn)
		p.returnAvailable(s, mayReturn)
	}
	for _, c := range s.clusters {
		if p.judge.isGoingBack(c) {
			updating++
		}
	}
	return updating
}

// returnUnavailable assigns the stable revision to clusters that are Ready, or may be, and not available
// yet. The rollout has made them unavailable, or nobody knows since a restore of the hub how many pods
// they need. Other unavailable clusters count, but leave one vacancy.
func (p goingBack) returnUnavailable(s *stage, mayReturn func(*cluster) bool) {
	returning, down := 0, 0
	for _, c := range s.clusters {
		switch {
		case p.judge.isGoingBack(c) && c.Entry.Returned:
			returning++
		case p.judge.isUnavailable(c) && !mayReturn(c) && !c.isEmpty():
			down++
		}
	}
	for _, c := range s.clusters {
		if c.Entry.UnavailableSince != nil && returning < max(1, s.maxUpdating()-down) && mayReturn(c) {
			p.assigner.assign(c, p.judge.contents.stable())
			returning++
		}
	}
}

// returnAvailable assigns the stable revision to clusters that are available.
func (p goingBack) returnAvailable(s *stage, mayReturn func(*cluster) bool) {
	vacancies := s.vacancies()
	for _, c := range s.clusters {
		if c.Entry.UnavailableSince == nil && vacancies > 0 && mayReturn(c) {
			p.assigner.assign(c, p.judge.contents.stable())
			vacancies--
		}
	}
}

// returnSuperseded assigns the stable revision to clusters that run neither the stable revision nor
// the target, before it is the turn of their stage: to those that are not Ready, and to those that
// run the failed revision. A Ready cluster that has the template of the target already keeps it.
func (p goingBack) returnSuperseded() {
	if p.judge.contents.stable() == 0 {
		return
	}
	for _, s := range p.stages {
		if !s.isActive() {
			p.returnClusters(s, p.isReturningSuperseded)
		}
	}
}

func (p goingBack) isReturningSuperseded(c *cluster) bool {
	e := &c.Entry
	switch {
	case e.Revision == 0, e.Revision == p.status.StableRevision, e.Revision == p.status.Revision:
		return false
	case p.judge.clock.isKnownUnready(c) && e.Phase != v1alpha1.ClusterUnknown:
		return true
	}
	return e.Revision == p.status.FailedRevision && !slices.Contains(p.status.SameRevisions, e.Revision)
}
