package planner

import (
	"context"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// editsInARow is how many edits are handed out before one of the other requests, when both are queued. Observations then
// keep arriving in the status during a flood of edits.
const editsInARow = 16

// lanes is the order of the planner's work queue: edits first, and each lane first in, first out. It is the
// [workqueue.Queue] inside of client-go's work queue, which keeps its guarantees: a request is queued once, and one
// AppService is never reconciled by two workers at the same time.
//
// The work queue calls Touch, Push, Len and Pop under its own lock. Only the marks are shared with event handlers.
type lanes struct {
	edits, others []reconcile.Request
	row           int // edits that were handed out since the last other request

	mu     sync.Mutex
	marked sets.Set[reconcile.Request] // requests that belong into the lane of edits
}

func newLanes() *lanes { return &lanes{marked: sets.New[reconcile.Request]()} }

// newQueue returns a rate limited work queue with the order of the lanes. It is client-go's queue and not
// controller-runtime's priority queue: in v0.24.1 that queue hands an item over to a worker under its lock, and waits for
// ever when the worker has just left because of a shutdown. Other workers then block in Done, and the process never ends.
func (l *lanes) newQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: l})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{DelayingQueue: delaying})
}

// enqueueEdits returns an event handler that puts AppServices into the lane of edits.
func (l *lanes) enqueueEdits() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			l.addEdit(queue, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			l.addEdit(queue, e.ObjectNew)
		},
	}
}

// addEdit marks a request before it adds it. A worker that takes the request between the two steps reconciles the edit
// already, because the cache shows an object before its event is handled.
func (l *lanes) addEdit(queue workqueue.TypedRateLimitingInterface[reconcile.Request], app client.Object) {
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(app)}
	l.mu.Lock()
	l.marked.Insert(request)
	l.mu.Unlock()
	queue.Add(request)
}

// Push adds a request that is not queued.
func (l *lanes) Push(request reconcile.Request) {
	if l.isEdit(request) {
		l.edits = append(l.edits, request)
	} else {
		l.others = append(l.others, request)
	}
}

// Touch moves a request that is queued already to the lane of edits, when it has become an edit.
func (l *lanes) Touch(request reconcile.Request) {
	if !l.isEdit(request) {
		return
	}
	if i := slices.Index(l.others, request); i >= 0 {
		l.others = slices.Delete(l.others, i, i+1)
		l.edits = append(l.edits, request)
	}
}

// Len returns how many requests are queued.
func (l *lanes) Len() int { return len(l.edits) + len(l.others) }

// Pop takes the next request out. There is one.
func (l *lanes) Pop() reconcile.Request {
	lane := &l.others
	if len(l.edits) > 0 && (len(l.others) == 0 || l.row < editsInARow) {
		lane = &l.edits
		l.row++
	} else {
		l.row = 0
	}
	request := (*lane)[0]
	(*lane)[0] = reconcile.Request{} // its strings can be freed
	*lane = (*lane)[1:]
	l.unmark(request)
	return request
}

func (l *lanes) isEdit(request reconcile.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marked.Has(request)
}

func (l *lanes) unmark(request reconcile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked.Delete(request)
}

// edited passes the events of AppServices that wait for a plan, and changes of their annotations, by which people
// acknowledge something. Every other event of an AppService is the planner's own write.
func edited() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return needsPlan(e.Object) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return needsPlan(e.ObjectNew) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
	}
}

// needsPlan reports whether the status of an AppService is not yet about its generation, which a deletion raises, too.
func needsPlan(object client.Object) bool {
	app := object.(*v1alpha1.AppService)
	return app.Status.ObservedGeneration != app.Generation || !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer)
}
