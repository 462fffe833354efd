package clusters

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/stall"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// Provider provides the connected members. It is safe for concurrent use.
type Provider struct {
	options Options
	// lifetime is the context of all members, because a member outlives the reconciliation that
	// starts it. endMembers ends it.
	lifetime   context.Context
	endMembers context.CancelFunc
	aware      multicluster.Aware
	running    sync.WaitGroup
	// onSnapshotChange is called when the snapshot of a member changes. It must not block.
	onSnapshotChange func(secret types.NamespacedName)
	// lookUpOwner returns the MemberCluster that owns an identity, from the hub's cache.
	lookUpOwner func(context.Context, types.UID) (owner, error)
	// readSecret returns the member that a Secret describes, from the hub's cache. writeSecret
	// writes another kubeconfig to a Secret.
	readSecret  func(context.Context, types.NamespacedName) (*kubeconfig.MemberSecret, error)
	writeSecret func(_ context.Context, from, to *kubeconfig.MemberSecret, issued kubeconfig.Renewal) error

	mu       sync.RWMutex
	members  map[multicluster.ClusterName]*member
	sessions map[multicluster.ClusterName]*session
	// identities maps each identity to the member of this process that has it or is about to have
	// it, so that no two members are the same cluster. The hub's cache has the identities that
	// MemberClusters own by their status; see lookUpOwner.
	identities map[types.UID]multicluster.ClusterName
	indexes    []fieldIndex
}

var _ multicluster.Provider = (*Provider)(nil)

// New returns a Provider whose members end with the context at the latest. It returns an error if
// an option is invalid.
func New(lifetime context.Context, options Options) (*Provider, error) {
	if err := options.complete(); err != nil {
		return nil, fmt.Errorf("member options: %w", err)
	}
	options.decoders, options.clock = newDecoders(options.Scheme), &stall.Clock{}
	options.largeLists = transport.NewLargeLists(options.clock)
	lifetime, endMembers := context.WithCancel(lifetime)
	p := &Provider{
		endMembers: endMembers,
		options:    options,
		lifetime:   lifetime,
		members:    map[multicluster.ClusterName]*member{},
		sessions:   map[multicluster.ClusterName]*session{},
		identities: map[types.UID]multicluster.ClusterName{},
	}
	p.running.Go(func() {
		options.clock.Run(lifetime, func(d time.Duration) { stalledSeconds.Add(d.Seconds()) })
	})
	return p, nil
}

// Get returns the Cluster of a connected member, or [multicluster.ErrClusterNotFound]. It returns a
// Cluster from before its engagement begins until its session ends.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	if s := p.session(name); s != nil {
		return s.cluster, nil
	}
	return nil, fmt.Errorf("member %q is not connected: %w", name, multicluster.ErrClusterNotFound)
}

// LastAnswer returns when the last request was sent that a connected member has answered, as far as
// probes tell. It returns the zero time for a member that is not connected.
func (p *Provider) LastAnswer(name string) time.Time {
	if s := p.session(multicluster.ClusterName(name)); s != nil {
		return time.Unix(0, s.lastAnswer.Load())
	}
	return time.Time{}
}

// fieldIndex is a field index of every member's cache.
type fieldIndex struct {
	object  client.Object
	kind    watchedKind
	field   string
	extract client.IndexerFunc
}

// IndexField adds an index to the caches of all members, for a kind of [Options.Watch]. It must be called
// before the first member connects.
func (p *Provider) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	kind, err := p.options.watchedKind(object)
	if err != nil {
		return fmt.Errorf("index %s: %w", field, err)
	}
	if extract == nil {
		return fmt.Errorf("index %s of %s: its function is nil", field, kind)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.members) > 0 {
		return errors.New("an index must be added before the first member connects")
	}
	index := fieldIndex{object, kind, field, extract}
	if slices.ContainsFunc(p.indexes, func(i fieldIndex) bool { return i.kind == kind && i.field == field }) {
		return fmt.Errorf("%s has an index %s already", kind, field)
	}
	p.indexes = append(p.indexes, index)
	return nil
}

// addIndexes adds the indexes of all members to one cache.
func (p *Provider) addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, i := range p.indexes {
		if err := indexer.IndexField(ctx, i.object, i.field, i.extract); err != nil {
			return err
		}
	}
	return nil
}

// ensureMember returns the member with this name, and starts the member if it does not exist. It
// returns nil if the name belongs to another Secret.
func (p *Provider) ensureMember(name multicluster.ClusterName, secret types.NamespacedName) *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m, found := p.members[name]; found {
		if m.secret != secret {
			return nil
		}
		return m
	}
	ctx, cancel := context.WithCancel(p.lifetime)
	m := newMember(p, name, secret, cancel)
	p.members[name] = m
	p.running.Go(func() { m.run(ctx) })
	return m
}

// removeMembers ends the members of a Secret, except the member that the Secret now describes. It
// does not wait until they have ended.
func (p *Provider) removeMembers(secret types.NamespacedName, memberSecret *kubeconfig.MemberSecret) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, m := range p.members {
		if m.secret != secret || memberSecret != nil && memberSecret.Name == name.String() {
			continue
		}
		m.cancel()
		delete(p.members, name)
		delete(p.sessions, name)
		p.releaseIdentities(name, "")
	}
}

// secretKey returns the key of the Secret of the member with this name.
func (p *Provider) secretKey(name multicluster.ClusterName) (types.NamespacedName, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	m, found := p.members[name]
	if !found {
		return types.NamespacedName{}, false
	}
	return m.secret, true
}

// contenders returns the Secrets of the members whose last attempt found an identity that another
// member owns.
func (p *Provider) contenders(id types.UID) (secrets []types.NamespacedName) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, m := range p.members {
		if m.shared.observed().contestedID == id {
			secrets = append(secrets, m.secret)
		}
	}
	return secrets
}

// publish makes Get return the Cluster of a session, and then engages it: the first requests of a
// controller come while Engage runs, and one that gets [multicluster.ErrClusterNotFound] is dropped.
// If the engagement fails, or the session or its member ends meanwhile, publish closes the session, and
// the session before it takes its place again.
func (p *Provider) publish(m *member, s *session) error {
	previous, err := p.replaceSession(m, s)
	if err == nil {
		err = p.engage(m.name, s)
	}
	if err == nil && s.ended() {
		err = context.Canceled
	}
	if err == nil {
		return nil
	}
	s.close()
	if p.putBack(m.name, s, previous) {
		p.engageAgain(m.name)
	}
	return fmt.Errorf("engage: %w", err)
}

// replaceSession makes Get return the Cluster of a session, and returns the session before it, or
// nil. It returns an error if the member has ended.
func (p *Provider) replaceSession(m *member, s *session) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.name] != m {
		return nil, context.Canceled
	}
	previous := p.sessions[m.name]
	p.sessions[m.name] = s
	return previous, nil
}

// putBack replaces a session by the one before it, and reports whether it did. If the session before it
// has ended, Get returns no Cluster.
func (p *Provider) putBack(name multicluster.ClusterName, s, previous *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[name] != s {
		return false
	}
	if previous == nil || previous.ended() {
		delete(p.sessions, name)
		return false
	}
	p.sessions[name] = previous
	return true
}

// engageAgain engages the session whose Cluster Get returns, if there is one. A controller of
// multicluster-runtime watches one session of a member: when it is engaged with another session, it
// ends its watches of the first, even if the other engagement fails. A session that cannot be engaged
// again ends, because some controllers may no longer watch its member.
func (p *Provider) engageAgain(name multicluster.ClusterName) {
	for s := p.session(name); s != nil; {
		err := p.engage(name, s)
		switch next := p.session(name); {
		case next != s:
			s = next // this call may have ended its watches
		case err != nil:
			s.fail(fmt.Errorf("engage again: %w", err))
			return
		default:
			return
		}
	}
}

// session returns the session of a member whose Cluster Get returns, or nil.
func (p *Provider) session(name multicluster.ClusterName) *session {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if s, found := p.sessions[name]; found && !s.ended() {
		return s
	}
	return nil
}

// engage engages a session within ConnectTimeout, and while the session lasts. A call of Engage that
// returns after that may have ended the watches of a newer session, so that is engaged again.
func (p *Provider) engage(name multicluster.ClusterName, s *session) error {
	engaged, abandoned, expired := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		err := p.callEngage(name, s)
		select {
		case engaged <- err:
		case <-abandoned:
			p.engageAgain(name)
		}
	}()
	defer close(abandoned)
	defer transport.NewTimer(p.options.clock, p.options.ConnectTimeout, func() { close(expired) }).Stop()
	select {
	case err := <-engaged:
		return err
	case <-s.ctx.Done():
		return s.ctx.Err()
	case <-expired:
		return errors.New("timed out")
	}
}

// errPanic is the error of a call of Engage that panicked. The value of the panic is only in the log: it
// may quote anything, also a Secret, and the error is shown in a condition.
var errPanic = errors.New("a controller panicked; the operator's log has the stack")

// callEngage calls Engage, and returns a panic as an error.
func (p *Provider) callEngage(name multicluster.ClusterName, s *session) (err error) {
	defer func() {
		if r := recover(); r != nil {
			logr.FromContextOrDiscard(s.ctx).Error(errPanic, "Engage panicked", "panic", r, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	return p.aware.Engage(s.ctx, name, s.cluster)
}

// unpublish removes a session, unless another session has replaced it.
func (p *Provider) unpublish(name multicluster.ClusterName, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions[name] == s {
		delete(p.sessions, name)
	}
}
