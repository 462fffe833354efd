package clusters

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// informer combines client-go's controller (reflector, queue and loop) with an indexer, as a cache
// needs it. It calls its handlers directly. The shared informer has two goroutines and a buffer of
// 16 KiB for each handler, and one more goroutine for all of them. The handlers here only add to a
// queue. There is no resync, and handlers cannot be removed.
type informer struct {
	toolscache.SharedIndexInformer // nil; provides the methods that no cache calls

	ctx        context.Context
	store      toolscache.Indexer
	controller toolscache.Controller
	transform  toolscache.TransformFunc
	// survive is deferred while objects are processed before they are stored; it turns a panic into
	// an error. If it is nil, panics are not recovered.
	survive func(ctx context.Context, err *error)
	failed  toolscache.WatchErrorHandlerWithContext
	limit   *cacheLimit
	done    chan struct{}

	mu       sync.Mutex
	handlers []toolscache.ResourceEventHandler
}

// newInformer returns an informer that runs on a context. The informer lists and then watches, so
// that the list uses a separate connection (see package transport). A streaming list would use the
// connection of the watch.
func newInformer(ctx context.Context, lw toolscache.ListerWatcher, object runtime.Object, indexers toolscache.Indexers, limit *cacheLimit) *informer {
	if funcs, ok := lw.(*toolscache.ListWatch); ok {
		lw = toolscache.ToListWatcherWithWatchListSemantics(funcs, listing{})
	}
	i := &informer{ctx: ctx, store: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, indexers), limit: limit, done: make(chan struct{})}
	i.controller = toolscache.New(&toolscache.Config{
		Queue: toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{
			KeyFunction: toolscache.MetaNamespaceKeyFunc, KnownObjects: i.store,
			Transformer: i.transformed,
		}),
		ListerWatcher: lw, ObjectType: object, Process: i.process,
		WatchErrorHandlerWithContext: func(ctx context.Context, r *toolscache.Reflector, err error) { i.failed(ctx, r, err) },
	})
	return i
}

// listing declares that a client does not support streaming lists.
type listing struct{}

// IsWatchListSemanticsUnSupported returns true, so that client-go lists and then watches.
func (listing) IsWatchListSemanticsUnSupported() bool { return true }

// transformed returns an object in the form in which it is stored.
func (i *informer) transformed(object any) (_ any, err error) {
	if i.transform == nil {
		return object, nil
	}
	if i.survive != nil {
		defer i.survive(i.ctx, &err)
	}
	return i.transform(object)
}

func (i *informer) process(object any, initial bool) error {
	for _, delta := range object.(toolscache.Deltas) {
		if err := i.take(delta, initial); err != nil {
			return err
		}
	}
	return nil
}

// take updates the store before it calls the handlers. A handler that is added meanwhile therefore
// either finds the object in the store or is called.
func (i *informer) take(delta toolscache.Delta, initial bool) error {
	if delta.Type == toolscache.Deleted {
		if before, found, _ := i.store.Get(delta.Object); found {
			i.limit.add(nil, before)
		}
		if err := i.store.Delete(delta.Object); err != nil {
			return err
		}
		i.tell(func(h toolscache.ResourceEventHandler) { h.OnDelete(delta.Object) })
		return nil
	}
	before, found, err := i.store.Get(delta.Object)
	if err != nil {
		return err
	}
	if !i.limit.add(delta.Object, before) {
		return nil // the session is about to end
	}
	if err := i.store.Update(delta.Object); err != nil {
		return err
	}
	i.tell(func(h toolscache.ResourceEventHandler) {
		if found {
			h.OnUpdate(before, delta.Object)
		} else {
			h.OnAdd(delta.Object, initial)
		}
	})
	return nil
}

func (i *informer) tell(what func(toolscache.ResourceEventHandler)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, h := range i.handlers {
		what(h)
	}
}

// RunWithContext runs until the informer's own context ends.
func (i *informer) RunWithContext(context.Context) {
	defer close(i.done)
	i.controller.RunWithContext(i.ctx)
}

// AddEventHandlerWithOptions calls the handler for all objects of the store, and from then on for
// every change.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(i.handlers, h)
	for _, object := range i.store.List() {
		h.OnAdd(object, true)
	}
	return i.controller, nil // synced when the informer is
}

// The following methods are the others that caches call.

// AddEventHandler adds a handler.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandlerWithOptions(h, toolscache.HandlerOptions{})
}

// RemoveEventHandler does nothing.
func (i *informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// HasSynced reports whether the first list is in the store and all handlers were called for it.
func (i *informer) HasSynced() bool { return i.controller.HasSynced() }

// HasSyncedChecker returns a checker that is done when HasSynced is true.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return i.controller.HasSyncedChecker() }

// IsStopped reports whether the informer has ended.
func (i *informer) IsStopped() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// GetIndexer returns the store.
func (i *informer) GetIndexer() toolscache.Indexer { return i.store }

// GetStore returns the store.
func (i *informer) GetStore() toolscache.Store { return i.store }

// AddIndexers adds indexes to the store.
func (i *informer) AddIndexers(more toolscache.Indexers) error { return i.store.AddIndexers(more) }

// SetTransform sets the transform function. It must be called before the informer runs.
func (i *informer) SetTransform(f toolscache.TransformFunc) error {
	i.transform = f
	return nil
}

// SetWatchErrorHandlerWithContext sets the error handler. It must be called before the informer
// runs.
func (i *informer) SetWatchErrorHandlerWithContext(f toolscache.WatchErrorHandlerWithContext) error {
	i.failed = f
	return nil
}
