package clusters

import (
	"cmp"
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/stall"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// The goroutine of a member is a state machine:
//
//	Idle ── first kubeconfig ──▶ Connecting ── synced, engaged ──▶ Connected
//	                              │      ▲                             │
//	                       failed │      │ back-off ended,             │ session failed,
//	                              ▼      │ or new desired state        │ 3 failed probes,
//	                             BackingOff ◀──────────────────────────┘ or another cluster
//
// A Connected member tries a new kubeconfig in an attempt with the same back-off. Its session
// continues until that attempt has succeeded.

// memberState is the state of a member's goroutine. It follows from the fields of the member, so no
// flag can contradict them.
type memberState string

const (
	stateIdle       memberState = "Idle"       // no kubeconfig was accepted yet
	stateConnecting memberState = "Connecting" // there is an attempt, and no session
	stateConnected  memberState = "Connected"  // there is a session
	stateBackingOff memberState = "BackingOff" // there is no session, and no attempt before retryAt
)

// state returns the state of the member's goroutine.
func (m *member) state() memberState {
	switch {
	case m.active != nil:
		return stateConnected
	case m.attempt != nil:
		return stateConnecting
	case m.backoff.lastDesired.config != nil:
		return stateBackingOff
	}
	return stateIdle
}

// activeSession is the session in use, and its supervision.
type activeSession struct {
	*session
	// config is the kubeconfig of the session, including credentials that were swapped in place.
	config *kubeconfig.Config
	// probes is what the probes have shown.
	probes stall.Streak
	// probeTimer and infoTimer fire when the next probe and the next read of the cluster info are
	// due. probeTime is when that probe is due.
	probeTimer, infoTimer *time.Timer
	probeTime             time.Time
}

// scheduleProbe schedules the next probe.
func (a *activeSession) scheduleProbe(after time.Duration) {
	after = wait.Jitter(after, maxJitter)
	a.probeTime = time.Now().Add(after)
	a.probeTimer.Reset(after)
}

// failureSignal returns a channel with a value if the session may have failed, or nil if there is
// no session.
func (a *activeSession) failureSignal() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.failed
}

// probeDue returns the channel of the probe timer, or nil if there is no session.
func (a *activeSession) probeDue() <-chan time.Time {
	if a == nil {
		return nil
	}
	return a.probeTimer.C
}

// infoDue returns the channel of the timer for the cluster info, or nil if there is no session.
func (a *activeSession) infoDue() <-chan time.Time {
	if a == nil {
		return nil
	}
	return a.infoTimer.C
}

// run is the member's goroutine. When the context ends, it closes everything and returns. It waits
// only for operations that take no longer than a probe: connection attempts, renewals of the token
// and reads of the cluster info have separate goroutines.
// docs/decisions/supervising-never-waits.md says why.
func (m *member) run(ctx context.Context) {
	defer m.renewer.abort()
	defer m.closeSession()
	defer m.abortAttempt()
	for last := stateIdle; ctx.Err() == nil; {
		m.attemptIfDue(ctx)
		if now := m.state(); now != last {
			m.log.V(1).Info("State changed", "from", last, "to", now)
			last = now
		}
		select {
		case <-ctx.Done():
		case <-m.shared.wake: // the next attemptIfDue reads the new desired state
		case <-m.retryDue():
		case <-m.attempt.ended():
			m.finishAttempt(ctx)
		case <-m.active.failureSignal():
			m.disconnectIfFailed()
		case <-m.active.probeDue():
			m.checkHealth(ctx)
		case <-m.renewer.due():
			m.renewer.start()
		case <-m.renewer.running.ended():
			m.renewer.finish(ctx)
		case <-m.active.infoDue():
			m.active.infoTimer.Reset(wait.Jitter(infoInterval, maxJitter))
			go m.refreshInfo(m.active.session)
		}
	}
}

// attemptIfDue starts an attempt if the desired kubeconfig is not in use. A new desired state ends
// the back-off, and replaces an attempt with another kubeconfig.
func (m *member) attemptIfDue(ctx context.Context) {
	want := m.shared.latestDesired()
	if want.endsBackoff(m.backoff.lastDesired) {
		if m.attempt != nil && m.attempt.want.config != want.config {
			m.attempt.supersede()
		}
		m.backoff.retryAt, m.backoff.attempts = time.Time{}, attemptBackoff
	}
	m.backoff.lastDesired = want
	if m.needsAttempt() && !time.Now().Before(m.backoff.retryAt) {
		m.startAttempt(ctx, want)
	}
}

// needsAttempt reports whether the desired kubeconfig is not in use, and no attempt is running.
func (m *member) needsAttempt() bool {
	want := m.backoff.lastDesired.config
	return want != nil && m.attempt == nil && (m.active == nil || m.active.config != want)
}

// retryDue returns a channel that receives a value when the back-off ends, or nil if no attempt is
// needed.
func (m *member) retryDue() <-chan time.Time {
	if !m.needsAttempt() {
		return nil
	}
	return time.After(time.Until(m.backoff.retryAt))
}

// disconnectIfFailed disconnects the member if its session has failed, and reports whether it did.
func (m *member) disconnectIfFailed() bool {
	err := m.active.failure(time.Now())
	if err != nil {
		m.disconnect(err)
	}
	return err != nil
}

// checkHealth disconnects a member whose session has failed, that is another cluster now, or that
// has failed too many probes in a row, because its cache would be outdated when it returns. A
// session can fail although the probes succeed. Package stall decides what a probe says.
func (m *member) checkHealth(ctx context.Context) {
	if m.disconnectIfFailed() {
		return
	}
	probed := startProbe(m.options.clock, m.active.probeTime)
	err := m.probeSession(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case errors.As(err, new(*identityError)):
		m.disconnect(err)
		return
	}
	switch outcome := m.active.probes.Add(probed.end(err)); {
	case outcome == stall.Alive:
		m.active.scheduleProbe(m.options.ProbeInterval)
	case m.active.probes.IsLost():
		m.disconnect(err)
	default:
		m.log.V(1).Info("A probe was not answered", "outcome", outcome, "reason", transport.SafeMessage(err))
		m.active.scheduleProbe(m.options.ProbeInterval / 2)
	}
}

// probeSession probes the member. It returns an identityError if another cluster answers.
func (m *member) probeSession(ctx context.Context) error {
	start := time.Now()
	id, err := probe(ctx, m.active.connection)
	if err != nil {
		return err
	}
	m.active.lastAnswer.Store(start.UnixNano())
	probeLatency.WithLabelValues(m.name.String()).Set(time.Since(start).Seconds())
	if id != m.active.info.id {
		return cmp.Or(m.identify(ctx, id), error(errAnotherCluster))
	}
	return nil
}

// errAnotherCluster ends a session whose server is now another cluster. That cluster is
// acknowledged, but the cache belongs to the old one.
var errAnotherCluster = &identityError{reason: v1alpha1.ReasonIdentityChanged, message: "another cluster answers, as acknowledged; it is connected again"}

// refreshInfo reads the cluster info. It runs in a separate goroutine that ends with the session.
func (m *member) refreshInfo(on *session) {
	found := on.readClusterInfo(on.ctx, m.shared.observed().info)
	if on.ctx.Err() != nil {
		return
	}
	m.shared.update(func(s *snapshot) {
		if s.info.id == found.id {
			s.info = found
		}
	})
}

// disconnect closes the session because of an error, and delays the next attempt, for longer if
// this session was short.
func (m *member) disconnect(why error) {
	config := m.active.config
	if time.Since(m.active.since) >= stableAfter {
		m.backoff.sessions = sessionBackoff
	}
	m.closeSession()
	m.backoff.retryAt = time.Now().Add(m.backoff.sessions.Step())
	m.shared.update(func(s *snapshot) { s.recordFailure(why, config, false) })
}

// closeSession closes the session, if there is one.
func (m *member) closeSession() {
	if m.active == nil {
		return
	}
	m.active.close() // first, so that an attempt that fails meanwhile does not put it back
	m.provider.unpublish(m.name, m.active.session)
	m.active = nil
}
