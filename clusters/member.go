package clusters

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// maxMisses is how many probes in a row may fail before a member is disengaged.
	maxMisses = 3
	// maxBackoff bounds the time between two attempts to connect. An attempt costs no more than a probe.
	maxBackoff = 30 * time.Second
	// idle is how long a member waits that has nothing to do until its Secret changes.
	idle = time.Hour
)

// member looks after one member cluster, in one goroutine.
type member struct {
	name     multicluster.ClusterName
	options  *Options
	provider *Provider
	log      logr.Logger
	wake     chan struct{}
	cancel   context.CancelFunc

	mu       sync.Mutex
	want     *target  // the newest accepted kubeconfig, nil before there is one
	snapshot snapshot // what is told of the member

	// Only the goroutine uses these.
	held    *target // what the session runs with
	session *session
	misses  int // probes that failed in a row
	failed  *target
	fails   int // attempts that failed in a row for that target
	retryAt time.Time
}

// snapshot is what is known of a member. Verdicts without a status are not known yet.
type snapshot struct {
	ready, credentials verdict
	facts              facts
}

// expect tells the member what its Secret holds now.
func (m *member) expect(t *target, refusal *Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case refusal != nil:
		m.snapshot.credentials = verdict{metav1.ConditionFalse, refusal.Reason, refusal.Message}
		if m.want == nil {
			m.snapshot.ready = verdict{metav1.ConditionFalse, v1alpha1.ReasonNoConnection, "there is no accepted kubeconfig; see condition " + v1alpha1.ConditionCredentialsValid}
		}
		return
	case m.want != nil && m.want.equal(t):
		if m.snapshot.credentials.status == metav1.ConditionFalse && m.snapshot.ready.status == metav1.ConditionTrue {
			m.snapshot.credentials = accepted // a bad edit was taken back
		}
		return
	}
	m.want = t
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

var accepted = verdict{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the kubeconfig is in use"}

func (m *member) wanted() *target {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.want
}

func (m *member) known() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshot
}

// tell changes what is known of the member, and says so when that is news.
func (m *member) tell(change func(*snapshot)) {
	m.mu.Lock()
	before := m.snapshot
	change(&m.snapshot)
	after := m.snapshot
	m.mu.Unlock()
	if after == before {
		return
	}
	if after.ready != before.ready {
		m.log.Info("Readiness changed", "status", after.ready.status, "reason", after.ready.reason, "message", after.ready.message)
	}
	m.provider.changed(m.name)
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
	if want == nil {
		return idle
	}
	if m.held != want && (m.failed != want || !time.Now().Before(m.retryAt)) {
		m.adopt(ctx, want)
	}
	if m.session == nil {
		return time.Until(m.retryAt)
	}
	m.supervise(ctx)
	return jitter(m.options.ProbeInterval)
}

// adopt changes over to what is wanted: make before break.
func (m *member) adopt(ctx context.Context, want *target) {
	var err error
	if m.session != nil && m.held.sameServer(want) {
		err = m.rotate(ctx, want)
	} else {
		err = m.reconnect(ctx, want)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		m.postpone(want)
		m.tell(func(s *snapshot) { s.failed(err, m.session != nil) })
	default:
		m.held, m.failed, m.fails, m.misses = want, nil, 0, 0
		m.tell(func(s *snapshot) {
			s.ready, s.credentials, s.facts = connected, accepted, m.session.facts
		})
	}
}

var connected = verdict{metav1.ConditionTrue, v1alpha1.ReasonConnected, "the member answers and its caches are in step"}

// failed notes that the member could not be reached with what the Secret holds. A session that goes on stays Ready.
func (s *snapshot) failed(err error, goesOn bool) {
	v := diagnose(err)
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

// postpone sets the time of the next attempt: later with each that failed for the same target.
func (m *member) postpone(want *target) {
	if m.failed != want {
		m.failed, m.fails = want, 0
	}
	m.retryAt = time.Now().Add(jitter(min(time.Second<<min(m.fails, 10), maxBackoff)))
	m.fails++
}

// rotate swaps the credentials of the session in place, once they are proven to work.
func (m *member) rotate(ctx context.Context, want *target) error {
	trial := m.options.newConnection(want)
	defer trial.close()
	if _, err := probe(ctx, trial); err != nil {
		return err
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
	if err := m.provider.publish(m.name, next); err != nil {
		m.provider.withdraw(m.name, next)
		next.close()
		return fmt.Errorf("engage: %w", err)
	}
	previous := m.session
	m.session = next
	if previous != nil {
		previous.close()
	}
	return nil
}

// supervise asks the member for a sign of life. One that has not given any for some time is disengaged:
// what is cached of it would be of the past when it returns.
func (m *member) supervise(ctx context.Context) {
	version, err := probe(ctx, m.session.connection)
	select {
	case <-m.session.stopped:
		m.misses = maxMisses
		err = errors.Join(errors.New("the watches ended"), err)
	default:
	}
	switch {
	case ctx.Err() != nil:
	case err == nil:
		m.misses = 0
		m.tell(func(s *snapshot) { s.facts.version = version })
	case m.misses+1 < maxMisses:
		m.misses++
	default:
		m.retire()
		m.postpone(m.wanted())
		m.tell(func(s *snapshot) { s.failed(err, false) })
	}
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

// jitter spreads what would else happen at once: a quarter less, or up to a quarter more.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
