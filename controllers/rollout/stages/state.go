package stages

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// state is the next status of a rollout.
type state struct {
	v1alpha1.RolloutStatus
	now metav1.Time
}

// setPhase sets the phase of the rollout.
func (s *state) setPhase(phase v1alpha1.RolloutPhase) {
	if s.Phase != phase {
		s.Phase, s.Since = phase, &s.now
	}
}

// isRollingOut reports whether clusters get a target that is not stable yet.
func (s *state) isRollingOut() bool {
	return s.Phase == v1alpha1.RolloutProgressing && s.Revision != s.StableRevision
}

// isOpen reports whether clusters may get the target in stages: it is not stable yet, or a stage may have
// got clusters after the rollout was completed.
func (s *state) isOpen() bool {
	return s.isRollingOut() || s.Phase == v1alpha1.RolloutCompleted
}

// recordStrategy records the hash of the stages. It reports whether they were edited since the last decision,
// and whether those that have begun are to be judged again. A pause keeps them as they are until it is over.
func (s *state) recordStrategy(strategy string, isPaused bool) (isEdited, areJudgedAgain bool) {
	judged, shown := s.Strategy, cmp.Or(s.PausedStrategy, s.Strategy)
	s.PausedStrategy = ""
	switch {
	case !isPaused:
		s.Strategy = strategy
	case strategy != judged:
		s.PausedStrategy = strategy
	}
	return shown != "" && strategy != shown, judged != "" && strategy != judged && !isPaused
}

// returnsFail reports whether the stable revision fails on clusters that returned to it.
func (s *state) returnsFail() bool { return len(s.ReturnFailedClusters) > 0 }

// adopt makes a revision the stable one.
func (s *state) adopt(revision int64) {
	s.PreviousRevision, s.StableRevision = s.StableRevision, revision
}

// keepLatest records the highest number of a revision, if the spec has returned to an older one. So
// no number is used again, and an approval never counts for another template.
func (s *state) keepLatest(revision int64) {
	latest := max(s.Revision, s.LatestRevision)
	s.LatestRevision = 0
	if latest > revision {
		s.LatestRevision = latest
	}
}
