package transport

import (
	"context"
	"errors"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// WatchMonitor is a RoundTripper that records failures which reflectors retry without calling their
// error handler: no response, 429, 5xx, 410, and watches that end as soon as they begin. It also
// ends lists and watches that hang.
type WatchMonitor struct {
	Next   http.RoundTripper
	Health *WatchHealth
	// Timeout limits how long the hub waits for a response that ends.
	Timeout time.Duration
	// Connecting limits how long the hub waits for the first lists; nil means no limit.
	Connecting *Timer
}

// minListRate is the rate in bytes per second at which a list must progress to be allowed more than
// its timeout.
const minListRate = 512 << 10

// The response to a healthy watch begins within answerTime, and the watch lasts at least
// shortWatch.
const (
	answerTime = 5 * time.Second
	shortWatch = time.Second
)

var (
	errShortWatch  = errors.New("they end immediately")
	errSlowList    = errors.New("a list does not complete")
	errSilentWatch = errors.New("they send nothing, not even bookmarks")
)

// RoundTrip sends the request.
func (o *WatchMonitor) RoundTrip(request *http.Request) (*http.Response, error) {
	switch watch := isWatch(request); {
	case request.Method == http.MethodGet && !watch:
		return o.roundTripList(request)
	case !watch:
		return o.Next.RoundTrip(request)
	case !IsRequired(request.Context()):
		return o.roundTripOptionalWatch(request)
	}
	return o.roundTripRequiredWatch(request)
}

// roundTripRequiredWatch sends a watch that is required for the engagement of the member.
func (o *WatchMonitor) roundTripRequiredWatch(request *http.Request) (*http.Response, error) {
	kind := requiredKind(request.Context())
	record := func(err error) { o.Health.recordFailure(kind, err, time.Now()) }
	onLate := func() { record(context.DeadlineExceeded) }
	timer := time.AfterFunc(answerTime, onLate)
	body := &requiredWatchBody{kind: kind, health: o.Health}
	body.watchBody = newWatchBody(o.Health.Silence, func() { o.Health.markFailed(kind, errSilentWatch) })
	response, err := o.Next.RoundTrip(request.WithContext(withTimers(request.Context(), body.silence)))
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
		body.begin(response.Body)
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
func (o *WatchMonitor) roundTripOptionalWatch(request *http.Request) (*http.Response, error) {
	var s *watchBody
	s = newWatchBody(o.Health.Silence, func() { _ = s.ReadCloser.Close() })
	response, err := o.Next.RoundTrip(request.WithContext(withTimers(request.Context(), s.silence)))
	if err != nil || response.StatusCode != http.StatusOK {
		s.silence.Stop()
		return response, err
	}
	s.begin(response.Body)
	response.Body = s
	return response, nil
}

// roundTripList sends a request whose response ends. The wait is limited, because a list that hangs
// would leave the cache outdated. A list that makes progress may take longer, and the time in which
// the hub throttles it does not count.
func (o *WatchMonitor) roundTripList(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	b := &deadlineBody{health: o.Health, ctx: ctx, cancel: cancel}
	b.timers = []*Timer{NewTimer(o.Timeout, func() { cancel(context.DeadlineExceeded) })}
	if o.Connecting != nil && IsRequired(ctx) {
		b.timers = append(b.timers, o.Connecting)
	}
	response, err := o.Next.RoundTrip(request.WithContext(withTimers(ctx, b.timers...)))
	if err != nil {
		err = b.explain(err)
		b.end()
		return nil, err
	}
	if code := response.StatusCode; IsRequired(ctx) && isRetriedSilently(code) {
		o.Health.recordFailure(requiredKind(ctx), &StatusError{Code: code}, time.Now())
	}
	b.ReadCloser, response.Body = response.Body, b
	return response, nil
}

// WrappedRoundTripper returns the next transport, so that client-go can find it.
func (o *WatchMonitor) WrappedRoundTripper() http.RoundTripper { return o.Next }
