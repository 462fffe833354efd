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
	// maxBackoff bounds the time between two attempts to connect. An attempt costs no more than a probe.
	maxBackoff = 30 * time.Second
	// A session that lasted less than stableAfter has flapped. The next one is then put off by up to maxShortSessionBackoff, so that
	// a member that comes and goes makes few events and few writes of status.
	stableAfter            = 2 * time.Minute
	maxShortSessionBackoff = 4 * time.Minute
	// idle is how long a member waits that has nothing to do until its Secret changes.
	idleInterval = time.Hour
)

// desiredState is what the hub asks of a member.
type desiredState struct {
	// target is the newest accepted kubeconfig; nil before there is one.
	target *kubeconfig.Config
	// pinned is the cluster that the member is known to be; empty before the first connection.
	pinned types.UID
	// acknowledged is the cluster that it may be from now on.
	acknowledged types.UID
	// rival is the owner of the identity that the last attempt met.
	rival rival
}

// rival is the MemberCluster that owns an identity which a member met and may not take.
type rival struct {
	id types.UID
	owner
}

// isNews reports whether an desired is worth an attempt at once, although one that knew the previous desired has failed. A
// rival is news only if the owner of the same identity has changed or is gone: which identity a member meets is up to the member, and one
// that alternates its answers must not undo the back-off.
func (e desiredState) isNews(previous desiredState) bool {
	if e.target != previous.target || e.pinned != previous.pinned || e.acknowledged != previous.acknowledged {
		return true
	}
	return e.rival.id != "" && e.rival.id == previous.rival.id && e.rival != previous.rival
}

// member looks after one member cluster, in one goroutine.
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
	refusal  *kubeconfig.RejectedError // why the Secret is refused now; nil when it is not
	snapshot snapshot                  // what the member went through

	// Only the goroutine uses these.
	session         *session
	activeConfig    *kubeconfig.Config // of the session
	attempt         *attempt
	lastDesired     desiredState
	retryAt         time.Time // not to be tried before
	probeAt         time.Time
	surveyAt        time.Time
	connectFailures int // attempts that failed in a row
	shortSessions   int // sessions in a row that were shorter than stableAfter
	probeFailures   int // probes that failed in a row
}

// snapshot is what is known of a member. Verdicts without a status are not known yet.
type snapshot struct {
	ready, credentials conditionState
	info               clusterInfo
	expiry             kubeconfig.Expiry
	// contestedID is the identity that the last attempt met and that belongs to another member.
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

// expect tells the member what its Secret holds now. A refused kubeconfig changes nothing but what is told.
func (m *member) expect(e desiredState, refusal *kubeconfig.RejectedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal = refusal
	if refusal != nil {
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

// known is what is known of the member: what it went through, and over that, why its Secret is refused.
func (m *member) observed() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snapshot
	if m.refusal == nil {
		return s
	}
	s.credentials = conditionState{metav1.ConditionFalse, m.refusal.Reason, m.refusal.Message}
	if m.desired.target == nil {
		s.ready = conditionState{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "there is no accepted kubeconfig; see condition " + v1alpha1.ConditionCredentialsValid}
	}
	return s
}

// tell changes what is known of the member, and says so when that is news.
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

// run is the member's goroutine. It ends with the context, and leaves nothing connected. It waits for nothing that can take longer than a
// probe: attempts to connect and surveys have goroutines of their own.
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

// step begins what is due, and returns how long to wait before the next step.
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

// untilNextStep returns how long nothing is due.
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

// failed notes that the member could not be reached with these credentials. A session that goes on stays Ready.
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
		// What the member says of them is less to the point: they were never accepted, or are no longer.
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

// rotate proves that the credentials work on the same cluster. It returns a new session only if the cluster is another one, as acknowledged.
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

// supervise asks the member for a sign of life, and returns when to ask again. One that has not given any for some time,
// or is another cluster now, is disengaged: what is cached of it would be of the past when it returns.
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

// check makes one probe of the session.
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

// errAnotherCluster ends a session whose server is another cluster now, which is acknowledged to be the member: what is
// cached is the old one's.
var errAnotherCluster = &identityError{reason: v1alpha1.ReasonIdentityChanged, message: "another cluster answers, as acknowledged; it is connected anew"}

// refreshInfo reads what seldom changes, in a goroutine of its own, on a session's lifetime.
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

// lose ends a session that is not of use any more, and puts off the next: longer, when this one was short.
func (m *member) disconnect() {
	if time.Since(m.session.since) >= stableAfter {
		m.shortSessions = 0
	}
	m.closeSession()
	m.retryAt = time.Now().Add(backoff(m.shortSessions, maxShortSessionBackoff))
	m.shortSessions++
}

// retire ends the session, if there is one.
func (m *member) closeSession() {
	if m.session == nil {
		return
	}
	m.provider.unpublish(m.name, m.session)
	m.session.close()
	m.session, m.activeConfig, m.probeFailures = nil, nil, 0
}

// backoff is how long to wait after so many failures: a second, then twice as long each time, up to a limit.
func backoff(failures int, limit time.Duration) time.Duration {
	return jitter(min(time.Second<<min(failures, 10), limit))
}

// jitter spreads what would else happen at once: a quarter less, or up to a quarter more.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
