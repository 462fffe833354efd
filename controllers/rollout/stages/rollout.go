package stages

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// Rollout decides which revision each cluster is to run.
type Rollout struct {
	scope
	in       Input
	requests requests
	// skipped are the stages through which the stable revision did not go, when a new target begins.
	skipped    map[string]bool
	stageError *StageError
	// areStagesEdited is set in the first decision after an edit of the stages.
	areStagesEdited bool
}

// Decide decides which revision each cluster is to run, and sets it in the plans of the entries.
// Without a revision of the spec, and while the AppService is deleted, nothing changes. Finish
// completes the decision.
func Decide(in Input, plans []entryplan.Plan) *Rollout {
	r := newRollout(in)
	r.recover(plans)
	if in.Revision != 0 && !in.App.IsDeleting() {
		r.clusters = in.stagedClusters(plans)
		r.decide(plans)
	}
	r.recordPodSecurity()
	r.explainRefused()
	return r
}

func newRollout(in Input) *Rollout {
	status := &state{*in.App.Status.Rollout.DeepCopy(), in.Now}
	judge := &judge{
		clock:    &clock{now: in.Now, observedSince: in.ObservedSince, seenSince: in.SeenSince, answers: in.Answers, deadline: in.progressDeadline()},
		contents: &contents{in.Revisions, status},
		status:   status,
	}
	return &Rollout{in: in, scope: scope{status: status, judge: judge, assigner: &assigner{judge, in.Hold}, now: in.Now}}
}

// decide decides about the target, the stages and the clusters, in this order.
func (r *Rollout) decide(plans []entryplan.Plan) {
	r.status.keepLatest(r.in.Revision)
	r.adoptProven()
	if r.status.Revision != r.in.Revision {
		r.status.ChangedSources = r.in.ChangedSources
	}
	if r.in.App.Spec.Rollout == nil {
		atOnce{r.scope, r.in}.assign()
		places{r.in, r.status}.forget(plans)
		return
	}
	r.retarget()
	places{r.in, r.status}.forget(plans)
	r.requests = r.in.requests()
	r.hold()
	if r.stages, r.stageError = r.stagesOf(r.clusters); r.stageError != nil {
		r.assigner.hold, r.status.Paused = Frozen, true // with an invalid stage, no cluster gets another revision
		return
	}
	r.restoreStages()
	r.takeOver()
	r.track()
	r.recordRequests()
	r.fail()
	if !r.assigner.hold.isPaused() {
		r.proceed()
	}
	r.closeStages()
	r.assigner.startWithStable(r.clusters)
	if !r.assigner.hold.isPaused() { // new clusters may need nothing more now, so that the next stage may run
		completed{r.scope}.runLate()
	}
	r.closeStages()
}

// recover sets the revisions of entries to those that their clusters run, after the status was
// lost. While it waits for reports, it records since when.
func (r *Rollout) recover(plans []entryplan.Plan) {
	if !r.in.Recovery.IsRecovering || r.in.App.IsDeleting() {
		return
	}
	for i := range plans {
		if e := &plans[i]; e.Seen != nil && e.Entry.Revision == 0 && e.Seen.StampedRevision != 0 && entryplan.IsPlanned(e.Entry) {
			e.Reassign(e.Seen.StampedRevision)
		}
	}
	if r.in.Recovery.AwaitsReports && r.status.Since == nil {
		r.status.Since = &r.now
	}
}

// hold decides which clusters may get another revision, and records it.
func (r *Rollout) hold() {
	hold := &r.assigner.hold
	isPaused := r.in.App.Spec.Rollout.Paused || r.requests.IsPaused
	switch {
	case *hold == Released && isPaused:
		*hold = Paused
	case *hold == Released && r.status.Paused:
		*hold = Resumed
	}
	r.status.Paused = hold.isPaused()
}

// retarget makes the revision of the spec the target.
func (r *Rollout) retarget() {
	s := r.status
	switch {
	case s.Revision != r.in.Revision:
		s.Undo = s.PreviousRevision != 0 && r.in.Origin == RevisionUndone || s.Undo && r.in.Origin == RevisionRetried
		r.skipped = skippedStages(s.RolloutStatus)
		s.Revision, s.SameRevisions, s.Stages = r.in.Revision, r.in.SameRevisions, nil
		s.FailedStage, s.FailedClusters, s.FailedReason = "", nil, ""
		s.Phase, s.Since = v1alpha1.RolloutProgressing, &r.now
		if s.Revision == s.FailedRevision { // the planner gives a template that comes back another number
			s.Phase = r.phaseAfterFailure()
		}
	case s.Phase != "":
	case s.Revision == s.StableRevision: // spec.rollout was added, and no edit of the template
		r.status.setPhase(v1alpha1.RolloutCompleted)
	default:
		r.status.setPhase(v1alpha1.RolloutProgressing)
	}
}

// isInUse reports whether spec.rollout was added while at least half of the clusters that can be observed and
// run pods were Ready with the target. Then what is not Ready is no evidence against it.
func (in Input) isInUse(status *state, clusters []*cluster) bool {
	if in.App.Status.Rollout.Strategy != "" || !status.isRollingOut() {
		return false
	}
	size, ready := 0, 0
	for _, c := range clusters {
		p := c.Previous
		isReady := p != nil && p.Phase == v1alpha1.ClusterReady
		switch {
		case p == nil, p.Phase == v1alpha1.ClusterUnknown, isReady && p.ReadyReplicas == 0: // no evidence
			continue
		case isReady && p.Revision == status.Revision:
			ready++
		}
		size++
	}
	return ready > 0 && 2*ready >= size
}

// stagesOf returns the stages of spec.rollout, with the clusters.
func (r *Rollout) stagesOf(clusters []*cluster) ([]*stage, *StageError) {
	spec := r.in.App.Spec.Rollout
	stages := make([]*stage, 0, len(spec.Stages)+1)
	for _, s := range spec.Stages {
		path := fmt.Sprintf("spec.rollout.stages[name=%s]", s.Name)
		match, err := placement.CompileMatch(path, s.ClusterMatch)
		if err != nil {
			return nil, &StageError{Stage: s.Name, Err: err}
		}
		stages = append(stages, newStage(s, spec.RolloutPace, match.Matches, r.judge))
	}
	all := func(*v1alpha1.MemberCluster) bool { return true }
	stages = append(stages, newStage(v1alpha1.RolloutStage{Name: RestStage}, spec.RolloutPace, all, r.judge))
	places{r.in, r.status}.assign(stages, clusters, r.assigner.hold)
	return stages, nil
}

// restoreStages reads the status of each stage. A stage without a status is Pending. If the stages
// were edited, those that have begun are judged again, after a pause: they may have other clusters, or
// need approval.
func (r *Rollout) restoreStages() {
	var areJudgedAgain bool
	r.areStagesEdited, areJudgedAgain = r.status.recordStrategy(strategyOf(r.in.App.Spec.Rollout), r.assigner.hold.isPaused())
	for _, s := range r.stages {
		s.status = v1alpha1.RolloutStageStatus{Name: s.Name, Phase: v1alpha1.StagePending, Since: r.now, StableSkipped: r.skipped[s.Name]}
		s.isNew = true
		for _, before := range r.status.Stages {
			if before.Name == s.Name {
				s.status, s.isNew = before, false
			}
		}
		if r.now.Before(&s.status.Since) {
			s.status.Since = r.now
		}
		s.hasBegun = s.isActive()
		isLeft := len(s.clusters) == 0 && s.status.Phase != v1alpha1.StageCompleted // it waits, as without the edit
		if r.areStagesEdited && isLeft {
			s.status.Approved, s.status.Promoted = false, false // for other clusters than it may get now
		}
		if areJudgedAgain && r.status.isRollingOut() && s.isActive() && !isLeft && !(s.status.Phase == v1alpha1.StageCompleted && s.isDone()) {
			s.enter(v1alpha1.StagePending, r.now)
		}
	}
}

// track updates since when the clusters are unavailable, and with how many pods they were available.
func (r *Rollout) track() {
	isHaltedBack := r.status.Phase == v1alpha1.RolloutHalted && r.status.returnsFail() // and may go on in this decision
	isActive := r.status.Phase == v1alpha1.RolloutProgressing || r.status.Phase == v1alpha1.RolloutRollingBack || r.abortsHalted() || isHaltedBack
	clock, isInUse := r.judge.clock, r.in.isInUse(r.status, r.clusters)
	for _, c := range r.clusters {
		e := &c.Entry
		if e.UnavailableSince != nil {
			e.UnavailableSince = clock.unavailableSince(c, r.assigner.hold)
		}
		if e.UnavailableSince == nil && isActive && e.Revision != 0 && (clock.becomesUnavailable(c) || isInUse && c.isStillUnready()) {
			e.UnavailableSince = &r.now
			e.Impaired = e.Phase != v1alpha1.ClusterReady && (e.Revision == r.status.StableRevision || isInUse) // no rollout is the cause
		}
		e.ReadySince = c.nextReadySince()
		isReady := e.Phase == v1alpha1.ClusterReady && c.isConfirmed
		isGrowing := c.isConfirmed && e.ReadySince != nil && e.ObservedGeneration >= e.Generation
		switch {
		case isReady && e.UnavailableSince == nil,
			(isReady || isGrowing) && clock.elapsed(clock.readySince(c, c.phaseSince(r.now))) >= c.stage.minReady():
			e.UnavailableSince, e.ReadySince, e.Impaired, e.Returned = nil, nil, false, false
			c.recordAvailable()
		case e.Phase != v1alpha1.ClusterReady && c.isConfirmed && c.isServing(): // the pods that it had lost are back
			e.UnavailableSince, e.Impaired = nil, false
		}
	}
}

// proceed does what the phase of the rollout asks for.
func (r *Rollout) proceed() {
	back := goingBack{r.scope}
	if r.status.Phase != v1alpha1.RolloutHalted {
		r.judgeReturns()
	}
	switch r.status.Phase {
	case v1alpha1.RolloutProgressing:
		if r.status.isRollingOut() {
			rollingOut{r.scope}.progress()
			r.judgeReturns() // without the clusters that got the target
		} else if isLeft, isUpdating := back.goBack(); !isLeft && !isUpdating {
			r.complete()
		}
	case v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack:
		back.rollBack()
	case v1alpha1.RolloutHalted:
		if r.status.returnsFail() { // not the target alone
			r.judgeReturns()
			back.rollBack()
		}
	}
	if r.status.isRollingOut() {
		back.returnSuperseded()
	}
	completed{r.scope}.runLate()
}
