package stages

import (
	"strconv"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// recordRequests records the approved and the promoted stages. A request counts if its annotation
// was set when the status showed the stage, and is still set when the stage begins. A request that
// was set before is refused: it never counts, unless a user removes it and sets it again. After an
// edit of the stages, a stage that has not begun is another one. A retry counts if it was set when
// the status showed the failure.
func (r *Rollout) recordRequests() {
	state := r.status
	shown := r.in.App.Status.Rollout
	hasShownFailure := shown.Revision == state.Revision && shown.FailedRevision == state.Revision
	state.RetryRefused = r.requests.IsRetried && (state.RetryRefused || !hasShownFailure)
	if state.RetryRefused {
		r.requests.report(v1alpha1.AnnotationRetry, strconv.FormatInt(state.Revision, 10), RequestTooEarly)
	}
	if r.requests.IsAborted && state.Revision == state.StableRevision {
		r.requests.report(v1alpha1.AnnotationAbort, strconv.FormatInt(state.Revision, 10), RequestOfStableRevision)
	}
	for _, s := range r.stages {
		if r.isLeftOut(s) {
			continue
		}
		asksApproval, asksPromotion := r.requests.Approved[s.Name], r.requests.IsPromoted || r.requests.Promoted[s.Name]
		isUnseen := s.isNew || r.areStagesEdited && (!s.hasBegun || len(s.clusters) == 0 && s.isUnfinished())
		s.status.ApprovalRefused = asksApproval && (isUnseen || s.status.ApprovalRefused)
		s.status.PromotionRefused = asksPromotion && (isUnseen || s.status.PromotionRefused)
		s.hasApproval, s.hasPromotion = asksApproval && !s.status.ApprovalRefused, asksPromotion && !s.status.PromotionRefused
		isOver := state.Phase != v1alpha1.RolloutProgressing && state.Phase != v1alpha1.RolloutCompleted
		if isOver || len(s.clusters) == 0 && s.status.Phase == v1alpha1.StageSkipped {
			continue
		}
		s.applyRequests()
	}
}

// reportRefused adds the requests for a stage that were set too early to the errors, once it is known
// which stages the status has. A completed stage needs none: the spec may have returned to a revision
// that had them.
func (r *Rollout) reportRefused(s *stage) {
	if s.status.Phase == v1alpha1.StageCompleted {
		return
	}
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
