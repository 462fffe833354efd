package clusters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// Options say how members are reached. All have to be set.
type Options struct {
	// Scheme and Mapper are shared by all members. The mapper must know every kind that is used on one.
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
	// Cache is the template of each member's cache: its selectors and transforms.
	Cache cache.Options
	// Watch are the kinds that a member's cache holds; all are in step before it is engaged.
	Watch []client.Object
	// UserAgent is what members see in their audit logs.
	UserAgent string
	// QPS and Burst bound the requests to one member, over all kinds.
	QPS   float32
	Burst int
	// ConnectTimeout bounds the listing that precedes an engagement.
	ConnectTimeout time.Duration
	// ProbeInterval is how often a connected member is asked for a sign of life, less or more a quarter. One that
	// fails to give any three times in a row is disengaged.
	ProbeInterval time.Duration
	// MaxConnecting is how many members may be listing at the same time.
	MaxConnecting int
	// AllowLoopback lets members have loopback addresses: for demonstrations and tests on one machine.
	AllowLoopback bool

	connecting chan struct{}
}

// admit waits for a place among those that are connecting, and returns how to give it back.
func (o *Options) admit(ctx context.Context) (release func(), err error) {
	select {
	case o.connecting <- struct{}{}:
		return func() { <-o.connecting }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Provider has the members that are connected. It is safe for concurrent use.
type Provider struct {
	options Options
	// lifetime is the process's: a member outlives the reconcile that began it.
	lifetime context.Context // see above
	aware    multicluster.Aware
	running  sync.WaitGroup
	// changed is called when something is known anew of a member. It must not block.
	changed func(multicluster.ClusterName)

	mu       sync.RWMutex
	members  map[multicluster.ClusterName]*member
	sessions map[multicluster.ClusterName]*session
	indexes  []index
}

var _ multicluster.Provider = (*Provider)(nil)

// New returns a Provider whose members live no longer than the context.
func New(lifetime context.Context, options Options) *Provider {
	options.connecting = make(chan struct{}, options.MaxConnecting)
	return &Provider{
		options:  options,
		lifetime: lifetime,
		members:  map[multicluster.ClusterName]*member{},
		sessions: map[multicluster.ClusterName]*session{},
	}
}

// Get returns the Cluster of a connected member, or [multicluster.ErrClusterNotFound].
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if s, found := p.sessions[name]; found {
		return s.cluster, nil
	}
	return nil, fmt.Errorf("member %q is not connected: %w", name, multicluster.ErrClusterNotFound)
}

// index is a field index that every member's cache gets.
type index struct {
	object  client.Object
	field   string
	extract client.IndexerFunc
}

// IndexField adds an index to the caches of all members. It must be called before the first one connects.
func (p *Provider) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.members) > 0 {
		return errors.New("an index must be added before the first member connects")
	}
	p.indexes = append(p.indexes, index{object, field, extract})
	return nil
}

func (p *Provider) index(ctx context.Context, indexer client.FieldIndexer) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, i := range p.indexes {
		if err := indexer.IndexField(ctx, i.object, i.field, i.extract); err != nil {
			return err
		}
	}
	return nil
}

// ensure returns the member of that name, which is begun when there is none.
func (p *Provider) ensure(name multicluster.ClusterName) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, found := p.members[name]; found {
		return m
	}
	ctx, cancel := context.WithCancel(p.lifetime)
	m := &member{
		name:     name,
		options:  &p.options,
		provider: p,
		log:      ctrl.Log.WithName("clusters").WithValues("cluster", name),
		wake:     make(chan struct{}, 1),
		cancel:   cancel,
	}
	p.members[name] = m
	p.running.Go(func() { m.run(ctx) })
	return m
}

// forget ends the member of that name. It does not wait for the end.
func (p *Provider) forget(name multicluster.ClusterName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, found := p.members[name]; found {
		m.cancel()
		delete(p.members, name)
	}
}

// publish makes a session's Cluster the member's, and engages it.
func (p *Provider) publish(name multicluster.ClusterName, s *session) error {
	p.mu.Lock()
	p.sessions[name] = s
	p.mu.Unlock()
	engaged := make(chan error, 1)
	go func() { engaged <- p.aware.Engage(s.ctx, name, s.cluster) }()
	select {
	case err := <-engaged:
		return err
	case <-time.After(p.options.ConnectTimeout):
		return errors.New("timed out")
	}
}

// withdraw takes a session back, unless another has taken its place.
func (p *Provider) withdraw(name multicluster.ClusterName, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[name] == s {
		delete(p.sessions, name)
	}
}
