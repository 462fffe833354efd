package clusters

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/stall"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// attempt tries a kubeconfig in a separate goroutine, so that the supervision of the current
// session continues. Make before break: the current session ends only after the attempt has
// succeeded.
type attempt struct {
	want desiredState
	// isRetry is true if the last attempt failed.
	isRetry bool
	// previous is the active session at the start of the attempt; nil if there was none. The
	// attempt reads only its identity.
	previous *activeSession
	cancel   context.CancelFunc
	// probe is the attempt itself, as a probe of the member.
	probe startedProbe
	// decided is set when the attempt is cancelled, or can no longer be cancelled because its
	// session is about to be published.
	decided atomic.Bool

	// done is closed when the attempt has ended. The result may be read only after that.
	done chan struct{}
	// session is the new session. It is nil if the credentials of the previous session work and can
	// be swapped in place.
	session *session
	err     error
}

// startAttempt starts an attempt.
func (m *member) startAttempt(ctx context.Context, want desiredState) {
	ctx, cancel := context.WithCancel(ctx)
	a := &attempt{want: want, isRetry: m.backoff.attempts != attemptBackoff, previous: m.active, cancel: cancel, probe: startProbe(m.options.clock, time.Now()), done: make(chan struct{})}
	swap := m.active != nil && m.active.config.SameServer(want.config)
	m.attempt = a
	go func() {
		defer close(a.done)
		if swap {
			a.session, a.err = m.rotate(ctx, a)
		} else {
			a.session, a.err = m.reconnect(ctx, a)
		}
	}()
}

// try probes the member with other credentials, and returns its identity. It returns an error if
// the member does not accept the credentials, or may not be this member.
func (m *member) try(ctx context.Context, config *kubeconfig.Config) (types.UID, error) {
	trial := transport.New(config, m.options.transport())
	defer trial.Close()
	id, err := probe(ctx, trial)
	if err != nil {
		return "", err
	}
	return id, m.identify(ctx, id)
}

// rotate verifies that the credentials work on the same cluster. It returns a new session only for
// another cluster that is acknowledged.
func (m *member) rotate(ctx context.Context, a *attempt) (*session, error) {
	id, err := m.try(ctx, a.want.config)
	if err != nil {
		return nil, err
	}
	if id != a.previous.info.id {
		return m.reconnect(ctx, a)
	}
	return nil, nil
}

// reconnect connects, publishes the new session and returns it.
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
		return nil, err
	}
	return next, nil
}

// ended returns a channel that is closed when the attempt has ended, or nil if there is no attempt.
func (a *attempt) ended() <-chan struct{} {
	if a == nil {
		return nil
	}
	return a.done
}

// supersede cancels the attempt, unless its session is about to be published.
func (a *attempt) supersede() {
	if a != nil && !a.decided.Swap(true) {
		a.cancel()
	}
}

// finishAttempt processes the result of the attempt.
// docs/decisions/a-failed-session-leaves-the-running-one.md says why.
func (m *member) finishAttempt(ctx context.Context) {
	a := m.attempt
	m.attempt = nil
	if a.session == nil {
		a.cancel()
	} else {
		m.activate(a)
	}
	m.releaseUnusedClaims()
	if m.backoff.lastDesired.endsBackoff(a.want) {
		// The latest desired state was not tried yet. A session that failed meanwhile does not delay it.
		m.backoff.retryAt = time.Time{}
	}
	switch {
	case ctx.Err() != nil:
	case a.err != nil:
		m.delayNextAttempt(a)
	case a.session == nil && m.active != a.previous:
		// The session was closed meanwhile; the next step connects.
	default:
		if a.session == nil {
			m.active.connection.Rotate(a.want.config)
			m.active.config, m.active.probes = a.want.config, stall.Streak{}
			m.active.scheduleProbe(m.options.ProbeInterval)
		}
		m.backoff.attempts, m.backoff.probes = attemptBackoff, stall.Streak{}
		m.shared.update(func(s *snapshot) {
			s.ready, s.credentials, s.expiry, s.contestedID = memberConnected, credentialsAccepted, a.want.config.Expiry(), ""
			s.renewalFailure = ""
			if id := m.active.info.id; s.info.id != id { // otherwise the info stays
				s.info = clusterInfo{id: id}
			}
		})
	}
}

// delayNextAttempt delays the next attempt. The failure of an attempt that did not know the latest
// desired state says nothing about that state, and one that this process may have caused says
// nothing about the member.
func (m *member) delayNextAttempt(a *attempt) {
	if m.shared.latestDesired().endsBackoff(a.want) {
		return
	}
	m.backoff.retryAt = time.Now().Add(m.backoff.attempts.Step())
	if m.backoff.probes.Add(a.probe.end(a.err)) == stall.Inconclusive {
		m.log.V(1).Info("An attempt to connect was inconclusive", "reason", transport.SafeMessage(a.err))
		return
	}
	m.shared.update(func(s *snapshot) { s.recordFailure(a.err, a.want.config, m.active != nil) })
	if m.active == nil && m.backoff.probes.IsLost() {
		m.options.OnUnreachable(m.name.String())
	}
}

// activate makes the session of an attempt the active one. Its cluster info is read at once.
func (m *member) activate(a *attempt) {
	previous := m.active
	m.active = &activeSession{
		session: a.session, config: a.want.config,
		probeTimer: time.NewTimer(m.options.ProbeInterval), infoTimer: time.NewTimer(0),
	}
	m.active.scheduleProbe(m.options.ProbeInterval)
	if previous != nil {
		previous.close()
	}
	connectionsTotal.WithLabelValues(m.name.String()).Inc()
}

// abortAttempt ends the attempt, if there is one, and closes its session.
func (m *member) abortAttempt() {
	if m.attempt == nil {
		return
	}
	m.attempt.cancel()
	<-m.attempt.done
	if next := m.attempt.session; next != nil {
		m.provider.unpublish(m.name, next)
		next.close()
	}
	m.attempt = nil
}
