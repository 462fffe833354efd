package clusters

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/stall"
)

const (
	// A session that lasted less than stableAfter is short; see sessionBackoff.
	stableAfter = 2 * time.Minute
	// Intervals are up to maxJitter longer, as a share of their length.
	maxJitter = 0.25
)

var (
	// attemptBackoff is the time between two attempts that fail. An attempt costs no more than a
	// probe.
	attemptBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: maxJitter, Steps: 10, Cap: 30 * time.Second}
	// sessionBackoff is the time between the end of a session and the next attempt. It grows with
	// short sessions, so that a member that flaps causes few events and few status writes.
	sessionBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: maxJitter, Steps: 10, Cap: 4 * time.Minute}
)

// member supervises one member cluster in one goroutine; supervise.go has its states.
type member struct {
	name     multicluster.ClusterName
	secret   types.NamespacedName
	options  *Options
	provider *Provider
	log      logr.Logger
	wake     chan struct{}
	cancel   context.CancelFunc

	mu       sync.Mutex
	desired  desiredState
	rejected *kubeconfig.RejectedError // why the Secret is rejected, or nil
	snapshot snapshot                  // of the connection

	// Only the member's goroutine uses the following fields.

	// active is the session in use; nil if the member is not connected.
	active *activeSession
	// attempt is the attempt that is running; nil if there is none.
	attempt *attempt
	backoff backoffState
	// renewal is the renewal of the token that is running; nil if there is none.
	renewal  *renewal
	renewals renewalBackoff
}

// backoffState determines when the next attempt may start.
type backoffState struct {
	// lastDesired is the desired state that attemptIfDue read last.
	lastDesired desiredState
	// retryAt is the earliest time of the next attempt.
	retryAt time.Time
	// attempts has the next delay after a failed attempt, sessions after a session.
	attempts, sessions wait.Backoff
	// probes is what the attempts have shown since the last one that succeeded.
	probes stall.Record
}

// setDesired gives the member a new desired state. A rejected kubeconfig changes only what is
// reported.
func (m *member) setDesired(d desiredState, rejected *kubeconfig.RejectedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = rejected
	if rejected != nil {
		return
	}
	if known := m.desired.config; known != nil && known.Equal(d.config) {
		d.config = known
	}
	if m.desired == d {
		return
	}
	m.desired = d
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *member) latestDesired() desiredState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired
}

// latestAccepted returns the desired state, and false if the Secret has a newer kubeconfig that is
// rejected.
func (m *member) latestAccepted() (desiredState, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.desired, m.rejected == nil
}

// observed returns the snapshot of the member, including the reason if its Secret is rejected.
func (m *member) observed() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snapshot
	s.renewal = m.desired.renewal
	if m.rejected == nil {
		return s
	}
	s.credentials = conditionState{metav1.ConditionFalse, m.rejected.Reason, m.rejected.Message}
	if m.desired.config == nil {
		s.ready = conditionState{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "there is no accepted kubeconfig; see condition " + v1alpha1.ConditionCredentialsValid}
	}
	return s
}

// update changes the snapshot of the member, and reports the change to the reconciler.
func (m *member) update(change func(*snapshot)) {
	m.mu.Lock()
	before := m.snapshot
	change(&m.snapshot)
	after := m.snapshot
	m.mu.Unlock()
	if after.equal(before) {
		return
	}
	if after.ready != before.ready {
		m.log.Info("Readiness changed", "status", after.ready.status, "reason", after.ready.reason, "message", after.ready.message)
	}
	m.provider.onSnapshotChange(m.secret)
}
