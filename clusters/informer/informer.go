package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
)

// Options configure an Informer. ListerWatcher and Object are required.
type Options struct {
	ListerWatcher toolscache.ListerWatcher
	// Object is an example of the objects.
	Object   runtime.Object
	Indexers toolscache.Indexers
	// Admit reports whether an object may be stored in place of the previous one. Either may be
	// nil: there was no object, or the object is deleted. The result for a deletion is ignored. If
	// Admit is nil, all objects are stored.
	Admit func(object, previous any) bool
	// Recover is deferred while the transform function and the functions of indexes run; it turns a
	// panic into an error. If it is nil, panics are not recovered.
	Recover func(ctx context.Context, err *error)
	// DirectHandlers makes the informer call the handlers itself, before it processes the next event.
	// They must return quickly, as those that only add to a queue. They must not add or remove handlers.
	// By default, a handler has a queue, and a goroutine while there are events in it.
	DirectHandlers bool
}

// Informer is a SharedIndexInformer that costs little at rest.
type Informer struct {
	ctx        context.Context // of the requests
	options    Options
	store      toolscache.Indexer
	controller toolscache.Controller

	// stateMu guards these fields. The functions do not change after the start.
	stateMu          sync.Mutex
	started, stopped bool
	transform        toolscache.TransformFunc
	watchError       toolscache.WatchErrorHandlerWithContext

	// handlersMu is held while an event is processed. A handler that is added therefore either
	// finds an object in the store or is called for it.
	handlersMu sync.Mutex
	handlers   []*registration
}

// Informer has all methods itself: it embeds no interface whose methods could be nil.
var _ toolscache.SharedIndexInformer = (*Informer)(nil)

// New returns an informer whose requests have this context. The informer ends when the context of
// its run ends, or this one.
// docs/decisions/a-member-costs-little-at-rest.md says why.
func New(ctx context.Context, options Options) *Informer {
	i := &Informer{
		ctx: ctx, options: options, watchError: toolscache.DefaultWatchErrorHandler,
		store: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, options.Indexers),
	}
	lw := options.ListerWatcher
	if funcs, ok := lw.(*toolscache.ListWatch); ok {
		lw = toolscache.ToListWatcherWithWatchListSemantics(funcs, noStreamingLists{})
	}
	i.controller = toolscache.New(&toolscache.Config{
		Queue: toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{
			Name:        fmt.Sprintf("Informer %T", options.Object),
			KeyFunction: toolscache.MetaNamespaceKeyFunc, KnownObjects: i.store,
			Transformer: i.transformObject,
		}),
		ListerWatcher: lw, ObjectType: options.Object, Process: i.process,
		WatchErrorHandlerWithContext: func(ctx context.Context, r *toolscache.Reflector, err error) { i.watchError(ctx, r, err) },
	})
	return i
}

// noStreamingLists declares that a client does not support streaming lists.
type noStreamingLists struct{}

// IsWatchListSemanticsUnSupported returns true, so that client-go lists and then watches.
func (noStreamingLists) IsWatchListSemanticsUnSupported() bool { return true }

// transformObject returns an object in the form in which it is stored.
func (i *Informer) transformObject(object any) (_ any, err error) {
	if i.transform == nil {
		return object, nil
	}
	if i.options.Recover != nil {
		defer i.options.Recover(i.ctx, &err)
	}
	return i.transform(object)
}

// change changes an object in the store, which calls the functions of indexes, also for a deletion.
func (i *Informer) change(change func(object any) error, object any) (err error) {
	if i.options.Recover != nil {
		defer i.options.Recover(i.ctx, &err)
	}
	return change(object)
}

// process applies the deltas that the queue has for an object.
func (i *Informer) process(object any, initial bool) error {
	deltas, ok := object.(toolscache.Deltas)
	if !ok {
		return fmt.Errorf("the queue has a %T, not Deltas", object)
	}
	i.handlersMu.Lock()
	defer i.handlersMu.Unlock()
	for _, delta := range deltas {
		if err := i.apply(delta, initial); err != nil {
			return err
		}
	}
	return nil
}

// apply applies one delta to the store, and then calls the handlers. A relist is an update of every
// object that exists, changed or not, as in client-go.
func (i *Informer) apply(delta toolscache.Delta, initial bool) error {
	before, found, err := i.store.Get(delta.Object)
	if err != nil {
		return err
	}
	switch delta.Type {
	case toolscache.Deleted:
		if found {
			i.admit(nil, before)
		}
		if err := i.change(i.store.Delete, delta.Object); err != nil {
			return err
		}
		i.notify(func(h toolscache.ResourceEventHandler) { h.OnDelete(delta.Object) })
	case toolscache.Added, toolscache.Updated, toolscache.Replaced, toolscache.Sync:
		if !i.admit(delta.Object, before) {
			return nil // the owner of the informer is about to end it
		}
		if err := i.change(i.store.Update, delta.Object); err != nil {
			return err
		}
		i.notify(func(h toolscache.ResourceEventHandler) {
			if found {
				h.OnUpdate(before, delta.Object)
			} else {
				h.OnAdd(delta.Object, initial)
			}
		})
	default: // the options of the queue exclude all other types
		return fmt.Errorf("a delta has type %s", delta.Type)
	}
	return nil
}

// admit reports whether an object may be stored in place of the previous one.
func (i *Informer) admit(object, previous any) bool {
	return i.options.Admit == nil || i.options.Admit(object, previous)
}

// notify calls the handlers. The caller holds handlersMu.
func (i *Informer) notify(call func(toolscache.ResourceEventHandler)) {
	for _, r := range i.handlers {
		r.notify(call)
	}
}

// Run is RunWithContext with a channel.
func (i *Informer) Run(stop <-chan struct{}) { i.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs until the context ends, or the context of New. An informer runs only once.
func (i *Informer) RunWithContext(run context.Context) {
	i.stateMu.Lock()
	again := i.started
	i.started = true
	i.stateMu.Unlock()
	if again {
		return
	}
	ctx, cancel := context.WithCancel(i.ctx)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	i.controller.RunWithContext(ctx)
	i.stateMu.Lock()
	defer i.stateMu.Unlock()
	i.stopped = true
}

// AddEventHandler adds a handler.
func (i *Informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler. There is no resync.
func (i *Informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithOptions calls the handler for all objects of the store, and from then on for
// every change. The options are ignored.
func (i *Informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.IsStopped() {
		return nil, errors.New("the informer has stopped; it takes no more handlers")
	}
	i.handlersMu.Lock()
	defer i.handlersMu.Unlock()
	// A handler that is called directly is in sync when the informer is.
	r := &registration{ResourceEventHandler: h, DoneChecker: i.HasSyncedChecker()}
	if !i.options.DirectHandlers {
		done := make(chan struct{})
		r.queue, r.DoneChecker = &queue{}, handled{r.DoneChecker, done}
		go i.markSynced(r, done)
	}
	i.handlers = append(i.handlers, r)
	for _, object := range i.store.List() {
		r.notify(func(h toolscache.ResourceEventHandler) { h.OnAdd(object, true) })
	}
	return r, nil
}

// RemoveEventHandler removes a handler. The handler is not called any more when it returns, except that a
// call may be in progress if it has a queue. It does nothing if the handler was removed before.
func (i *Informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("%T is no handler of this informer", handle)
	}
	i.handlersMu.Lock()
	defer i.handlersMu.Unlock()
	i.handlers = slices.DeleteFunc(i.handlers, func(h *registration) bool { return h == r })
	if r.queue != nil {
		r.queue.close()
	}
	return nil
}

// HasSynced reports whether the first list is in the store.
func (i *Informer) HasSynced() bool { return isDone(i.HasSyncedChecker()) }

// HasSyncedChecker returns a checker that is done when HasSynced is true.
func (i *Informer) HasSyncedChecker() toolscache.DoneChecker { return i.controller.HasSyncedChecker() }

// isDone reports whether a checker is done. Unlike the HasSynced of the queue, it needs no lock, so
// a handler may call it.
func isDone(checker toolscache.DoneChecker) bool {
	select {
	case <-checker.Done():
		return true
	default:
		return false
	}
}

// LastSyncResourceVersion returns the resource version of the last list or event.
func (i *Informer) LastSyncResourceVersion() string { return i.controller.LastSyncResourceVersion() }

// IsStopped reports whether the informer has ended.
func (i *Informer) IsStopped() bool {
	i.stateMu.Lock()
	defer i.stateMu.Unlock()
	return i.stopped
}

// GetIndexer returns the store.
func (i *Informer) GetIndexer() toolscache.Indexer { return i.store }

// GetStore returns the store.
func (i *Informer) GetStore() toolscache.Store { return i.store }

// AddIndexers adds indexes to the store.
func (i *Informer) AddIndexers(more toolscache.Indexers) error {
	if i.IsStopped() {
		return errors.New("the informer has stopped; it takes no more indexes")
	}
	return i.store.AddIndexers(more)
}

// SetTransform sets the transform function. It must be called before the informer runs.
func (i *Informer) SetTransform(f toolscache.TransformFunc) error {
	return i.configure(func() { i.transform = f })
}

// SetWatchErrorHandler sets the error handler. It must be called before the informer runs.
func (i *Informer) SetWatchErrorHandler(f toolscache.WatchErrorHandler) error {
	return i.SetWatchErrorHandlerWithContext(func(_ context.Context, r *toolscache.Reflector, err error) { f(r, err) })
}

// SetWatchErrorHandlerWithContext sets the error handler. It must be called before the informer
// runs.
func (i *Informer) SetWatchErrorHandlerWithContext(f toolscache.WatchErrorHandlerWithContext) error {
	return i.configure(func() { i.watchError = f })
}

// configure changes the informer, unless it has started.
func (i *Informer) configure(change func()) error {
	i.stateMu.Lock()
	defer i.stateMu.Unlock()
	if i.started {
		return errors.New("the informer has started; it cannot be configured any more")
	}
	change()
	return nil
}

// GetController returns a view of the informer. As in client-go, its Run does nothing.
func (i *Informer) GetController() toolscache.Controller { return controllerView{i} }

// controllerView is a Controller that does not run.
type controllerView struct{ *Informer }

// Run does nothing.
func (controllerView) Run(<-chan struct{}) {}

// RunWithContext does nothing.
func (controllerView) RunWithContext(context.Context) {}
