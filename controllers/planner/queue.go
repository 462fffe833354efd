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

// maxConsecutiveEdits is the number of edits that are processed before one other request, if both
// are queued, so that observations still reach the status during a flood of edits.
const maxConsecutiveEdits = 16

// editQueue is a priority queue with two priorities: edits before all other requests, and first in,
// first out within a priority. It is the [workqueue.Queue] inside client-go's work queue, which
// keeps its guarantees: a request is queued once, and one AppService is never reconciled by two
// workers at the same time.
//
// The work queue calls Touch, Push, Len and Pop under its own lock. Only pendingEdits is shared
// with event handlers.
type editQueue struct {
	edits, others    []reconcile.Request
	consecutiveEdits int // edits that were processed since the last other request

	mu           sync.Mutex
	pendingEdits sets.Set[reconcile.Request] // requests with the priority of edits
}

func newEditQueue() *editQueue { return &editQueue{pendingEdits: sets.New[reconcile.Request]()} }

// newWorkQueue returns a rate limited work queue with these priorities. It does not use
// controller-runtime's priority queue: v0.24.1 of that queue hands an item to a worker while it
// holds its lock, and blocks forever if the worker has just returned because of a shutdown. Other
// workers then block in Done, and the process never ends.
func (q *editQueue) newWorkQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[reconcile.Request]{Name: name, Queue: q})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[reconcile.Request]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{DelayingQueue: delaying})
}

// enqueueEdits returns an event handler that enqueues AppServices with the priority of edits.
func (q *editQueue) enqueueEdits() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.addEdit(queue, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			q.addEdit(queue, e.ObjectNew)
		},
	}
}

// addEdit sets the priority of a request before it adds the request. A worker that takes the
// request between the two steps already reconciles the edit, because the cache is updated before
// the event handlers run.
func (q *editQueue) addEdit(queue workqueue.TypedRateLimitingInterface[reconcile.Request], app client.Object) {
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(app)}
	q.mu.Lock()
	q.pendingEdits.Insert(request)
	q.mu.Unlock()
	queue.Add(request)
}

// Push adds a request that is not queued.
func (q *editQueue) Push(request reconcile.Request) {
	if q.isEdit(request) {
		q.edits = append(q.edits, request)
	} else {
		q.others = append(q.others, request)
	}
}

// Touch raises the priority of a queued request that has become an edit.
func (q *editQueue) Touch(request reconcile.Request) {
	if !q.isEdit(request) {
		return
	}
	if i := slices.Index(q.others, request); i >= 0 {
		q.others = slices.Delete(q.others, i, i+1)
		q.edits = append(q.edits, request)
	}
}

// Len returns the number of queued requests.
func (q *editQueue) Len() int { return len(q.edits) + len(q.others) }

// Pop removes the next request and returns it. The queue must not be empty.
func (q *editQueue) Pop() reconcile.Request {
	next := &q.others
	if len(q.edits) > 0 && (len(q.others) == 0 || q.consecutiveEdits < maxConsecutiveEdits) {
		next = &q.edits
		q.consecutiveEdits++
	} else {
		q.consecutiveEdits = 0
	}
	request := (*next)[0]
	(*next)[0] = reconcile.Request{} // lets its strings be freed
	*next = (*next)[1:]
	q.clearEdit(request)
	return request
}

func (q *editQueue) isEdit(request reconcile.Request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pendingEdits.Has(request)
}

func (q *editQueue) clearEdit(request reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pendingEdits.Delete(request)
}

// isEdit passes the events of AppServices that need a plan, and changes of their annotations, by
// which users approve something. Every other event of an AppService is caused by the planner's own
// write.
func isEdit() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return needsPlan(e.Object) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return needsPlan(e.ObjectNew) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
	}
}

// needsPlan reports whether the status of an AppService describes an older generation, or the
// finalizer is missing. A deletion raises the generation, too.
func needsPlan(object client.Object) bool {
	app := object.(*v1alpha1.AppService)
	return isEdited(app) || !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer)
}
