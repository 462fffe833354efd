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
	target *target
	// pinned is the cluster that the member is known to be; empty before the first connection.
	pinned types.UID
	// acknowledged is the cluster that it may be from now on.
	acknowledged types.UID
	// rival is the MemberCluster that owns the identity which the last attempt met. When it changes or goes, the member tries again.
	rival owner
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
	refusal  *Refusal // why the Secret is refused now; nil when it is not
	snapshot snapshot // what the member went through

	// Only the goroutine uses these.
	session  *session
	held     *target // what the session runs with
	tried    expectation
	retryAt  time.Time // not to be tried before
	fails    int       // attempts that failed in a row
	flaps    int       // sessions that were short, in a row
	misses   int       // probes that failed in a row
	surveyed time.Time
}

// snapshot is what is known of a member. Verdicts without a status are not known yet.
type snapshot struct {
	ready, credentials verdict
	facts              facts
	expiry             expiry
	// contested is the identity that the last attempt met and that belongs to another member.
	contested types.UID
}

func (s snapshot) equal(other snapshot) bool {
	return s.ready == other.ready && s.credentials == other.credentials && s.expiry.equal(other.expiry) && s.facts.equal(other.facts) &&
		s.contested == other.contested
}

var (
	accepted  = verdict{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the kubeconfig is in use"}
	connected = verdict{metav1.ConditionTrue, v1alpha1.ReasonConnected, "the member answers and its caches are in step"}
)

// expect tells the member what its Secret holds now. A refused kubeconfig changes nothing but what is told.
func (m *member) expect(e expectation, refusal *Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refusal = refusal
	if refusal != nil {
		return
	}
	if known := m.expected.target; known != nil && known.equal(e.target) {
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

// run is the member's goroutine. It ends with the context, and leaves nothing connected.
func (m *member) run(ctx context.Context) {
	defer m.retire()
	for ctx.Err() == nil {
		timer := time.NewTimer(m.step(ctx))
		select {
		case <-ctx.Done():
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// step brings the member one step towards what is wanted, and returns how long to wait before the next.
func (m *member) step(ctx context.Context) time.Duration {
	want := m.wanted()
	if want.target == nil {
		return idle
	}
	if want != m.tried { // news is tried at once
		m.tried, m.retryAt, m.fails = want, time.Time{}, 0
	}
	if m.held != want.target && !time.Now().Before(m.retryAt) {
		m.adopt(ctx, want.target)
	}
	if m.session == nil {
		return time.Until(m.retryAt)
	}
	return m.supervise(ctx)
}

// adopt changes over to what is wanted: make before break.
func (m *member) adopt(ctx context.Context, want *target) {
	var err error
	if m.session != nil && m.held.sameServer(want) {
		err = m.rotate(ctx, want)
	} else {
		err = m.reconnect(ctx, want)
	}
	m.settle()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.retryAt = time.Now().Add(backoff(m.fails, maxBackoff))
		m.fails++
		m.tell(func(s *snapshot) { s.failed(err, m.session != nil) })
	default:
		m.held, m.fails, m.misses = want, 0, 0
		m.tell(func(s *snapshot) {
			s.ready, s.credentials, s.facts, s.expiry, s.contested = connected, accepted, m.session.facts, want.expiry(), ""
		})
	}
}

// failed notes that the member could not be reached with what the Secret holds. A session that goes on stays Ready.
func (s *snapshot) failed(err error, goesOn bool) {
	v := diagnose(err)
	s.contested = ""
	if wrong := new(identityError); errors.As(err, &wrong) {
		s.contested = wrong.contested
	}
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		s.credentials = verdict{metav1.ConditionFalse, refusal.Reason, refusal.Message}
	case v.reason == v1alpha1.ReasonUnauthorized:
		s.credentials = v
	case goesOn || s.credentials.status != metav1.ConditionTrue:
		s.credentials = verdict{metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "the kubeconfig could not be tried: " + v.message}
	}
	if !goesOn {
		s.ready = v
	}
}

// rotate swaps the credentials of the session in place, once they are proven to work on the same cluster.
func (m *member) rotate(ctx context.Context, want *target) error {
	trial := m.options.newConnection(want)
	defer trial.close()
	id, err := probe(ctx, trial)
	if err != nil {
		return err
	}
	if err := m.identify(ctx, id); err != nil {
		return err
	}
	if id != m.session.facts.id { // as acknowledged
		return m.reconnect(ctx, want)
	}
	m.session.connection.rotate(want)
	return nil
}

// reconnect replaces the session by a new one.
func (m *member) reconnect(ctx context.Context, want *target) error {
	next, err := m.connect(ctx, want)
	if err != nil {
		return err
	}
	if err := m.provider.publish(m, next); err != nil {
		next.close()
		return err
	}
	previous := m.session
	m.session, m.surveyed = next, time.Now()
	if previous != nil {
		previous.close()
	}
	connections.WithLabelValues(m.name.String()).Inc()
	return nil
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
		m.refresh(ctx)
		return jitter(m.options.ProbeInterval)
	case !errors.As(err, &wrong) && m.misses+1 < maxMisses:
		m.misses++
		return jitter(m.options.ProbeInterval / 2)
	}
	m.lose()
	m.tell(func(s *snapshot) { s.failed(err, false) })
	return time.Until(m.retryAt)
}

// check makes one probe of the session.
func (m *member) check(ctx context.Context) error {
	select {
	case <-m.session.stopped:
		m.misses = maxMisses
		return errors.New("the watches ended")
	default:
	}
	if err := cmp.Or(m.session.decodable(), m.session.trouble.lasting(time.Now())); err != nil {
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

// refresh surveys the member when it is time.
func (m *member) refresh(ctx context.Context) {
	if time.Since(m.surveyed) < surveyInterval {
		return
	}
	m.surveyed = time.Now()
	m.session.facts = m.session.survey(ctx, m.session.facts)
	m.tell(func(s *snapshot) { s.facts = m.session.facts })
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
