package rollout

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// fail ends the rollout of a target that failed or was aborted. A user who aborts wants the stable
// revision, also where a failure only halts the rollout.
func (r *revisions) fail() {
	isAborted := r.requests.IsAborted
	canFail := r.status.Phase == v1alpha1.RolloutProgressing && r.status.Revision != r.status.StableRevision
	switch {
	case canFail && isAborted:
	case canFail && !r.status.Paused:
		failed, clusters := r.exceededStage()
		if failed == nil {
			return
		}
		r.status.FailedStage = failed.Name
		r.status.FailedClusters, r.status.FailedReason = r.describeFailed(clusters)
	case r.abortsHalted():
	default:
		return
	}
	r.status.FailedRevision = r.status.Revision
	r.status.ReturnFailedClusters, r.status.ReturnFailedReason = nil, "" // nothing has returned yet
	phase := r.phaseAfterFailure()
	if isAborted && r.stable() != 0 {
		phase = v1alpha1.RolloutRollingBack
	}
	r.setPhase(phase)
}

// abortsHalted reports whether a user wants the stable revision after a failure that halted the
// rollout.
func (r *revisions) abortsHalted() bool {
	return r.requests.IsAborted && r.status.Phase == v1alpha1.RolloutHalted && r.stable() != 0 && !r.returnsFail()
}

// phaseAfterFailure returns the phase of a rollout whose target failed.
func (r *revisions) phaseAfterFailure() v1alpha1.RolloutPhase {
	if r.stable() == 0 || r.in.App.Spec.Rollout.OnFailure == v1alpha1.RolloutPause {
		return v1alpha1.RolloutHalted
	}
	return v1alpha1.RolloutRollingBack
}

// describeFailed returns the first of the clusters on which the target failed, by name, and the reason
// of the first. There is at least one.
func (r *revisions) describeFailed(clusters []*stagedCluster) ([]string, string) {
	first := slices.MinFunc(clusters, func(a, b *stagedCluster) int { return cmp.Compare(a.entry.Name, b.entry.Name) })
	if r.hasRefusedTarget(first) {
		return firstNames(namesOf(clusters)), v1alpha1.ReasonPodSecurityRefused
	}
	return firstNames(namesOf(clusters)), first.entry.Reason
}

// namesOf returns the names of clusters.
func namesOf(clusters []*stagedCluster) []string {
	names := make([]string, len(clusters))
	for i, c := range clusters {
		names[i] = c.entry.Name
	}
	return names
}

// rollBack returns the clusters to the stable revision. It is halted while the stable revision fails on
// those that returned, and goes on when they are available. When it is over, it stays so until another
// cluster is to return.
func (r *revisions) rollBack() {
	switch isLeft, isUpdating := r.goBack(); {
	case !isLeft && (!isUpdating || r.status.Phase == v1alpha1.RolloutRolledBack):
		r.setPhase(v1alpha1.RolloutRolledBack)
	case r.returnsFail():
		r.setPhase(v1alpha1.RolloutHalted)
	case r.status.Phase == v1alpha1.RolloutHalted:
		r.setPhase(v1alpha1.RolloutRollingBack)
	}
}

// judgeReturns records the clusters on which the stable revision fails, if it does on more clusters of a
// stage than may fail, of those that were Ready when they returned to it. A cluster that was not Ready
// then may be broken by itself. A cluster that was recorded counts until it is available, also while it
// cannot be observed.
func (r *revisions) judgeReturns() {
	recorded := r.status.ReturnFailedClusters
	for _, s := range r.stages {
		var failed []*stagedCluster
		unrecorded := 0 // that may have failed: the record has only the first ones
		for _, c := range s.clusters {
			switch e := &c.entry; {
			case !e.Returned || e.Revision != r.status.StableRevision:
			case r.hasFailed(c) || slices.Contains(recorded, e.Name):
				failed = append(failed, c)
			case len(recorded) == maxNamed && e.Phase != v1alpha1.ClusterUnknown:
				unrecorded++
			}
		}
		if len(failed) > 0 && len(failed)+unrecorded > s.maxFailed() {
			r.recordReturns(failed)
			return
		}
	}
	r.status.ReturnFailedClusters, r.status.ReturnFailedReason = nil, ""
}

// recordReturns records on which clusters the stable revision fails. The reason stays while the first of
// them is the same: it may not be known any more.
func (r *revisions) recordReturns(failed []*stagedCluster) {
	names, reason := r.describeFailed(failed)
	if recorded := r.status.ReturnFailedClusters; len(recorded) == 0 || recorded[0] != names[0] {
		r.status.ReturnFailedReason = reason
	}
	r.status.ReturnFailedClusters = names
}

// returnsFail reports whether the stable revision fails on clusters that returned to it.
func (r *revisions) returnsFail() bool { return len(r.status.ReturnFailedClusters) > 0 }

// goBack assigns the stable revision to the clusters that do not have it, and that need not wait for a
// revision and may have this one. It reports whether one of them still lacks it, and whether one that has
// it is updating.
func (r *revisions) goBack() (isLeft, isUpdating bool) {
	stable := r.stable()
	isLeft = stable == 0
	for _, s := range r.stages {
		returns := func(c *stagedCluster) bool {
			return c.entry.Revision != stable && !r.isRefused(c, stable) && !r.isUnread(c) && (c.entry.Revision != 0 || r.startsWithStable(c))
		}
		updating := r.returnClusters(s, returns)
		isLeft = isLeft || slices.ContainsFunc(s.clusters, returns)
		isUpdating = isUpdating || updating > 0
	}
	return isLeft, isUpdating
}

// returnClusters assigns the stable revision to the clusters of a stage that do not have it and
// that are to return: to those that are not available at once, and to the others as far as
// maxUnavailable of the stage allows, unless the stable revision fails on those that returned. It
// never waits for a cluster that was broken before. It returns how many clusters of the stage are
// about to become available with the stable revision.
func (r *revisions) returnClusters(s *stage, returns func(*stagedCluster) bool) int {
	stable := r.stable()
	for _, c := range s.clusters {
		if c.entry.Revision != stable && (r.isKnownUnready(c) || c.entry.UnavailableSince != nil) && returns(c) {
			r.assign(c, stable)
		}
	}
	vacancies, updating := r.vacancies(s), 0
	for _, c := range s.clusters {
		if c.entry.Revision != stable && vacancies > 0 && !r.returnsFail() && returns(c) {
			r.assign(c, stable)
			vacancies--
		}
		if r.isGoingBack(c) {
			updating++
		}
	}
	return updating
}

// isKnownUnready reports whether a cluster is not Ready. A cluster that has not answered the latest
// edit may be.
func (r *revisions) isKnownUnready(c *stagedCluster) bool {
	return !c.isServing() && !r.isUnanswered(c)
}

// isGoingBack reports whether a cluster has the stable revision and is about to become available.
// One that was Ready before counts until it has failed, so that no other is taken before that is
// known.
func (r *revisions) isGoingBack(c *stagedCluster) bool {
	e := &c.entry
	switch {
	case e.Revision != r.status.StableRevision, e.UnavailableSince == nil, e.Impaired, e.Phase == v1alpha1.ClusterUnknown:
		return false
	case e.Returned:
		return !r.hasFailed(c)
	}
	return e.Phase != v1alpha1.ClusterFailed && !r.isLate(c)
}

// returnSuperseded assigns the stable revision to clusters that run neither the stable revision nor
// the target, before it is the turn of their stage: to those that are not Ready, and to those that
// run the failed revision. A Ready cluster that has the template of the target already keeps it.
func (r *revisions) returnSuperseded() {
	if r.stable() == 0 {
		return
	}
	for _, s := range r.stages {
		if !s.isActive() {
			r.returnClusters(s, r.isReturningSuperseded)
		}
	}
}

func (r *revisions) isReturningSuperseded(c *stagedCluster) bool {
	e := &c.entry
	switch {
	case e.Revision == 0, e.Revision == r.status.StableRevision, e.Revision == r.status.Revision:
		return false
	case r.isKnownUnready(c) && e.Phase != v1alpha1.ClusterUnknown:
		return true
	}
	return e.Revision == r.status.FailedRevision && !slices.Contains(r.status.SameRevisions, e.Revision)
}

// isActive reports whether the turn of the stage has come.
func (s *stage) isActive() bool { return isActivePhase(s.status.Phase) }

func isActivePhase(phase v1alpha1.RolloutStagePhase) bool {
	switch phase {
	case v1alpha1.StageProgressing, v1alpha1.StageSoaking, v1alpha1.StageCompleted:
		return true
	}
	return false
}
