package clusters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	toolscache "k8s.io/client-go/tools/cache"
)

// Watches that fail again and again, at least enough times over lastingTrouble, are of no use. They try again at least every retryGap, so
// that trouble which is older than that has passed. Those of all kinds fail at once, and one failure may be noted twice: what comes
// within burst counts once.
const (
	lastingTrouble = 15 * time.Second
	retryGap       = 75 * time.Second
	burst          = time.Second / 2
	enough         = 3
)

// watchTrouble keeps the errors of a member's watches: to say why its caches do not sync, and to notice that they have
// stopped following a member that answers otherwise. It is safe for concurrent use.
type watchTrouble struct {
	// refused is called when the member refuses to be listed or watched.
	refused func()
	log     logr.Logger
	// silence is how long a watch may tell nothing.
	silence time.Duration

	mu           sync.Mutex
	err          error
	first, again time.Time
	// count is how often watches have failed since the first time; burst began when it was before.
	count, before int
	burst         time.Time
}

// essential marks the context of the lists and watches without which a member is not engaged. Trouble with others, of kinds that were asked
// for later, is not the member's: who reads such a kind sees that it is not in step.
type essential struct{}

func isEssential(ctx context.Context) bool { return ctx.Value(essential{}) != nil }

// handle takes the place of client-go's own handler, whose log lines hold the address that the Secret gives.
func (w *watchTrouble) handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	if ctx.Err() != nil || !isEssential(ctx) || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	w.log.Info("A watch fails", "of", reflector.TypeDescription(), "why", describe(err))
	w.note(err, time.Now())
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		w.refused()
	}
}

// observed notes what is wrong with watches and client-go does not tell, but tries again for ever: no answer, or none but to
// come later or to begin anew, and watches that end as soon as they begin.
type observed struct {
	next    http.RoundTripper
	trouble *watchTrouble
	// timeout bounds what is read to its end.
	timeout time.Duration
}

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
	switch watch := request.URL.Query().Has("watch"); {
	case request.Method == http.MethodGet && !watch:
		return o.read(request)
	case !watch:
		return o.next.RoundTrip(request)
	case !isEssential(request.Context()):
		return o.other(request)
	}
	late := func() { o.trouble.note(context.DeadlineExceeded, time.Now()) }
	timer := time.AfterFunc(answerTime, late)
	response, err := o.next.RoundTrip(request)
	timer.Stop()
	switch {
	case utilnet.IsTimeout(err):
		late()
	case utilnet.IsProbableEOF(err):
		o.trouble.note(err, time.Now())
	case err != nil:
	case comesAgain(response.StatusCode), response.StatusCode == http.StatusGone:
		o.trouble.note(&statusError{code: response.StatusCode}, time.Now())
	case response.StatusCode == http.StatusOK:
		response.Body = o.watch(response.Body)
	}
	return response, err
}

// comesAgain tells of a status upon which client-go comes back as it is told, and says nothing.
func comesAgain(code int) bool {
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

// other sends a watch of a kind that was asked for later. When it falls silent it ends, and begins anew; that is no trouble.
func (o *observed) other(request *http.Request) (*http.Response, error) {
	response, err := o.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusOK {
		body := response.Body
		response.Body = newStream(body, o.trouble.silence, func() { _ = body.Close() })
	}
	return response, err
}

// read sends a request that reads something to its end, which is bounded in time: a list that hangs would leave the cache as it was.
func (o *observed) read(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(request.Context(), o.timeout)
	response, err := o.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	if code := response.StatusCode; isEssential(ctx) && comesAgain(code) {
		o.trouble.note(&statusError{code: code}, time.Now())
	}
	response.Body = &bounded{response.Body, ctx, cancel, o.trouble}
	return response, nil
}

// bounded is the body of an answer that must end in time.
type bounded struct {
	io.ReadCloser
	ctx     context.Context // of the request
	cancel  context.CancelFunc
	trouble *watchTrouble
}

// slowList is how many failures a list counts for that does not end: it has taken long already.
const slowList = 2

// Read reads.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && errors.Is(b.ctx.Err(), context.DeadlineExceeded) && isEssential(b.ctx) {
		b.trouble.weigh(errSlowList, time.Now(), slowList)
	}
	return n, err
}

// Close ends the request.
func (b *bounded) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// WrappedRoundTripper lets client-go find the transport below.
func (o *observed) WrappedRoundTripper() http.RoundTripper { return o.next }

// essentialStream is the body of a watch without which the member is not engaged.
type essentialStream struct {
	*stream
	trouble *watchTrouble
	begun   time.Time
	refused atomic.Bool
}

func (o *observed) watch(body io.ReadCloser) *essentialStream {
	silent := func() { o.trouble.lastsNow(errSilentWatch) }
	return &essentialStream{stream: newStream(body, o.trouble.silence, silent), trouble: o.trouble, begun: time.Now()}
}

// Read reads, and notes what ends the watch here: client-go begins anew, and says nothing.
func (s *essentialStream) Read(into []byte) (int, error) {
	n, err := s.stream.Read(into)
	if (errors.Is(err, errTooMuch) || errors.Is(err, errAbsurd)) && !s.refused.Swap(true) {
		s.trouble.note(err, time.Now())
	}
	return n, err
}

// Close ends the watch.
func (s *essentialStream) Close() error {
	if now := time.Now(); now.Sub(s.begun) < shortWatch && !s.refused.Load() {
		s.trouble.note(errShortWatch, now)
	}
	return s.stream.Close()
}

// stream is the body of a watch: a line for each event.
type stream struct {
	io.ReadCloser
	after   time.Duration // how long it may tell nothing
	silence *time.Timer
	closed  atomic.Bool
}

func newStream(body io.ReadCloser, after time.Duration, silent func()) *stream {
	s := &stream{ReadCloser: body, after: after}
	s.silence = time.AfterFunc(after, func() {
		if !s.closed.Load() { // a last read may have set the timer again
			silent()
		}
	})
	return s
}

// Read reads, and knows by the end of a line that something was told.
func (s *stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	if bytes.IndexByte(into[:n], '\n') >= 0 {
		s.silence.Reset(s.after)
	}
	return n, err
}

// Close ends the watch.
func (s *stream) Close() error {
	s.closed.Store(true)
	s.silence.Stop()
	return s.ReadCloser.Close()
}

// note notes an error of a watch.
func (w *watchTrouble) note(err error, now time.Time) { w.weigh(err, now, 1) }

// weigh notes an error that counts for so many.
func (w *watchTrouble) weigh(err error, now time.Time, weight int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.again) > retryGap {
		w.first, w.count, w.burst = now, 0, time.Time{}
	}
	if now.Sub(w.burst) >= burst {
		w.before, w.burst = w.count, now
	}
	w.count = max(w.count, w.before+weight)
	w.err, w.again = err, now
}

// clear forgets all trouble: that the caches are in step shows that it has passed.
func (w *watchTrouble) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err, w.first, w.again, w.burst, w.count = nil, time.Time{}, time.Time{}, time.Time{}, 0
}

func (w *watchTrouble) last() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// lastsNow notes an error of a watch that need not come again to be taken seriously.
func (w *watchTrouble) lastsNow(err error) {
	now := time.Now()
	w.note(err, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.count = now.Add(-lastingTrouble), enough
}

// lasting is the error of watches that have failed for long, and still do.
func (w *watchTrouble) lasting(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || w.count < enough || now.Sub(w.again) > retryGap || w.again.Sub(w.first) < lastingTrouble {
		return nil
	}
	return fmt.Errorf("the watches fail: %w", w.err)
}
