package clusters

import (
	"bytes"
	"cmp"
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// session is one connected life of a member: a connection, the Cluster on it, and the context that both end with.
type session struct {
	connection *connection
	cluster    cluster.Cluster
	facts      facts
	ctx        context.Context // the lifetime of the engagement, not of a request
	cancel     context.CancelFunc
	since      time.Time
	trouble    watchTrouble
	// stopped is closed when the Cluster has ended by itself or by the context.
	stopped chan struct{}
}

// connect makes a session whose caches are in step. The session's context hangs off ctx; the waiting is
// bounded apart from it.
func (m *member) connect(ctx context.Context, t *target) (_ *session, err error) {
	connection := m.options.newConnection(t)
	s := &session{connection: connection, stopped: make(chan struct{}), since: time.Now()}
	s.ctx, s.cancel = context.WithCancel(logr.NewContext(ctx, m.log)) // what client-go logs names the member
	s.trouble.log, s.trouble.silence = m.log, m.options.WatchSilence
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// Probing needs no place among those that connect: a member that is silent keeps nobody waiting.
	id, err := probe(s.ctx, connection)
	if err != nil {
		return nil, err
	}
	if err := m.identify(id); err != nil {
		return nil, err
	}
	s.facts.id = id
	leave, err := m.options.lanes.enter(s.ctx, m.fails > 0)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := m.build(s); err != nil {
		return nil, err
	}
	s.facts = s.survey(s.ctx, s.facts)
	return s, nil
}

// build makes and starts the Cluster of a session, and waits for its caches.
func (m *member) build(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, m.options.ConnectTimeout)
	defer cancel()
	s.trouble.refused = cancel // no need to wait any longer
	if s.cluster, err = m.options.newCluster(s); err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	if err := m.provider.index(s.ctx, s.cluster.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index the cache: %w", err)
	}
	for _, object := range m.options.Watch {
		if _, err := s.cluster.GetCache().GetInformer(s.ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	go func() {
		defer close(s.stopped)
		_ = s.cluster.Start(s.ctx) // ends with the context, and has no other error once the cache is made
	}()
	if !s.cluster.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("list and watch: %w", cmp.Or(s.trouble.last(), ctx.Err()))
	}
	return nil
}

// newCluster makes a Cluster that shares the scheme and the mapper with all others, so that making it asks the
// network nothing.
func (o *Options) newCluster(s *session) (cluster.Cluster, error) {
	watched := &http.Client{Transport: &observed{s.connection.client.Transport, &s.trouble}, CheckRedirect: s.connection.client.CheckRedirect}
	return cluster.New(s.connection.config, func(to *cluster.Options) {
		to.Scheme, to.HTTPClient = o.Scheme, watched
		to.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return o.Mapper, nil }
		to.Cache = o.Cache
		to.Cache.ReaderFailOnMissingInformer = true // a slip must not start a cluster-wide watch
		to.Cache.DefaultWatchErrorHandler = s.trouble.handle
		to.Cache.NewInformer = s.newInformer
	})
}

// newInformer makes an informer that runs on the session's context.
func (s *session) newInformer(lw toolscache.ListerWatcher, object runtime.Object, _ time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	// What a member sends must not flood the log: client-go has a line for each event that it does not understand.
	return newInformer(logr.NewContext(s.ctx, logr.Discard()), lw, object, indexers)
}

// close ends the session. It does not wait for the goroutines, and may be called again.
func (s *session) close() {
	s.cancel()
	s.connection.close()
}

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

// handle takes the place of client-go's own handler, whose log lines hold the address that the Secret gives.
func (w *watchTrouble) handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	if ctx.Err() != nil || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
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
}

// A watch is of use when it begins within answerTime and lasts for shortWatch.
const (
	answerTime = 5 * time.Second
	shortWatch = time.Second
)

var (
	errShortWatch  = errors.New("they end as soon as they begin")
	errSilentWatch = errors.New("they tell nothing, not even that there is nothing to tell")
)

// RoundTrip sends the request.
func (o *observed) RoundTrip(request *http.Request) (*http.Response, error) {
	if !request.URL.Query().Has("watch") {
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
