package sources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// KeyName is the name of the Secret with the key, in the namespace of the operator.
const KeyName = "fleetwright-configuration-key"

// Options configure Sources.
type Options struct {
	// Namespaces are those whose ConfigMaps and Secrets may leave the hub. The zero value is none.
	Namespaces Namespaces
	// OperatorNamespace is the namespace of the operator. Nothing leaves it, and it has the key.
	OperatorNamespace string
	// IsKubeconfig reports whether a Secret has the kubeconfig of a member, from its metadata. It
	// may be nil.
	IsKubeconfig func(secret metav1.Object) bool
}

// Sources knows the sources and the snapshots on the hub. A nil *Sources is valid: no namespace may
// be used. It is safe for concurrent use, but not for the same AppService.
type Sources struct {
	options  Options
	hub      *hubClient
	key      *keyStore
	contents *contents
	lookups  *lookups
	watches  []*watch
	// events counts the events of all watches.
	events atomic.Uint64
	// started is when the watches were started.
	started atomic.Pointer[time.Time]

	mu     sync.Mutex
	apps   map[types.NamespacedName]*appState
	users  map[objectKey]map[types.NamespacedName]struct{} // the AppServices of each source
	queues []queue
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// New returns the sources on a hub. Without namespaces, it never sends a request.
func New(hub *rest.Config, options Options) (*Sources, error) {
	s := &Sources{options: options, lookups: newLookups(), apps: map[types.NamespacedName]*appState{}, users: map[objectKey]map[types.NamespacedName]struct{}{}}
	if options.Namespaces.IsEmpty() {
		return s, nil
	}
	var err error
	if s.hub, err = newHubClient(hub); err != nil {
		return nil, err
	}
	s.key = &keyStore{hub: s.hub, namespace: options.OperatorNamespace}
	s.contents = &contents{hub: s.hub}
	for _, kind := range kinds {
		for _, namespace := range options.Namespaces.watched() {
			if err := s.addWatch(kind, namespace); err != nil {
				return nil, fmt.Errorf("watch the %ss in namespace %q: %w", kind, namespace, err)
			}
		}
	}
	return s, nil
}

func (s *Sources) addWatch(kind v1alpha1.ConfigurationKind, namespace string) error {
	w, err := newWatch(s.hub.metadata, kind, namespace)
	if err != nil {
		return err
	}
	w.accessChanged = func() { s.enqueueUsers(w) }
	_, err = w.informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, isInitial bool) {
			if !isInitial { // what was decided before the watch was synced is decided again then
				s.observe(kind, object, false)
			}
		},
		UpdateFunc: func(before, after any) {
			if resourceVersion(before) != resourceVersion(after) {
				s.observe(kind, after, false)
			}
		},
		DeleteFunc: func(object any) { s.observe(kind, object, true) },
	})
	s.watches = append(s.watches, w)
	return err
}

func resourceVersion(object any) string {
	return object.(*metav1.PartialObjectMetadata).ResourceVersion
}

// Start watches until the context ends. Without namespaces, it starts nothing.
func (s *Sources) Start(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.started.Store(new(time.Now()))
	var running sync.WaitGroup
	for _, w := range s.watches {
		running.Go(func() { w.informer.RunWithContext(ctx) })
		running.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
				s.enqueueUsers(w)
				s.enqueueOwners(w)
			}
		})
	}
	running.Wait()
	return nil
}

// Listen enqueues the AppServices whose decision may differ, because a source or a snapshot has
// changed, or because it can be read now or not any more. It returns immediately.
func (s *Sources) Listen(ctx context.Context, to queue) error {
	if s == nil || s.options.Namespaces.IsEmpty() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues = append(s.queues, to)
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.queues = slices.DeleteFunc(s.queues, func(q queue) bool { return q == to })
	})
	return nil
}

// Request is a request for a decision.
type Request struct {
	// App is the AppService, with the entries of its slices. It is not changed.
	App *v1alpha1.AppService
	// Revisions are all stored revisions of the AppService.
	Revisions []configuration.Revision
	// Serials are the highest serials that members have reported for their copies, without outliers.
	Serials map[configuration.Ref]int64
	// Now is the time of the decision, with the precision of the system clock.
	Now time.Time
}

// ErrNotSynced is returned while nothing is known about the sources in a namespace, just after the
// start. The AppService is enqueued when that is known.
var ErrNotSynced = errors.New("the watches of the sources are not synced yet")

// maxSyncing is how long after the start nothing is decided because the watches are not synced.
// Afterwards, what is not known changes nothing that clusters have.
const maxSyncing = 10 * time.Second

// maxRounds is how often is decided until nothing has to be read or created any more.
const maxRounds = 20

// Decide decides until nothing has to be read any more, and creates the snapshots of the decision.
// If a request fails, the decision says so. It returns an error only if the context has ended, or
// [ErrNotSynced].
func (s *Sources) Decide(ctx context.Context, request Request) (configuration.Decision, error) {
	in := newInput(request)
	if s == nil || !s.options.Namespaces.Has(request.App.Namespace) {
		for _, ref := range in.Refs() {
			in.Sources[ref] = configuration.Source{Presence: configuration.PresenceDisabled}
		}
		in.Snapshots = named(in)
		return configuration.Decide(in), nil
	}
	in.OperatorNamespace = s.options.OperatorNamespace
	r := &round{Sources: s, app: request.App, state: s.register(request.App, in.Refs()), in: in}
	if s.isSyncing(request.App.Namespace) {
		return configuration.Decision{}, ErrNotSynced
	}
	r.gather(ctx)
	for number := 0; ctx.Err() == nil; number++ {
		decision := configuration.Decide(r.in)
		switch {
		case number >= maxRounds && len(decision.Read)+len(decision.Create) > 0:
			r.giveUp(decision)
		case r.carryOut(ctx, decision):
			r.forgetFailures()
			decision.RecheckAfter = r.recheckAfter(decision.RecheckAfter)
			return decision, nil
		}
	}
	return configuration.Decision{}, ctx.Err()
}

// isSyncing reports whether a watch of a namespace was started just now, and has no answer yet.
func (s *Sources) isSyncing(namespace string) bool {
	started := s.started.Load()
	if started != nil && time.Since(*started) > maxSyncing {
		return false
	}
	return slices.ContainsFunc(s.watches, func(w *watch) bool { return w.has(namespace) && !w.isAnswered() })
}

// Written must be called after the status with a decision was written, or if there was nothing to
// write. It keeps the memory of the decision, and deletes the snapshots that nothing names.
func (s *Sources) Written(ctx context.Context, app *v1alpha1.AppService, decision configuration.Decision) error {
	state := s.stateOf(app)
	if state == nil {
		return nil
	}
	state.memory = decision.Memory
	return s.prune(ctx, app, state, decision.Prune)
}

// Forget drops what is known about an AppService that does not exist any more.
func (s *Sources) Forget(app types.NamespacedName) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.apps[app]; state != nil {
		s.setUser(app, state.refs, nil)
		delete(s.apps, app)
	}
}

// register notes which sources an AppService uses, before they are looked up, so that no change is
// missed. It returns what is known about the AppService.
func (s *Sources) register(app *v1alpha1.AppService, refs []configuration.Ref) *appState {
	key := client.ObjectKeyFromObject(app)
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.apps[key]
	if state == nil || state.uid != app.UID {
		var before []configuration.Ref
		if state != nil {
			before = state.refs
		}
		state = newAppState(app.UID)
		state.refs = before
		s.apps[key] = state
	}
	s.setUser(key, state.refs, refs)
	state.setRefs(refs)
	return state
}

// setUser updates the users of sources. The caller holds the lock.
func (s *Sources) setUser(app types.NamespacedName, before, after []configuration.Ref) {
	for _, ref := range before {
		source := objectKey{ref.Kind, app.Namespace, ref.From}
		if slices.Contains(after, ref) {
			continue
		}
		if delete(s.users[source], app); len(s.users[source]) == 0 {
			delete(s.users, source)
		}
	}
	for _, ref := range after {
		source := objectKey{ref.Kind, app.Namespace, ref.From}
		if s.users[source] == nil {
			s.users[source] = map[types.NamespacedName]struct{}{}
		}
		s.users[source][app] = struct{}{}
	}
}

// stateOf returns what is known about an AppService, or nil.
func (s *Sources) stateOf(app *v1alpha1.AppService) *appState {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.apps[client.ObjectKeyFromObject(app)]; state != nil && state.uid == app.UID {
		return state
	}
	return nil
}

// observe enqueues the AppServices of a source or of a snapshot after an event.
func (s *Sources) observe(kind v1alpha1.ConfigurationKind, event any, isDeleted bool) {
	if last, isUnknown := event.(cache.DeletedFinalStateUnknown); isUnknown {
		event = last.Obj
	}
	object, isMetadata := event.(*metav1.PartialObjectMetadata)
	if !isMetadata {
		return
	}
	source := objectKey{kind, object.Namespace, object.Name}
	s.events.Add(1)
	s.lookups.drop(source)
	s.mu.Lock()
	defer s.mu.Unlock()
	affected := make([]types.NamespacedName, 0, len(s.users[source])+1)
	for app := range s.users[source] {
		affected = append(affected, app)
	}
	if name := object.Labels[v1alpha1.LabelAppService]; name != "" && configuration.IsSnapshot(object.Name) {
		owner := types.NamespacedName{Namespace: object.Namespace, Name: name}
		if state := s.apps[owner]; state != nil && !state.isOwnWrite(kind, object, isDeleted) {
			affected = append(affected, owner)
		}
	}
	s.enqueue(affected)
}

// enqueueUsers enqueues the AppServices that use a source of a watch.
func (s *Sources) enqueueUsers(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	affected := map[types.NamespacedName]struct{}{}
	for source, apps := range s.users {
		if source.kind == w.kind && w.has(source.namespace) {
			for app := range apps {
				affected[app] = struct{}{}
			}
		}
	}
	for app := range affected {
		s.enqueue([]types.NamespacedName{app})
	}
}

// enqueueOwners enqueues the AppServices that have snapshots: they may have no configuration any more.
func (s *Sources) enqueueOwners(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enqueue(w.owners())
}

// HasSnapshots reports whether the watches have a snapshot that an AppService owns. It sends no request.
func (s *Sources) HasSnapshots(app *v1alpha1.AppService) bool {
	if s == nil || !s.options.Namespaces.Has(app.Namespace) {
		return false
	}
	return slices.ContainsFunc(s.watches, func(w *watch) bool {
		return w.has(app.Namespace) && slices.ContainsFunc(w.snapshots(app.Namespace, app.Name), func(snapshot configuration.Snapshot) bool {
			return snapshot.Owner == app.UID
		})
	})
}

// enqueue adds AppServices to all queues. The caller holds the lock; a queue does not block.
func (s *Sources) enqueue(apps []types.NamespacedName) {
	for _, to := range s.queues {
		for _, app := range apps {
			to.Add(reconcile.Request{NamespacedName: app})
		}
	}
}

// watchOf returns the watch of a kind in a namespace, or nil.
func (s *Sources) watchOf(kind v1alpha1.ConfigurationKind, namespace string) *watch {
	for _, w := range s.watches {
		if w.kind == kind && w.has(namespace) {
			return w
		}
	}
	return nil
}
