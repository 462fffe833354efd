package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/informer"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// session is one connection of a member: its client, the Cluster that uses the client, and the
// context that ends both.
type session struct {
	connection *transport.Client
	cluster    cluster.Cluster
	info       clusterInfo     // only the identity, which never changes
	ctx        context.Context // the lifetime of the engagement, not of a request
	cancel     context.CancelFunc
	since      time.Time
	// lastAnswer is when the last probe that succeeded was sent, in nanoseconds of Unix time.
	lastAnswer atomic.Int64
	health     transport.WatchHealth
	// connectTimer cancels the connection attempt when the hub has waited long enough.
	connectTimer *transport.Timer
	cacheLimit   cacheLimit
	decoders     runtime.ClientNegotiator // of watches
	largeLists   *transport.LargeLists    // of all members
	logPanic     sync.Once
	// undecodable is set when the decoder has panicked on the data of the member.
	undecodable atomic.Bool
	// endReason is why the session must end although its member is healthy; see fail.
	endReason atomic.Pointer[error]
	options   *Options // of all members
	// stopped is closed when the Cluster has ended.
	stopped chan struct{}
	// failed receives a value when failure may return another result.
	failed chan struct{}
}

// connect returns a session whose caches are synced. The session takes over the context of the
// attempt and ends it. A separate timer limits the time for connecting.
func (m *member) connect(ctx context.Context, a *attempt) (_ *session, err error) {
	connection := transport.New(a.want.config, m.options.transport())
	s := &session{connection: connection, stopped: make(chan struct{}), failed: make(chan struct{}, 1), since: time.Now()}
	// The logger makes the log lines of client-go name the member.
	s.ctx, s.cancel = logr.NewContext(ctx, m.log), a.cancel
	s.options, s.decoders = m.options, m.options.decoders
	s.largeLists = m.options.largeLists
	s.health.Log, s.health.Silence, s.health.OnFailed = m.log, m.options.WatchSilence, s.signalFailure
	s.cacheLimit.maxBytes, s.cacheLimit.onExceeded = m.options.MaxListBytes, s.abandon
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// A probe needs no slot, so a silent member does not block others.
	s.lastAnswer.Store(s.since.UnixNano())
	id, err := probe(s.ctx, connection)
	if err != nil {
		return nil, err
	}
	if err := m.identify(s.ctx, id); err != nil {
		return nil, err
	}
	s.info.id = id
	release, err := m.options.slots.acquire(s.ctx, a.isRetry)
	if err != nil {
		return nil, err
	}
	defer release()
	reportTimer := time.AfterFunc(m.options.ConnectTimeout, m.reportConnecting)
	defer reportTimer.Stop()
	if err := m.build(s); err != nil {
		return nil, err
	}
	return s, nil
}

// reportConnecting replaces the outdated conditions of a MemberCluster if connecting takes long
// after a restart of the operator.
func (m *member) reportConnecting() {
	m.shared.update(func(s *snapshot) {
		if s.ready.status == "" {
			s.ready = conditionState{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "connecting takes long; the member's lists are large or slow"}
		}
	})
}

// maxConnectTimeouts limits the time for connecting while lists make progress, in multiples of
// ConnectTimeout.
const maxConnectTimeouts = 20

// build creates and starts the Cluster of a session, and waits until its caches are synced.
func (m *member) build(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, maxConnectTimeouts*m.options.ConnectTimeout)
	defer cancel()
	s.connectTimer = transport.NewTimer(m.options.clock, m.options.ConnectTimeout, cancel)
	defer s.connectTimer.Stop()
	s.health.OnRefused = cancel // a longer wait is of no use
	if s.cluster, err = m.options.newCluster(s); err != nil {
		return fmt.Errorf("create the client: %w", err)
	}
	if err := m.provider.addIndexes(s.ctx, s.cluster.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index the cache: %w", err)
	}
	for _, object := range m.options.Watch {
		if _, err := s.cluster.GetCache().GetInformer(s.ctx, object, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", object, err)
		}
	}
	go func() {
		defer s.signalFailure()
		defer close(s.stopped)
		// Start ends with the context, and returns no other error after the cache is created.
		_ = s.cluster.Start(s.ctx)
	}()
	if !s.cluster.GetCache().WaitForCacheSync(ctx) {
		return fmt.Errorf("list and watch: %w", cmp.Or(s.broken(), s.health.LastError(), s.ctx.Err(), context.DeadlineExceeded))
	}
	s.health.Reset()
	return s.broken()
}

// failure returns why the session has ended or must end at once, or nil.
func (s *session) failure(now time.Time) error {
	select {
	case <-s.stopped:
		return errors.New("the watches have ended")
	default:
		return cmp.Or(s.broken(), s.health.PersistentError(now))
	}
}

// signalFailure makes the supervisor check whether the session has failed.
func (s *session) signalFailure() {
	select {
	case s.failed <- struct{}{}:
	default: // the supervisor has yet to check
	}
}

// abandon ends the wait for the caches of a session that is broken, or makes the supervisor check
// the session.
func (s *session) abandon() {
	s.health.OnRefused()
	s.signalFailure()
}

// fail makes the supervisor end the session for this reason.
func (s *session) fail(why error) {
	s.endReason.Store(&why)
	s.signalFailure()
}

// broken returns an error if the session must not be used even if the member is healthy: the
// decoder panicked on the member's data, the cache is incomplete because the member's objects
// exceed the limit, or a controller cannot be engaged with the session again.
func (s *session) broken() error {
	if why := s.endReason.Load(); why != nil {
		return *why
	}
	if s.undecodable.Load() {
		return errUndecodable
	}
	return s.cacheLimit.err()
}

// newCluster returns a Cluster that shares the scheme and the mapper with all others, so that it
// needs no API discovery.
func (o *Options) newCluster(s *session) (cluster.Cluster, error) {
	httpClient := &http.Client{
		Transport: &bodyCapturer{&transport.WatchMonitor{
			Next: s.connection.HTTP.Transport, Health: &s.health, Clock: o.clock, Timeout: o.ConnectTimeout, Connecting: s.connectTimer,
		}},
		CheckRedirect: s.connection.HTTP.CheckRedirect,
	}
	return cluster.New(s.connection.Config, func(to *cluster.Options) {
		to.Scheme, to.HTTPClient = o.Scheme, httpClient
		to.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return o.Mapper, nil }
		to.Cache = o.Cache
		to.Cache.ReaderFailOnMissingInformer = true // an omission must not start a cluster-wide watch
		to.Cache.DefaultWatchErrorHandler = s.health.HandleError
		to.Cache.DefaultEnableWatchBookmarks = new(true) // a watch without them would be silent, see WatchSilence
		to.Cache.NewInformer, to.NewCache = s.newInformer, s.newCache
		to.Client.Cache = &client.CacheOptions{Unstructured: true} // an omission must not send requests, either
	})
}

// newInformer returns an informer whose requests have the context of the session.
func (s *session) newInformer(lw toolscache.ListerWatcher, object runtime.Object, _ time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	// The data of a member must not flood the log: client-go writes a line for each event that it
	// does not understand.
	ctx := logr.NewContext(s.ctx, logr.Discard())
	if kind, err := s.options.watchedKind(object); err == nil {
		ctx = transport.WithRequiredKind(ctx, kind.String())
	}
	return informer.New(ctx, informer.Options{
		ListerWatcher: s.containPanics(lw, object), Object: object, Indexers: indexers, Admit: s.cacheLimit.add,
		Recover: s.recoverStored, DirectHandlers: s.options.DirectHandlers,
	})
}

// ended reports whether the context or the Cluster of the session has ended.
func (s *session) ended() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return s.ctx.Err() != nil
	}
}

// close ends the session. It does not wait for the session's goroutines, and may be called
// repeatedly.
func (s *session) close() {
	s.cancel()
	s.connection.Close()
}
