package stages

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// RestStage is the name of the last stage, of the clusters that no other stage matches.
const RestStage = "(rest)"

// StageError is an error in the selector of a stage.
type StageError struct {
	// Stage is the name of the stage.
	Stage string
	// Err says what is wrong.
	Err error
}

func (e *StageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *StageError) Unwrap() error { return e.Err }

// stage is a stage with its clusters.
type stage struct {
	v1alpha1.RolloutStage
	// status is the next status of the stage.
	status v1alpha1.RolloutStageStatus
	// isNew is set if the status of the rollout does not have the stage yet. hasBegun is set if the stage
	// had begun before this decision.
	isNew, hasBegun bool
	// hasApproval and hasPromotion are set while the annotation with such a request is there, and the
	// request is not refused.
	hasApproval, hasPromotion bool
	// clusters are in the order in which they get the target.
	clusters []*cluster
	// matches reports whether a cluster belongs to the stage, if no earlier stage and no limit is against it.
	matches func(*v1alpha1.MemberCluster) bool
	// judge says in which state they are.
	judge *judge
}

// newStage returns a stage without clusters. The pace of the rollout applies where the stage has
// none.
func newStage(spec v1alpha1.RolloutStage, pace v1alpha1.RolloutPace, matches func(*v1alpha1.MemberCluster) bool, judge *judge) *stage {
	spec.MaxUnavailable = cmp.Or(spec.MaxUnavailable, pace.MaxUnavailable)
	spec.MinReadySeconds = cmp.Or(spec.MinReadySeconds, pace.MinReadySeconds)
	spec.MaxFailures = cmp.Or(spec.MaxFailures, pace.MaxFailures)
	return &stage{RolloutStage: spec, matches: matches, judge: judge}
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

// enter sets the phase of a stage.
func (s *stage) enter(phase v1alpha1.RolloutStagePhase, now metav1.Time) {
	if s.status.Phase != phase {
		s.status.Phase, s.status.Since = phase, now
	}
}

// applyRequests records whether the stage is approved and promoted. After the stage has begun, the
// annotations are no longer needed.
func (s *stage) applyRequests() {
	s.status.Approved = s.isActive() && s.status.Approved || s.hasApproval
	s.status.Promoted = s.isActive() && s.status.Promoted || s.hasPromotion
}

// postpone makes a stage wait for its turn, even if it has begun.
func (s *stage) postpone(now metav1.Time) {
	s.enter(v1alpha1.StagePending, now)
	s.applyRequests()
}

// hasPods reports whether any cluster of the stage runs pods, or is to run some. A scale-down may change
// that within a decision.
func (s *stage) hasPods() bool {
	return slices.ContainsFunc(s.clusters, func(c *cluster) bool { return !c.isEmpty() })
}

// keepsLost reports whether clusters that were lost with the target keep their vacancies.
func (s *stage) keepsLost() bool {
	return !s.status.Promoted && s.status.Phase != v1alpha1.StageCompleted
}

// isUnfinished reports whether a stage has not been completed or skipped.
func (s *stage) isUnfinished() bool {
	return s.status.Phase != v1alpha1.StageCompleted && s.status.Phase != v1alpha1.StageSkipped
}

// isDone reports whether all clusters of a stage have the target, except for those that cannot be
// observed.
func (s *stage) isDone() bool {
	return len(s.clusters) > 0 && !slices.ContainsFunc(s.clusters, func(c *cluster) bool {
		return c.Entry.Revision != s.judge.status.Revision && c.Entry.Phase != v1alpha1.ClusterUnknown
	})
}

// close ends a stage when the rollout is complete: a stage through which the stable revision did not
// go is Skipped.
func (s *stage) close() {
	switch {
	case s.status.Phase == v1alpha1.StageCompleted:
	case len(s.clusters) > 0 && !s.status.StableSkipped:
		s.enter(v1alpha1.StageCompleted, s.judge.clock.now)
	default:
		s.enter(v1alpha1.StageSkipped, s.judge.clock.now)
	}
	s.status.StableSkipped, s.isNew = false, false
}

// count counts the clusters of a stage.
func (s *stage) count() {
	s.status.Clusters, s.status.UpToDate, s.status.Available, s.status.Failed = int32(len(s.clusters)), 0, 0, 0
	for _, c := range s.clusters {
		if c.Entry.Revision != s.judge.status.Revision {
			if s.judge.hasRefusedTarget(c) {
				s.status.Failed++
			}
			continue
		}
		s.status.UpToDate++
		switch s.judge.stateOf(c) {
		case stateAvailable:
			s.status.Available++
		case stateFailed:
			s.status.Failed++
		}
	}
}
