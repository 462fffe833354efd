package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// session is one connected life of a member: a connection, the Cluster on it, and the context that both end with.
type session struct {
	connection *connection
	cluster    cluster.Cluster
	facts      facts
	ctx        context.Context // the lifetime of the engagement, not of a request
	cancel     context.CancelFunc
	// stopped is closed when the Cluster has ended by itself or by the context.
	stopped chan struct{}
}

// facts are what a member says of itself.
type facts struct {
	id      types.UID
	version string
}

// connect makes a session whose caches are in step. The session's context hangs off ctx; the waiting is
// bounded apart from it.
func (m *member) connect(ctx context.Context, t *target) (_ *session, err error) {
	connection := m.options.newConnection(t)
	s := &session{connection: connection, stopped: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(ctx)
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// Probing needs no place among those that connect: a member that is silent keeps nobody waiting.
	if s.facts.version, err = probe(s.ctx, connection); err != nil {
		return nil, err
	}
	release, err := m.options.admit(s.ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return s, m.build(s)
}

// build makes and starts the Cluster of a session, reads its identity, and waits for its caches.
func (m *member) build(s *session) (err error) {
	ctx, cancel := context.WithTimeout(s.ctx, m.options.ConnectTimeout)
	defer cancel()
	var trouble watchTrouble
	if s.cluster, err = m.options.newCluster(s.connection, &trouble); err != nil {
		return fmt.Errorf("make the client: %w", err)
	}
	if s.facts.id, err = identity(ctx, s.cluster.GetAPIReader()); err != nil {
		return err
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
		return fmt.Errorf("list and watch: %w", errors.Join(trouble.last(), ctx.Err()))
	}
	return nil
}

// newCluster makes a Cluster that shares the scheme and the mapper with all others, so that making it asks the
// network nothing.
func (o *Options) newCluster(c *connection, trouble *watchTrouble) (cluster.Cluster, error) {
	return cluster.New(c.config, func(to *cluster.Options) {
		to.Scheme, to.HTTPClient = o.Scheme, c.client
		to.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return o.Mapper, nil }
		to.Cache = o.Cache
		to.Cache.ReaderFailOnMissingInformer = true // a slip must not start a cluster-wide watch
		to.Cache.DefaultWatchErrorHandler = trouble.handle
	})
}

// close ends the session. It does not wait for the goroutines, and may be called again.
func (s *session) close() {
	s.cancel()
	s.connection.close()
}

// watchTrouble keeps the last error of a member's watches, to say why its caches do not sync.
type watchTrouble struct {
	mu  sync.Mutex
	err error
}

func (w *watchTrouble) handle(ctx context.Context, reflector *toolscache.Reflector, err error) {
	toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
	if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

func (w *watchTrouble) last() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// maxVersion is how many bytes of an answer to a probe are read.
const maxVersion = 64 << 10

// probe asks a member for its version: whether it is reachable, is an API server, and takes the credentials.
func probe(ctx context.Context, c *connection) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.Host+"/version", http.NoBody)
	if err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // read only
	body, err := io.ReadAll(io.LimitReader(response.Body, maxVersion))
	if err != nil {
		return "", fmt.Errorf("probe: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", &statusError{code: response.StatusCode}
	}
	var info version.Info
	if err := json.Unmarshal(body, &info); err != nil || info.GitVersion == "" {
		return "", errors.New("the server answers, but not as a Kubernetes API server does")
	}
	return cut(info.GitVersion, 64), nil
}

// identity is the UID of the member's kube-system namespace.
func identity(ctx context.Context, reader client.Reader) (types.UID, error) {
	namespace := corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &namespace); err != nil {
		return "", fmt.Errorf("read the cluster's identity, the UID of namespace %s: %w", metav1.NamespaceSystem, err)
	}
	return namespace.UID, nil
}

// probeTimeout bounds one probe.
const probeTimeout = 5 * time.Second
