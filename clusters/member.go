package clusters

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

const (
	// maxProbeFailures is how many probes in a row may fail before a member is disengaged.
	maxProbeFailures = 3
	// maxBackoff bounds the time between two attempts to connect. An attempt costs no more than a
	// probe.
	maxBackoff = 30 * time.Second
	// A session that lasted less than stableAfter is short. The next one is delayed by up to
	// maxShortSessionBackoff, so that a member that comes and goes causes few events and few status
	// writes.
	stableAfter            = 2 * time.Minute
	maxShortSessionBackoff = 4 * time.Minute
	// idleInterval is how long a member without a kubeconfig sleeps; a change of its Secret wakes
	// it.
	idleInterval = time.Hour
)

// desiredState is what the reconciler wants of a member.
type desiredState struct {
	// target is the newest accepted kubeconfig; nil before there is one.
	target *kubeconfig.Config
	// pinned is the identity of the member; empty before the first connection.
	pinned types.UID
	// acknowledged is another identity that the member may have from now on.
	acknowledged types.UID
	// rival is the owner of the identity that the last attempt met.
	rival rival
}

// rival is the owner of an identity that a member met and that belongs to another MemberCluster.
type rival struct {
	id types.UID
	owner
}

// isNews reports whether a state justifies an attempt at once, even if one with the previous state
// has just failed. A rival is news only if the owner of the same identity has changed or is gone.
// The member decides which identity it shows, so a member that alternates its answers must not
// reset the back-off.
func (e desiredState) isNews(previous desiredState) bool {
	if e.target != previous.target || e.pinned != previous.pinned || e.acknowledged != previous.acknowledged {
		return true
	}
	return e.rival.id != "" && e.rival.id == previous.rival.id && e.rival != previous.rival
}

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
	rejected *kubeconfig.RejectedError // why the Secret is rejected; nil if it is not
	snapshot snapshot                  // of the connection

	// Only the goroutine uses these.
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

// snapshot is what is known of a member. A condition state without a status is not known yet.
type snapshot struct {
	ready, credentials conditionState
	info               clusterInfo
	expiry             kubeconfig.Expiry
	// contestedID is the identity that the last attempt met, if it belongs to another member.
	contestedID types.UID
}

func (s snapshot) equal(other snapshot) bool {
	return s.ready == other.ready && s.credentials == other.credentials && s.expiry.Equal(other.expiry) && s.info.equal(other.info) &&
		s.contestedID == other.contestedID
}

var (
	accepted  = conditionState{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the kubeconfig is in use"}
	connected = conditionState{metav1.ConditionTrue, v1alpha1.ReasonConnected, "the member answers and its caches are in step"}
)

// setDesired gives the member a new desired state. A rejected kubeconfig changes only what is
// reported.
func (m *member) setDesired(e desiredState, rejected *kubeconfig.RejectedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejected = rejected
	if rejected != nil {
		return
	}
	if known := m.desired.target; known != nil && known.Equal(e.target) {
		e.target = known
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

// observed returns the snapshot of the member, and in it why its Secret is rejected, if it is.
func (m *member) observed() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snapshot
	if m.rejected == nil {
		return s
	}
	s.credentials = conditionState{metav1.ConditionFalse, m.rejected.Reason, m.rejected.Message}
	if m.desired.target == nil {
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

// run is the member's goroutine. It ends with the context and closes everything. It waits for
// nothing that can take longer than a probe: attempts to connect and cluster info have goroutines
// of their own.
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

// step starts what is due, and returns the time until the next step.
func (m *member) step(ctx context.Context) time.Duration {
	want := m.latestDesired()
	if want.target == nil {
		return idleInterval
	}
	if want.isNews(m.lastDesired) { // news is tried at once
		if m.attempt != nil && m.attempt.want.target != want.target {
			m.attempt.supersede()
		}
		m.retryAt, m.connectFailures = time.Time{}, 0
	}
	m.lastDesired = want
	if m.attempt == nil && m.activeConfig != want.target && !time.Now().Before(m.retryAt) {
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

// untilNextStep returns the time until something is due.
func (m *member) untilNextStep() time.Duration {
	next := idleInterval
	if m.session != nil {
		next = min(next, time.Until(m.probeAt), time.Until(m.surveyAt))
	}
	if m.attempt == nil && m.activeConfig != m.lastDesired.target {
		next = min(next, time.Until(m.retryAt))
	}
	return next
}

// failed records that the member could not be reached with these credentials. It stays Ready if a
// session goes on.
func (s *snapshot) failed(err error, with *kubeconfig.Config, goesOn bool) {
	v := conditionFor(err)
	s.contestedID = ""
	if wrong := new(identityError); errors.As(err, &wrong) {
		s.contestedID = wrong.contestedID
	}
	var refusal *kubeconfig.RejectedError
	switch {
	case errors.As(err, &refusal):
		s.credentials = conditionState{metav1.ConditionFalse, refusal.Reason, refusal.Message}
	case v.reason == v1alpha1.ReasonUnauthorized && with.HasExpired(time.Now()):
		// This explains more than the answer of the member.
		s.credentials = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExpired,
			"the credentials ended at " + with.Expiry().End.UTC().Format(time.RFC3339) + "; renew the Secret's kubeconfig"}
	case v.reason == v1alpha1.ReasonUnauthorized:
		s.credentials = v
	case goesOn || s.credentials.status != metav1.ConditionTrue:
		s.credentials = conditionState{metav1.ConditionUnknown, v1alpha1.ReasonNotVerified, "the kubeconfig could not be tried: " + v.message}
	}
	if !goesOn {
		s.ready = v
	}
}

// rotate verifies that the credentials work on the same cluster. It returns a new session only for
// another cluster that is acknowledged.
func (m *member) rotate(ctx context.Context, a *attempt) (*session, error) {
	trial := transport.New(a.want.target, m.options.transport())
	defer trial.Close()
	id, err := probe(ctx, trial)
	if err != nil {
		return nil, err
	}
	if err := m.identify(ctx, id); err != nil {
		return nil, err
	}
	if id != a.previous.info.id {
		return m.reconnect(ctx, a)
	}
	return nil, nil
}

// reconnect returns a new session that is published.
func (m *member) reconnect(ctx context.Context, a *attempt) (*session, error) {
	next, err := m.connect(ctx, a)
	if err != nil {
		return nil, err
	}
	if a.decided.Swap(true) {
		next.close()
		return nil, context.Canceled
	}
	if err := m.provider.publish(m, next); err != nil {
		next.close()
		return nil, err
	}
	return next, nil
}

// supervise checks the session, and returns when to check again. It disconnects a member that does
// not answer or is another cluster now, because its cache would be outdated when it returns.
func (m *member) supervise(ctx context.Context) time.Duration {
	err := m.check(ctx)
	var wrong *identityError
	switch {
	case ctx.Err() != nil:
		return idleInterval
	case err == nil:
		m.probeFailures = 0
		return jitter(m.options.ProbeInterval)
	case !errors.As(err, &wrong) && m.probeFailures+1 < maxProbeFailures:
		m.probeFailures++
		return jitter(m.options.ProbeInterval / 2)
	}
	held := m.activeConfig
	m.disconnect()
	m.update(func(s *snapshot) { s.failed(err, held, false) })
	return idleInterval
}

// check returns why the session is not healthy, or nil.
func (m *member) check(ctx context.Context) error {
	select {
	case <-m.session.stopped:
		m.probeFailures = maxProbeFailures
		return errors.New("the watches ended")
	default:
	}
	if err := cmp.Or(m.session.broken(), m.session.health.PersistentError(time.Now())); err != nil {
		m.probeFailures = maxProbeFailures // the probe may succeed all the same
		return err
	}
	begun := time.Now()
	id, err := probe(ctx, m.session.connection)
	if err != nil {
		return err
	}
	probeLatency.WithLabelValues(m.name.String()).Set(time.Since(begun).Seconds())
	if id != m.session.info.id {
		return cmp.Or(m.identify(ctx, id), error(errAnotherCluster))
	}
	return nil
}

// errAnotherCluster ends a session whose server is another cluster now. That cluster is
// acknowledged, but the cache is of the old one.
var errAnotherCluster = &identityError{reason: v1alpha1.ReasonIdentityChanged, message: "another cluster answers, as acknowledged; it is connected anew"}

// refreshInfo reads the cluster info. It runs in a goroutine of its own that ends with the session.
func (m *member) refreshInfo(on *session) {
	found := on.readClusterInfo(on.ctx, m.observed().info)
	if on.ctx.Err() != nil {
		return
	}
	m.update(func(s *snapshot) {
		if s.info.id == found.id {
			s.info = found
		}
	})
}

// disconnect closes the session and delays the next one, longer if this one was short.
func (m *member) disconnect() {
	if time.Since(m.session.since) >= stableAfter {
		m.shortSessions = 0
	}
	m.closeSession()
	m.retryAt = time.Now().Add(backoff(m.shortSessions, maxShortSessionBackoff))
	m.shortSessions++
}

// closeSession closes the session, if there is one.
func (m *member) closeSession() {
	if m.session == nil {
		return
	}
	m.provider.unpublish(m.name, m.session)
	m.session.close()
	m.session, m.activeConfig, m.probeFailures = nil, nil, 0
}

// backoff returns the delay after so many failures: a second, doubled with each failure, up to a
// limit, with jitter.
func backoff(failures int, limit time.Duration) time.Duration {
	return jitter(min(time.Second<<min(failures, 10), limit))
}

// jitter returns a duration that is up to a quarter shorter or longer.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
