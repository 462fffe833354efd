package transport

import (
	"context"
	"errors"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/fleetwright/fleetwright/clusters/stall"
)

// WatchMonitor is a RoundTripper that records failures which reflectors retry without calling their
// error handler: no response, 429, 5xx, 410, and watches that end as soon as they begin. It also
// ends lists and watches that hang.
type WatchMonitor struct {
	Next   http.RoundTripper
	Health *WatchHealth
	// Clock measures the stalls of this process; nil means none.
	Clock *stall.Clock
	// Timeout limits how long the hub waits for a response that ends.
	Timeout time.Duration
	// Connecting limits how long the hub waits for the first lists; nil means no limit.
	Connecting *Timer
}

// minListRate is the rate in bytes per second at which a list must progress to be allowed more than
// its timeout.
const minListRate = 512 << 10

// The response to a healthy watch begins within watchResponseTime, and the watch lasts at least
// shortWatch.
const (
	watchResponseTime = 5 * time.Second
	shortWatch        = time.Second
)

var (
	errShortWatch  = errors.New("they end immediately")
	errSlowList    = errors.New("a list does not complete")
	errSilentWatch = errors.New("they send nothing, not even bookmarks")
)

// RoundTrip sends the request.
func (m *WatchMonitor) RoundTrip(request *http.Request) (*http.Response, error) {
	switch watch := isWatch(request); {
	case request.Method == http.MethodGet && !watch:
		return m.roundTripList(request)
	case !watch:
		return m.Next.RoundTrip(request)
	case !IsRequired(request.Context()):
		return m.roundTripOptionalWatch(request)
	}
	return m.roundTripRequiredWatch(request)
}

// roundTripRequiredWatch sends a watch that is required for the engagement of the member.
func (m *WatchMonitor) roundTripRequiredWatch(request *http.Request) (*http.Response, error) {
	kind := requiredKind(request.Context())
	record := func(err error) { m.Health.recordFailure(kind, err, time.Now()) }
	onLate := func() { record(context.DeadlineExceeded) }
	timer := NewTimer(m.Clock, watchResponseTime, onLate)
	body := &requiredWatchBody{kind: kind, health: m.Health}
	body.watchBody = m.newWatchBody(func() { m.Health.markFailed(kind, errSilentWatch) })
	response, err := m.Next.RoundTrip(request.WithContext(withTimers(request.Context(), body.silence)))
	timer.Stop()
	switch {
	case utilnet.IsTimeout(err):
		onLate()
	case utilnet.IsProbableEOF(err):
		record(err)
	case err != nil:
	case isRetriedSilently(response.StatusCode), response.StatusCode == http.StatusGone:
		record(&StatusError{Code: response.StatusCode})
	case response.StatusCode == http.StatusOK:
		body.attach(response.Body)
		response.Body = body
		return response, nil
	}
	body.silence.Stop()
	return response, err
}

// isRetriedSilently reports whether client-go retries a status code without calling an error
// handler.
func isRetriedSilently(code int) bool {
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// roundTripOptionalWatch sends a watch of a kind whose informer was requested later. A silent watch
// is ended and restarted, and does not count as a failure.
func (m *WatchMonitor) roundTripOptionalWatch(request *http.Request) (*http.Response, error) {
	var body *watchBody
	body = m.newWatchBody(func() { _ = body.ReadCloser.Close() })
	response, err := m.Next.RoundTrip(request.WithContext(withTimers(request.Context(), body.silence)))
	if err != nil || response.StatusCode != http.StatusOK {
		body.silence.Stop()
		return response, err
	}
	body.attach(response.Body)
	response.Body = body
	return response, nil
}

// roundTripList sends a request whose response ends. The wait is limited, because a list that hangs
// would leave the cache outdated. A list that makes progress may take longer, and the time in which
// the hub throttles it does not count.
func (m *WatchMonitor) roundTripList(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	b := &deadlineBody{health: m.Health, ctx: ctx, cancel: cancel}
	b.timers = []*Timer{NewTimer(m.Clock, m.Timeout, func() { cancel(context.DeadlineExceeded) })}
	if m.Connecting != nil && IsRequired(ctx) {
		b.timers = append(b.timers, m.Connecting)
	}
	response, err := m.Next.RoundTrip(request.WithContext(withTimers(ctx, b.timers...)))
	if err != nil {
		err = timeoutOr(ctx, err)
		b.end()
		return nil, err
	}
	if code := response.StatusCode; IsRequired(ctx) && isRetriedSilently(code) {
		m.Health.recordFailure(requiredKind(ctx), &StatusError{Code: code}, time.Now())
	}
	b.ReadCloser, response.Body = response.Body, b
	return response, nil
}

// WrappedRoundTripper returns the next transport, so that client-go can find it.
func (m *WatchMonitor) WrappedRoundTripper() http.RoundTripper { return m.Next }
