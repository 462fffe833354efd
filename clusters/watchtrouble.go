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

// Watches that fail again and again for lastingTrouble are of no use. They try again at least every retryGap, so that
// trouble which is older than that has passed.
const (
	lastingTrouble = 15 * time.Second
	retryGap       = 75 * time.Second
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
	case !watch, !isEssential(request.Context()):
		return o.next.RoundTrip(request)
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
	case response.StatusCode == http.StatusTooManyRequests, response.StatusCode == http.StatusGone:
		o.trouble.note(&statusError{code: response.StatusCode}, time.Now())
	case response.StatusCode == http.StatusOK:
		response.Body = o.watch(response.Body)
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
	if code := response.StatusCode; isEssential(ctx) && (code == http.StatusTooManyRequests || code >= http.StatusInternalServerError) {
		o.trouble.note(&statusError{code: code}, time.Now()) // client-go comes back as it is told, and says nothing
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

// Read reads.
func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if err != nil && errors.Is(b.ctx.Err(), context.DeadlineExceeded) && isEssential(b.ctx) {
		b.trouble.lastsNow(errSlowList)
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

// stream is the body of a watch: a line for each event.
type stream struct {
	io.ReadCloser
	trouble *watchTrouble
	begun   time.Time
	silence *time.Timer
	closed  atomic.Bool
}

func (o *observed) watch(body io.ReadCloser) *stream {
	s := &stream{ReadCloser: body, trouble: o.trouble, begun: time.Now()}
	s.silence = time.AfterFunc(o.trouble.silence, func() {
		if !s.closed.Load() { // a last read may have set the timer again
			o.trouble.lastsNow(errSilentWatch)
		}
	})
	return s
}

// Read reads, and knows by the end of a line that something was told.
func (s *stream) Read(into []byte) (int, error) {
	n, err := s.ReadCloser.Read(into)
	if bytes.IndexByte(into[:n], '\n') >= 0 {
		s.silence.Reset(s.trouble.silence)
	}
	return n, err
}

// Close ends the watch.
func (s *stream) Close() error {
	s.closed.Store(true)
	s.silence.Stop()
	if now := time.Now(); now.Sub(s.begun) < shortWatch {
		s.trouble.note(errShortWatch, now)
	}
	return s.ReadCloser.Close()
}

func (w *watchTrouble) note(err error, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.again) > retryGap {
		w.first = now
	}
	w.err, w.again = err, now
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
	w.first = now.Add(-lastingTrouble)
}

// lasting is the error of watches that have failed for long, and still do.
func (w *watchTrouble) lasting(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil || now.Sub(w.again) > retryGap || w.again.Sub(w.first) < lastingTrouble {
		return nil
	}
	return fmt.Errorf("the watches fail: %w", w.err)
}
