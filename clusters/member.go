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
	// maxMisses is how many probes in a row may fail before a member is disengaged.
	maxMisses = 3
	// maxBackoff bounds the time between two attempts to connect. An attempt costs no more than a probe.
	maxBackoff = 30 * time.Second
	// A session that lasted less than steady has flapped. The next one is then put off by up to maxFlapBackoff, so that
	// a member that comes and goes makes few events and few writes of status.
	steady         = 2 * time.Minute
	maxFlapBackoff = 4 * time.Minute
	// idle is how long a member waits that has nothing to do until its Secret changes.
	idle = time.Hour
)

// expectation is what the hub asks of a member.
type expectation struct {
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

// isNews reports whether an expectation is worth an attempt at once, although one that knew the previous expectation has failed. A
// rival is news only if the owner of the same identity has changed or is gone: which identity a member meets is up to the member, and one
// that alternates its answers must not undo the back-off.
func (e expectation) isNews(previous expectation) bool {
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
	expected expectation
	refusal  *kubeconfig.RejectedError // why the Secret is refused now; nil when it is not
	snapshot snapshot                  // what the member went through

	// Only the goroutine uses these.
	session  *session
	held     *kubeconfig.Config // what the session runs with
	attempt  *attempt
	tried    expectation
	retryAt  time.Time // not to be tried before
	probeAt  time.Time
	surveyAt time.Time
	fails    int // attempts that failed in a row
	flaps    int // sessions that were short, in a row
	misses   int // probes that failed in a row
}

// snapshot is what is known of a member. Verdicts without a status are not known yet.
type snapshot struct {
	ready, credentials verdict
	facts              facts
	expiry             kubeconfig.Expiry
	// contested is the identity that the last attempt met and that belongs to another member.
	contested types.UID
}

func (s snapshot) equal(other snapshot) bool {
	return s.ready == other.ready && s.credentials == other.credentials && s.expiry.Equal(other.expiry) && s.facts.equal(other.facts) &&
		s.contested == other.contested
}

var (
	accepted  = verdict{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the kubeconfig is in use"}
	connected = verdict{metav1.ConditionTrue, v1alpha1.ReasonConnected, "the member answers and its caches are in step"}
)

// expect tells the member what its Secret holds now. A refused kubeconfig changes nothing but what is told.
func (m *member) expect(e expectation, refusal *kubeconfig.RejectedError) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal = refusal
	if refusal != nil {
		return
	}
	if known := m.expected.target; known != nil && known.Equal(e.target) {
		e.target = known
	}
	if m.expected == e {
		return
	}
	m.expected = e
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *member) wanted() expectation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expected
}

// known is what is known of the member: what it went through, and over that, why its Secret is refused.
func (m *member) known() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snapshot
	if m.refusal == nil {
		return s
	}
	s.credentials = verdict{metav1.ConditionFalse, m.refusal.Reason, m.refusal.Message}
	if m.expected.target == nil {
		s.ready = verdict{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "there is no accepted kubeconfig; see condition " + v1alpha1.ConditionCredentialsValid}
	}
	return s
}

// tell changes what is known of the member, and says so when that is news.
func (m *member) tell(change func(*snapshot)) {
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
	defer m.retire()
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
	want := m.wanted()
	if want.target == nil {
		return idle
	}
	if want.isNews(m.tried) { // news is tried at once
		if m.attempt != nil && m.attempt.want.target != want.target {
			m.attempt.supersede()
		}
		m.retryAt, m.fails = time.Time{}, 0
	}
	m.tried = want
	if m.attempt == nil && m.held != want.target && !time.Now().Before(m.retryAt) {
		m.begin(ctx, want)
	}
	if m.session != nil && !time.Now().Before(m.probeAt) {
		m.probeAt = time.Now().Add(m.supervise(ctx))
	}
	if m.session != nil && !time.Now().Before(m.surveyAt) {
		m.surveyAt = time.Now().Add(jitter(surveyInterval))
		go m.survey(m.session)
	}
	return m.untilNextStep()
}

// untilNextStep returns how long nothing is due.
func (m *member) untilNextStep() time.Duration {
	next := idle
	if m.session != nil {
		next = min(next, time.Until(m.probeAt), time.Until(m.surveyAt))
	}
	if m.attempt == nil && m.held != m.tried.target {
		next = min(next, time.Until(m.retryAt))
	}
	return next
}

// failed notes that the member could not be reached with these credentials. A session that goes on stays Ready.
func (s *snapshot) failed(err error, with *kubeconfig.Config, goesOn bool) {
	v := diagnose(err)
	s.contested = ""
	if wrong := new(identityError); errors.As(err, &wrong) {
		s.contested = wrong.contested
	}
	var refusal *kubeconfig.RejectedError
	switch {
	case errors.As(err, &refusal):
		s.credentials = verdict{metav1.ConditionFalse, refusal.Reason, refusal.Message}
	case v.reason == v1alpha1.ReasonUnauthorized && with.HasExpired(time.Now()):
		// What the member says of them is less to the point: they were never accepted, or are no longer.
		s.credentials = verdict{metav1.ConditionFalse, v1alpha1.ReasonExpired,
			"the credentials ended at " + with.Expiry().End.UTC().Format(time.RFC3339) + "; renew the Secret's kubeconfig"}
	case v.reason == v1alpha1.ReasonUnauthorized:
		s.credentials = v
	case goesOn || s.credentials.status != metav1.ConditionTrue:
		s.credentials = verdict{metav1.ConditionUnknown, v1alpha1.ReasonNotVerified, "the kubeconfig could not be tried: " + v.message}
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
	if id != a.previous.facts.id {
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
		return idle
	case err == nil:
		m.misses = 0
		return jitter(m.options.ProbeInterval)
	case !errors.As(err, &wrong) && m.misses+1 < maxMisses:
		m.misses++
		return jitter(m.options.ProbeInterval / 2)
	}
	held := m.held
	m.lose()
	m.tell(func(s *snapshot) { s.failed(err, held, false) })
	return idle
}

// check makes one probe of the session.
func (m *member) check(ctx context.Context) error {
	select {
	case <-m.session.stopped:
		m.misses = maxMisses
		return errors.New("the watches ended")
	default:
	}
	if err := cmp.Or(m.session.broken(), m.session.health.PersistentError(time.Now())); err != nil {
		m.misses = maxMisses // the probe may succeed all the same
		return err
	}
	begun := time.Now()
	id, err := probe(ctx, m.session.connection)
	if err != nil {
		return err
	}
	probeLatency.WithLabelValues(m.name.String()).Set(time.Since(begun).Seconds())
	if id != m.session.facts.id {
		return cmp.Or(m.identify(ctx, id), error(errAnotherCluster))
	}
	return nil
}

// errAnotherCluster ends a session whose server is another cluster now, which is acknowledged to be the member: what is
// cached is the old one's.
var errAnotherCluster = &identityError{reason: v1alpha1.ReasonIdentityChanged, message: "another cluster answers, as acknowledged; it is connected anew"}

// survey reads what seldom changes, in a goroutine of its own, on a session's lifetime.
func (m *member) survey(on *session) {
	found := on.survey(on.ctx, m.known().facts)
	if on.ctx.Err() != nil {
		return
	}
	m.tell(func(s *snapshot) {
		if s.facts.id == found.id {
			s.facts = found
		}
	})
}

// lose ends a session that is not of use any more, and puts off the next: longer, when this one was short.
func (m *member) lose() {
	if time.Since(m.session.since) >= steady {
		m.flaps = 0
	}
	m.retire()
	m.retryAt = time.Now().Add(backoff(m.flaps, maxFlapBackoff))
	m.flaps++
}

// retire ends the session, if there is one.
func (m *member) retire() {
	if m.session == nil {
		return
	}
	m.provider.withdraw(m.name, m.session)
	m.session.close()
	m.session, m.held, m.misses = nil, nil, 0
}

// backoff is how long to wait after so many failures: a second, then twice as long each time, up to a limit.
func backoff(failures int, limit time.Duration) time.Duration {
	return jitter(min(time.Second<<min(failures, 10), limit))
}

// jitter spreads what would else happen at once: a quarter less, or up to a quarter more.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
