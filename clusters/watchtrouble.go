package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	toolscache "k8s.io/client-go/tools/cache"
)

// A session is abandoned after the watch of one kind has failed enough times, spread over lastingTrouble. A watch is tried again at
// least every retryGap, so a failure that is older has passed. One failure may be noted twice: failures within burst count once.
const (
	lastingTrouble = 15 * time.Second
	retryGap       = 75 * time.Second
	burst          = time.Second / 2
	enough         = 3
)

// watchTrouble keeps the errors of a member's watches: to report why its caches do not sync, and to detect that they have
// stopped following a member that answers probes. It is safe for concurrent use.
type watchTrouble struct {
	// refused is called when trying again is of no use: the member refuses to be listed or watched, or sends too much.
	refused func()
	log     logr.Logger
	// silence is how long a watch may send nothing.
	silence time.Duration

	mu sync.Mutex
	// err is the last error of any kind.
	err error
	// kinds are the failures since each kind was last known to be followed. An event of one kind says nothing about another.
	kinds map[string]*failures
}

// failures of the lists and watches of one kind.
type failures struct {
	err         error
	first, last time.Time
	// count is the number of failures since first; countBefore is its value when the current burst began.
	count, countBefore int
	burst              time.Time
}

// essential is the key of the kind, in the context of the lists and watches without which a member is not engaged. Trouble with others, of
// kinds that were asked for later, is not the member's: who reads such a kind sees that it is not in step.
type essential struct{}

func isEssential(ctx context.Context) bool { return ctx.Value(essential{}) != nil }

func withEssential(ctx context.Context, kind string) context.Context {
	return context.WithValue(ctx, essential{}, kind)
}

func essentialKind(ctx context.Context) string {
	kind, _ := ctx.Value(essential{}).(string)
	return kind
}

// handle takes the place of client-go's own handler, whose log lines hold the address that the Secret gives.
func (w *watchTrouble) handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	if ctx.Err() != nil || !isEssential(ctx) || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	w.log.Info("A watch fails", "of", reflector.TypeDescription(), "why", describe(err))
	if errors.As(err, new(*limitError)) { // it would be as large again
		w.lastsNow(essentialKind(ctx), err)
	}
	w.note(essentialKind(ctx), err, time.Now())
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || isOverLimit(err) {
		w.refused()
	}
}

// isOverLimit reports whether a response was ended because it exceeds a limit.
func isOverLimit(err error) bool {
	return errors.As(err, new(*limitError)) || errors.Is(err, errAbsurd)
}

// observed is a RoundTripper that notes the failures that the reflector retries without calling its error handler: no response, 429, 5xx,
// 410, and watches that end as soon as they begin.
type observed struct {
	next    http.RoundTripper
	trouble *watchTrouble
	// timeout bounds how long the hub waits for a response that ends.
	timeout time.Duration
	// connecting bounds how long the hub waits for the first lists; nil if nothing bounds it.
	connecting *memberTimer
}

// minListRate is how many bytes a second a list must bring after its timeout.
const minListRate = 512 << 10

// A watch is of use when it begins within answerTime and lasts for shortWatch.
const (
	answerTime = 5 * time.Second
	shortWatch = time.Second
)

var (
	errShortWatch  = errors.New("they end as soon as they begin")
	errSlowList    = errors.New("a list does not come to its end")
	errSilentWatch = errors.New("they tell nothing, not even that there is nothing to tell")
)

// RoundTrip sends the request.
func (o *observed) RoundTrip(request *http.Request) (*http.Response, error) {
	switch watch := isWatch(request); {
	case request.Method == http.MethodGet && !watch:
		return o.read(request)
	case !watch:
		return o.next.RoundTrip(request)
	case !isEssential(request.Context()):
		return o.other(request)
	}
	kind := essentialKind(request.Context())
	note := func(err error) { o.trouble.note(kind, err, time.Now()) }
	late := func() { note(context.DeadlineExceeded) }
	timer := time.AfterFunc(answerTime, late)
	stream := &essentialStream{kind: kind, trouble: o.trouble}
	stream.stream = newStream(o.trouble.silence, func() { o.trouble.lastsNow(kind, errSilentWatch) })
	response, err := o.next.RoundTrip(request.WithContext(withTimers(request.Context(), stream.silence)))
	timer.Stop()
	switch {
	case utilnet.IsTimeout(err):
		late()
	case utilnet.IsProbableEOF(err):
		note(err)
	case err != nil:
	case comesAgain(response.StatusCode), response.StatusCode == http.StatusGone:
		note(&statusError{code: response.StatusCode})
	case response.StatusCode == http.StatusOK:
		stream.begin(response.Body)
		response.Body = stream
		return response, nil
	}
	stream.silence.stop()
	return response, err
}

// comesAgain tells of a status upon which client-go comes back as it is told, and says nothing.
func comesAgain(code int) bool {
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// other sends a watch of a kind that was asked for later. When it falls silent it ends, and begins anew; that is no trouble.
func (o *observed) other(request *http.Request) (*http.Response, error) {
	var s *stream
	s = newStream(o.trouble.silence, func() { _ = s.ReadCloser.Close() })
	response, err := o.next.RoundTrip(request.WithContext(withTimers(request.Context(), s.silence)))
	if err != nil || response.StatusCode != http.StatusOK {
		s.silence.stop()
		return response, err
	}
	s.begin(response.Body)
	response.Body = s
	return response, nil
}

// read sends a request whose response ends. The hub waits for it for a bounded time: a list that hangs would leave the cache as it was. A
// list that makes progress may take longer, and the time in which the hub throttles it does not count.
func (o *observed) read(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	b := &bounded{trouble: o.trouble, ctx: ctx, cancel: cancel}
	b.timers = []*memberTimer{newMemberTimer(o.timeout, func() { cancel(context.DeadlineExceeded) })}
	if o.connecting != nil && isEssential(ctx) {
		b.timers = append(b.timers, o.connecting)
	}
	response, err := o.next.RoundTrip(request.WithContext(withTimers(ctx, b.timers...)))
	if err != nil {
		err = b.explain(err)
		b.end()
		return nil, err
	}
	if code := response.StatusCode; isEssential(ctx) && comesAgain(code) {
		o.trouble.note(essentialKind(ctx), &statusError{code: code}, time.Now())
	}
	b.ReadCloser, response.Body = response.Body, b
	return response, nil
}

// bounded is the body of a response that must end in time.
type bounded struct {
	io.ReadCloser
	trouble *watchTrouble
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	timers  []*memberTimer // the first one is its own
}

// slowList is how many failures a list counts for that does not end: it has taken long already.
const slowList = 2

// Read reads.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	for _, timer := range b.timers {
		timer.extend(time.Duration(n) * time.Second / minListRate)
	}
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if err = b.explain(err); errors.Is(err, context.DeadlineExceeded) && isEssential(b.ctx) {
		b.trouble.weigh(essentialKind(b.ctx), errSlowList, time.Now(), slowList)
	}
	return n, err
}

// explain returns the reason if the request was cancelled for taking too long.
func (b *bounded) explain(err error) error {
	if errors.Is(context.Cause(b.ctx), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}

// Close ends the request.
func (b *bounded) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}

func (b *bounded) end() {
	b.timers[0].stop()
	b.cancel(nil)
}

// WrappedRoundTripper lets client-go find the transport below.
func (o *observed) WrappedRoundTripper() http.RoundTripper { return o.next }

// essentialStream is the body of a watch without which the member is not engaged.
type essentialStream struct {
	*stream
	kind    string
	trouble *watchTrouble
	refused atomic.Bool
}

// Read reads. It notes what ends the watch here, because client-go begins anew and reports nothing. An event of a watch that has lasted
// shows that the kind is followed; earlier failures have passed.
func (s *essentialStream) Read(into []byte) (int, error) {
	n, told, err := s.read(into)
	switch {
	case isOverLimit(err) && !s.refused.Swap(true):
		s.trouble.note(s.kind, err, time.Now())
	case told && time.Since(s.begun) >= shortWatch:
		s.trouble.recovered(s.kind)
	}
	return n, err
}

// Close ends the watch.
func (s *essentialStream) Close() error {
	if now := time.Now(); now.Sub(s.begun) < shortWatch && !s.refused.Load() {
		s.trouble.note(s.kind, errShortWatch, now)
	}
	return s.stream.Close()
}

// stream is the body of a watch: a line for each event.
type stream struct {
	io.ReadCloser
	begun   time.Time
	limit   time.Duration // how long it may send nothing
	silence *memberTimer
}

// newStream returns the stream of a watch that is about to be sent. Its timer stands still until the stream begins.
func newStream(limit time.Duration, silent func()) *stream {
	s := &stream{limit: limit, silence: newMemberTimer(limit, silent)}
	s.silence.hold()
	return s
}

func (s *stream) begin(body io.ReadCloser) {
	s.ReadCloser, s.begun = body, time.Now()
	s.silence.reset(s.limit)
	s.silence.release()
}

// Read reads.
func (s *stream) Read(into []byte) (int, error) {
	n, _, err := s.read(into)
	return n, err
}

// read reads, and reports whether an event has ended, which the end of its line shows.
func (s *stream) read(into []byte) (n int, told bool, err error) {
	n, err = s.ReadCloser.Read(into)
	if told = bytes.IndexByte(into[:n], '\n') >= 0; told {
		s.silence.reset(s.limit)
	}
	return n, told, err
}

// Close ends the watch.
func (s *stream) Close() error {
	s.silence.stop()
	return s.ReadCloser.Close()
}

// note notes an error of a list or watch of a kind.
func (w *watchTrouble) note(kind string, err error, now time.Time) { w.weigh(kind, err, now, 1) }

// weigh notes an error that counts for so many.
func (w *watchTrouble) weigh(kind string, err error, now time.Time, weight int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.kinds[kind]
	if f == nil || now.Sub(f.last) > retryGap {
		f = &failures{first: now}
		if w.kinds == nil {
			w.kinds = map[string]*failures{}
		}
		w.kinds[kind] = f
	}
	if now.Sub(f.burst) >= burst {
		f.countBefore, f.burst = f.count, now
	}
	f.count = max(f.count, f.countBefore+weight)
	f.err, f.last, w.err = err, now, err
}

// recovered forgets the failures of a kind.
func (w *watchTrouble) recovered(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.kinds, kind)
}

// clear forgets all trouble: that the caches are in step shows that it has passed.
func (w *watchTrouble) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.kinds = nil, nil
}

func (w *watchTrouble) last() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// lastsNow notes an error that need not come again to be taken seriously.
func (w *watchTrouble) lastsNow(kind string, err error) {
	now := time.Now()
	w.weigh(kind, err, now, enough)
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.kinds[kind]; f != nil {
		f.first = now.Add(-lastingTrouble)
	}
}

// lasting returns the error of the lists and watches of a kind that have failed for long, and still do.
func (w *watchTrouble) lasting(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(w.kinds)) {
		f := w.kinds[kind]
		if f.count >= enough && now.Sub(f.last) <= retryGap && f.last.Sub(f.first) >= lastingTrouble {
			return fmt.Errorf("the watches fail: %w", f.err)
		}
	}
	return nil
}
