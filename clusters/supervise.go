package clusters

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// supervise checks the session, and returns when to check again. It disconnects a member that does
// not respond or is another cluster now, because its cache would be outdated when it returns.
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
	config := m.activeConfig
	m.disconnect()
	m.update(func(s *snapshot) { s.failed(err, config, false) })
	return idleInterval
}

// check returns why the session is unhealthy, or nil.
func (m *member) check(ctx context.Context) error {
	select {
	case <-m.session.stopped:
		m.probeFailures = maxProbeFailures
		return errors.New("the watches ended")
	default:
	}
	if err := cmp.Or(m.session.broken(), m.session.health.PersistentError(time.Now())); err != nil {
		m.probeFailures = maxProbeFailures // although a probe may succeed
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

// errAnotherCluster ends a session whose server is now another cluster. That cluster is
// acknowledged, but the cache belongs to the old one.
var errAnotherCluster = &identityError{reason: v1alpha1.ReasonIdentityChanged, message: "another cluster answers, as acknowledged; it is connected anew"}

// refreshInfo reads the cluster info. It runs in a separate goroutine that ends with the session.
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

// disconnect closes the session and delays the next one, for longer if this session was short.
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

// backoff returns the delay after this many failures: one second, doubled with each failure, up to
// a limit, with jitter.
func backoff(failures int, limit time.Duration) time.Duration {
	return jitter(min(time.Second<<min(failures, 10), limit))
}

// jitter returns a duration that is up to a quarter shorter or longer.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
