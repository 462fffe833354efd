package clusters

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

const (
	// A member is disengaged after maxProbeFailures failed probes in a row.
	maxProbeFailures = 3
	// maxBackoff limits the time between two connection attempts. An attempt costs no more than a
	// probe.
	maxBackoff = 30 * time.Second
	// A session that lasted less than stableAfter is short. The next session is then delayed by up
	// to maxShortSessionBackoff, so that a member that flaps causes few events and few status
	// writes.
	stableAfter            = 2 * time.Minute
	maxShortSessionBackoff = 4 * time.Minute
	// idleInterval is how long a member without a kubeconfig sleeps; a change of its Secret wakes
	// it.
	idleInterval = time.Hour
)

// member supervises one member cluster in one goroutine.
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

	// Only the member's goroutine uses these.
	session         *session
	activeConfig    *kubeconfig.Config // of the session
	attempt         *attempt
	lastDesired     desiredState
	retryAt         time.Time // the earliest time of the next attempt
	probeAt         time.Time
	surveyAt        time.Time
	connectFailures int // attempts that failed in a row
	shortSessions   int // sessions in a row that were shorter than stableAfter
	probeFailures   int // probes that failed in a row
}

// setDesired gives the member a new desired state. A rejected kubeconfig changes only what is
// reported.
func (m *member) setDesired(e desiredState, rejected *kubeconfig.RejectedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = rejected
	if rejected != nil {
		return
	}
	if known := m.desired.config; known != nil && known.Equal(e.config) {
		e.config = known
	}
	if m.desired == e {
		return
	}
	m.desired = e
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

// observed returns the snapshot of the member, including the reason if its Secret is rejected.
func (m *member) observed() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snapshot
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
	m.provider.changed(m.secret)
}

// run is the member's goroutine. When the context ends, it closes everything and returns. It waits
// only for operations that take no longer than a probe: connection attempts and reads of the
// cluster info have separate goroutines.
func (m *member) run(ctx context.Context) {
	defer m.closeSession()
	defer m.abort()
	for ctx.Err() == nil {
		timer := time.NewTimer(m.step(ctx))
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-m.attempt.ended():
			m.finish(ctx)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step starts the operations that are due, and returns the time until the next step.
func (m *member) step(ctx context.Context) time.Duration {
	want := m.latestDesired()
	if want.config == nil {
		return idleInterval
	}
	if want.isNews(m.lastDesired) { // a new state is tried at once
		if m.attempt != nil && m.attempt.want.config != want.config {
			m.attempt.supersede()
		}
		m.retryAt, m.connectFailures = time.Time{}, 0
	}
	m.lastDesired = want
	if m.attempt == nil && m.activeConfig != want.config && !time.Now().Before(m.retryAt) {
		m.begin(ctx, want)
	}
	if m.session != nil && !time.Now().Before(m.probeAt) {
		m.probeAt = time.Now().Add(m.supervise(ctx))
	}
	if m.session != nil && !time.Now().Before(m.surveyAt) {
		m.surveyAt = time.Now().Add(jitter(surveyInterval))
		go m.refreshInfo(m.session)
	}
	return m.untilNextStep()
}

// untilNextStep returns the time until the next operation is due.
func (m *member) untilNextStep() time.Duration {
	next := idleInterval
	if m.session != nil {
		next = min(next, time.Until(m.probeAt), time.Until(m.surveyAt))
	}
	if m.attempt == nil && m.activeConfig != m.lastDesired.config {
		next = min(next, time.Until(m.retryAt))
	}
	return next
}
