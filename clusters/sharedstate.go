package clusters

import (
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// sharedState is what the goroutine of a member shares with the reconciler: the reconciler writes the
// desired state, and the goroutine writes the snapshot. It is safe for concurrent use.
type sharedState struct {
	log logr.Logger
	// onChange is called after the snapshot has changed.
	onChange func()
	// wake receives a value when the desired state has changed.
	wake chan struct{}

	mu       sync.Mutex
	desired  desiredState
	rejected *kubeconfig.RejectedError // why the Secret is rejected, or nil
	snapshot snapshot                  // of the connection
}

func newSharedState(log logr.Logger, onChange func()) *sharedState {
	return &sharedState{log: log, onChange: onChange, wake: make(chan struct{}, 1)}
}

// setDesired gives the member a new desired state. A rejected kubeconfig changes only what is
// reported.
func (s *sharedState) setDesired(d desiredState, rejected *kubeconfig.RejectedError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected = rejected
	if rejected != nil {
		return
	}
	if known := s.desired.config; known != nil && known.Equal(d.config) {
		d.config = known
	}
	if s.desired == d {
		return
	}
	s.desired = d
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *sharedState) latestDesired() desiredState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.desired
}

// latestAccepted returns the desired state, and false if the Secret has a newer kubeconfig that is
// rejected.
func (s *sharedState) latestAccepted() (desiredState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.desired, s.rejected == nil
}

// observed returns the snapshot of the member, including the reason if its Secret is rejected.
func (s *sharedState) observed() snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.snapshot
	seen.renewal = s.desired.renewal
	if s.rejected == nil {
		return seen
	}
	seen.credentials = conditionState{metav1.ConditionFalse, s.rejected.Reason, s.rejected.Message}
	if s.desired.config == nil {
		seen.ready = conditionState{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "there is no accepted kubeconfig; see condition " + v1alpha1.ConditionCredentialsValid}
	}
	return seen
}

// update changes the snapshot of the member, and reports the change to the reconciler.
func (s *sharedState) update(change func(*snapshot)) {
	s.mu.Lock()
	before := s.snapshot
	change(&s.snapshot)
	after := s.snapshot
	s.mu.Unlock()
	if after.equal(before) {
		return
	}
	if after.ready != before.ready {
		s.log.Info("Readiness changed", "status", after.ready.status, "reason", after.ready.reason, "message", after.ready.message)
	}
	s.onChange()
}
