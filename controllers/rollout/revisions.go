package rollout

import (
	"slices"
	"strconv"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// RevisionOrigin says where a new revision of the spec comes from.
type RevisionOrigin int

const (
	// RevisionEdited: an edit made the template.
	RevisionEdited RevisionOrigin = iota
	// RevisionUndone: an edit returned to the template of the previous stable revision.
	RevisionUndone
	// RevisionRetried: the template failed, and the annotation retry asks for it again.
	RevisionRetried
)

// revisions decides which revision each cluster is to run.
type revisions struct {
	in       Input
	status   v1alpha1.RolloutStatus // the next status of the rollout
	clusters []*stagedCluster       // in the order of their placement rank
	stages   []*stage
	requests Requests
	deadline time.Duration

	// skipped are the stages through which the stable revision did not go, when a new target begins.
	skipped map[string]bool

	stageError *StageError
	// isHeld is set while no cluster but a new one may get another revision.
	isHeld bool
	// isFrozen is set while new clusters get no revision either.
	isFrozen bool
	// areStagesEdited is set in the first decision after an edit of the stages.
	areStagesEdited bool
	// resumes is set in the first decision after isHeld.
	resumes bool
	// assumesAnswers is set while the status is computed, which does not depend on when members have
	// answered.
	assumesAnswers bool
}

// planRevisions decides which revision each cluster is to run, and sets it in the plans of the
// entries. Without a revision of the spec, and while the AppService is deleted, nothing changes.
func (in Input) planRevisions(plans []entryPlan) *revisions {
	r := &revisions{in: in, status: *in.App.Status.Rollout.DeepCopy()}
	r.recover(plans)
	if in.Revision == 0 || in.IsDeleting() {
		return r
	}
	r.clusters = in.stagedClusters(plans)
	r.hold(plans)
	r.keepLatest()
	if in.isRecovering() {
		r.adoptRecovered()
	} else {
		r.adoptStable()
	}
	if r.status.Revision != in.Revision {
		r.status.ChangedSources = in.ChangedSources
	}
	if in.App.Spec.Rollout == nil {
		r.assignAtOnce()
		return r
	}
	r.retarget()
	r.requests = in.requests()
	r.deadline = in.progressDeadline()
	if r.stages, r.stageError = r.stagesOf(r.clusters); r.stageError != nil {
		r.isHeld, r.isFrozen = true, true
		r.status.Paused = true
		return r
	}
	r.resumes = r.status.Paused && !r.isPaused()
	r.status.Paused = r.isPaused()
	r.restoreStages()
	r.takeOver()
	r.track()
	r.recordRequests()
	r.fail()
	if !r.status.Paused {
		r.proceed()
	}
	r.closeStages()
	r.assignNew()
	r.closeStages() // new clusters may need nothing more now
	return r
}

// hold decides whether clusters may get another revision, apart from the pause of a rollout. While the
// hub is behind a cluster, a rollback waits too: the revision that this hub takes for the stable one may
// be older than what was rolled out since.
func (r *revisions) hold(plans []entryPlan) {
	r.isFrozen = r.in.IsSuspended() || r.in.PlanError != nil
	isBehind := slices.ContainsFunc(plans, func(e entryPlan) bool {
		behind := hubBehind(&e)
		return behind != nil && !lineage.IsAccepted(r.in.App, behind)
	})
	r.isHeld = r.isFrozen || isBehind
}

// keepLatest records the highest number of a revision, if the spec has returned to an older one. So
// no number is used again, and an approval never counts for another template.
func (r *revisions) keepLatest() {
	latest := max(r.status.Revision, r.status.LatestRevision)
	r.status.LatestRevision = 0
	if latest > r.in.Revision {
		r.status.LatestRevision = latest
	}
}

func (r *revisions) isPaused() bool {
	return r.isHeld || r.in.App.Spec.Rollout.Paused || r.requests.IsPaused
}

// retarget makes the revision of the spec the target.
func (r *revisions) retarget() {
	s := &r.status
	switch {
	case s.Revision != r.in.Revision:
		s.Undo = s.PreviousRevision != 0 && r.in.Origin == RevisionUndone || s.Undo && r.in.Origin == RevisionRetried
		r.skipped = skippedStages(*s)
		s.Revision, s.SameRevisions, s.Stages = r.in.Revision, r.in.SameRevisions, nil
		s.FailedStage, s.FailedClusters, s.FailedReason = "", nil, ""
		s.Phase, s.Since = v1alpha1.RolloutProgressing, &r.in.Now
		if s.Revision == s.FailedRevision { // the planner gives a template that comes back another number
			s.Phase = r.phaseAfterFailure()
		}
	case s.Phase != "":
	case s.Revision == s.StableRevision: // spec.rollout was added, and no edit of the template
		r.setPhase(v1alpha1.RolloutCompleted)
	default:
		r.setPhase(v1alpha1.RolloutProgressing)
	}
}

// setPhase sets the phase of the rollout.
func (r *revisions) setPhase(phase v1alpha1.RolloutPhase) {
	if r.status.Phase != phase {
		r.status.Phase, r.status.Since = phase, &r.in.Now
	}
}

// restoreStages reads the status of each stage. A stage without a status is Pending. If the stages
// were edited, those that have begun are judged again: they may have other clusters, or need
// approval.
func (r *revisions) restoreStages() {
	strategy := strategyOf(r.in.App.Spec.Rollout)
	r.areStagesEdited = strategy != r.status.Strategy && r.status.Strategy != "" && !r.status.Paused
	for _, s := range r.stages {
		s.status = v1alpha1.RolloutStageStatus{Name: s.Name, Phase: v1alpha1.StagePending, Since: r.in.Now, StableSkipped: r.skipped[s.Name]}
		s.isNew = true
		for _, before := range r.status.Stages {
			if before.Name == s.Name {
				s.status, s.isNew = before, false
			}
		}
		if r.in.Now.Before(&s.status.Since) {
			s.status.Since = r.in.Now
		}
		isLeft := len(s.clusters) == 0 && s.status.Phase != v1alpha1.StageCompleted // it waits, as without the edit
		if r.areStagesEdited && r.isRollingOut() && s.isActive() && !isLeft && !(s.status.Phase == v1alpha1.StageCompleted && r.isDone(s)) {
			s.enter(v1alpha1.StagePending, r.in.Now)
		}
	}
	if !r.status.Paused { // a pause keeps the stages as they are
		r.status.Strategy = strategy
	}
}

// isDone reports whether all clusters of a stage have the target, except for those that cannot be
// observed.
func (r *revisions) isDone(s *stage) bool {
	return len(s.clusters) > 0 && !slices.ContainsFunc(s.clusters, func(c *stagedCluster) bool {
		return c.entry.Revision != r.status.Revision && c.entry.Phase != v1alpha1.ClusterUnknown
	})
}

// isRollingOut reports whether clusters get a target that is not stable yet.
func (r *revisions) isRollingOut() bool {
	return r.status.Phase == v1alpha1.RolloutProgressing && r.status.Revision != r.status.StableRevision
}

// recordRequests records the approved and the promoted stages. A request counts if its annotation
// was set when the status showed the stage, and is still set when the stage begins. A request that
// was set before is refused: it never counts, unless a user removes it and sets it again. After an
// edit of the stages, a stage that has not begun is another one. A retry counts if it was set when
// the status showed the failure.
func (r *revisions) recordRequests() {
	state := &r.status
	shown := r.in.App.Status.Rollout
	hasShownFailure := shown.Revision == state.Revision && shown.FailedRevision == state.Revision
	state.RetryRefused = r.requests.IsRetried && (state.RetryRefused || !hasShownFailure)
	if state.RetryRefused {
		r.requests.report(v1alpha1.AnnotationRetry, strconv.FormatInt(state.Revision, 10), RequestTooEarly)
	}
	for _, s := range r.stages {
		if r.isLeftOut(s) {
			continue
		}
		isApproved, isPromoted := r.requests.Approved[s.Name], r.requests.IsPromoted || r.requests.Promoted[s.Name]
		isUnseen := s.isNew || r.areStagesEdited && !s.isActive()
		s.status.ApprovalRefused = isApproved && (isUnseen || s.status.ApprovalRefused)
		s.status.PromotionRefused = isPromoted && (isUnseen || s.status.PromotionRefused)
		r.reportRefused(s)
		isOver := state.Phase != v1alpha1.RolloutProgressing && state.Phase != v1alpha1.RolloutCompleted
		if isOver || len(s.clusters) == 0 && s.status.Phase == v1alpha1.StageSkipped {
			continue
		}
		s.status.Approved = s.isActive() && s.status.Approved || isApproved && !s.status.ApprovalRefused
		s.status.Promoted = s.isActive() && s.status.Promoted || isPromoted && !s.status.PromotionRefused
	}
}

// reportRefused adds the requests for a stage that were set too early to the errors.
func (r *revisions) reportRefused(s *stage) {
	number := strconv.FormatInt(r.status.Revision, 10)
	if s.status.ApprovalRefused {
		r.requests.report(v1alpha1.AnnotationApprove, number+"/"+s.Name, RequestTooEarly)
	}
	switch {
	case !s.status.PromotionRefused:
	case r.requests.Promoted[s.Name]:
		r.requests.report(v1alpha1.AnnotationPromote, number+"/"+s.Name, RequestTooEarly)
	default:
		r.requests.report(v1alpha1.AnnotationPromote, number, RequestTooEarly)
	}
}
