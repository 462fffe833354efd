package rollout

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// proceed assigns revisions as far as the phase of the rollout allows.
func (r *revisions) proceed() {
	if r.status.Phase != v1alpha1.RolloutHalted {
		r.judgeReturns()
	}
	switch r.status.Phase {
	case v1alpha1.RolloutProgressing:
		if r.status.Revision != r.status.StableRevision {
			r.progress()
			r.judgeReturns() // without the clusters that got the target
		} else if isLeft, isUpdating := r.goBack(); !isLeft && !isUpdating {
			r.complete()
		}
	case v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		r.rollBack()
	case v1alpha1.RolloutHalted:
		if r.returnsFail() { // not the target alone
			r.judgeReturns()
			r.rollBack()
		}
	}
	if r.isRollingOut() {
		r.returnSuperseded()
	}
	if r.status.Phase == v1alpha1.RolloutCompleted {
		r.runLate()
	}
}

// progress runs the stages up to the first one that does not complete. A stage after it is Pending,
// even if it was active: a cluster has joined a stage that was skipped, or the stages were edited.
// When all stages are done, the rollout is complete if the target is available anywhere.
func (r *revisions) progress() {
	isActive, completed := true, 0
	for _, s := range r.stages {
		switch {
		case s.status.Phase == v1alpha1.StageCompleted:
			r.update(s) // clusters that are late
		case isActive:
			isActive = r.runStage(s)
		case s.status.Phase != v1alpha1.StageSkipped || len(s.clusters) > 0:
			s.enter(v1alpha1.StagePending, r.in.Now)
		}
		if s.status.Phase == v1alpha1.StageCompleted {
			completed++
		}
	}
	if isActive && completed > 0 && r.isAvailableAnywhere() {
		r.complete()
	}
}

// runStage runs a stage that is not completed, and reports whether the next one may run.
func (r *revisions) runStage(s *stage) bool {
	now := r.in.Now
	if len(s.clusters) == 0 && !s.isActive() { // one that has begun has proven nothing, and waits
		s.enter(v1alpha1.StageSkipped, now)
		return true
	}
	if s.status.Phase == v1alpha1.StageSkipped {
		s.enter(v1alpha1.StagePending, now)
	}
	if !s.isActive() {
		if r.needsApproval(s) {
			s.enter(v1alpha1.StageAwaitingApproval, now)
			return false
		}
		s.enter(v1alpha1.StageProgressing, now)
	}
	r.update(s)
	r.startWithStable(s.clusters)
	if !r.isSettled(s) {
		return false
	}
	if s.status.Phase == v1alpha1.StageProgressing {
		s.enter(v1alpha1.StageSoaking, now)
	}
	if now.Time.Before(r.soakEnd(s)) {
		return false
	}
	s.enter(v1alpha1.StageCompleted, now)
	return true
}

// enter sets the phase of a stage.
func (s *stage) enter(phase v1alpha1.RolloutStagePhase, now metav1.Time) {
	if s.status.Phase != phase {
		s.status.Phase, s.status.Since = phase, now
	}
}

// update assigns the target to clusters of a stage.
func (r *revisions) update(s *stage) {
	for _, c := range r.next(s) {
		r.assign(c, r.status.Revision)
	}
}

// next returns the clusters of a stage that are to get the target: candidates, one more than are
// available, up to maxUnavailable. Those that are not available anyway come first. Those without pods
// come last, and only one until others prove the target: all of them would start pods at the same time.
// When nothing else is left, broken clusters are tried: otherwise no fix could reach a fleet that is
// broken.
func (r *revisions) next(s *stage) []*stagedCluster {
	t := r.tallyOf(s)
	var unavailable, available, empty []*stagedCluster
	for _, c := range r.inState(s, isCandidate) {
		switch {
		case c.isEmpty():
			empty = append(empty, c)
		case c.entry.Revision == 0 || r.isUnavailable(c):
			unavailable = append(unavailable, c)
		default:
			available = append(available, c)
		}
	}
	budget := s.budget(t) - t[isDegraded] - r.unconfirmedWithTarget(s)
	free := budget - t[isUpdating]
	freeForEmpty := free
	if t[isAvailable] == 0 && s.keepsLost() {
		freeForEmpty -= r.emptyWithTarget(s)
	}
	chosen := firstOf(unavailable, free)
	chosen = slices.Concat(chosen, firstOf(available, min(free-len(chosen), r.vacancies(s))))
	if areLeft := len(chosen) < len(unavailable)+len(available); !areLeft {
		chosen = slices.Concat(chosen, firstOf(empty, freeForEmpty-len(chosen)))
	}
	switch {
	case len(chosen)+len(unavailable)+len(available) > 0:
		return chosen
	case t[isUpdating]+t[isUnconfirmed] > 0:
		return nil
	}
	return firstOf(r.inState(s, isBroken), budget-t[isTrying])
}

// unconfirmedWithTarget returns how many clusters of a stage have the target and can be reached,
// but were not observed by this process yet. After a restore of the hub, the first of them may show
// that the target was taken back.
func (r *revisions) unconfirmedWithTarget(s *stage) int {
	n := 0
	for _, c := range s.clusters {
		if c.entry.Revision == r.status.Revision && !c.isConfirmed && r.stateOf(c) == isUnconfirmed {
			n++
		}
	}
	return n
}

// emptyWithTarget returns how many clusters of a stage have run no pods with the target, as far as it is
// known: this process may not have observed them yet.
func (r *revisions) emptyWithTarget(s *stage) int {
	n := 0
	for _, c := range s.clusters {
		state := r.stateOf(c)
		if state == isIdle || state == isUnconfirmed && c.entry.Revision == r.status.Revision && c.isEmpty() {
			n++
		}
	}
	return n
}

// firstOf returns the first clusters, at most limit.
func firstOf(clusters []*stagedCluster, limit int) []*stagedCluster {
	return clusters[:min(max(0, limit), len(clusters))]
}

// budget returns how many clusters of a stage may be updating at the same time: one more than are
// available, up to maxUnavailable. Until the stage is over or promoted, lost clusters keep their places:
// a revision that cuts its clusters off must not reach one after another.
func (s *stage) budget(t tally) int {
	switch {
	case s.status.Promoted:
		return s.maxUpdating()
	case !s.keepsLost():
		return min(s.maxUpdating(), t[isAvailable]+1)
	}
	return min(s.maxUpdating(), t[isAvailable]+1) - t[isLost]
}

// keepsLost reports whether clusters that were lost with the target keep their places.
func (s *stage) keepsLost() bool {
	return !s.status.Promoted && s.status.Phase != v1alpha1.StageCompleted
}

// isAvailableAnywhere reports whether the target is available on any cluster.
func (r *revisions) isAvailableAnywhere() bool {
	return slices.ContainsFunc(r.clusters, func(c *stagedCluster) bool { return r.stateOf(c) == isAvailable })
}

// complete makes the target the stable revision.
func (r *revisions) complete() {
	if r.status.StableRevision != r.status.Revision {
		r.status.PreviousRevision, r.status.StableRevision = r.status.StableRevision, r.status.Revision
	}
	r.status.Undo = false
	r.setPhase(v1alpha1.RolloutCompleted)
	for _, s := range r.stages {
		r.closeStage(s)
	}
}
