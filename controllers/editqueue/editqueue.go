// Package editqueue is a work queue that hands out what a user has just changed before everything
// else. The planner and each member's controller use it.
//
//	edits := editqueue.New[reconcile.Request]()
//	queue := edits.WorkQueue("appservice", limiter)
//	edits.Add(queue, request) // an edit
//	queue.Add(request)        // everything else, such as an observation
//
// The order is:
//
//   - Edits come before other requests. After maxConsecutiveEdits of them comes one other request,
//     if there is one, so that a flood of edits does not stop everything else.
//   - Edits are handed out in turn from the oldest and from the newest end. So a new edit does not
//     wait for a flood of others, and each of those waits for at most twice as many as were before it.
//   - Other requests are first in, first out.
//
// The order is a [workqueue.Queue] inside client-go's work queue, which keeps its guarantees: a
// request is queued once, and is never processed by two workers at the same time.
package editqueue

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
)

// maxConsecutiveEdits is the number of edits that are handed out before one other request, if both
// are queued.
const maxConsecutiveEdits = 16

// Queue is the order of one work queue. The work queue calls Touch, Push, Len and Pop under its own
// lock. Add is safe for concurrent use.
type Queue[T comparable] struct {
	edits, others    []T  // the oldest first
	takeNewest       bool // the next edit is the newest
	consecutiveEdits int  // edits that were handed out since the last other request

	mu           sync.Mutex
	pendingEdits sets.Set[T] // requests with the priority of edits
}

// New returns an empty Queue.
func New[T comparable]() *Queue[T] { return &Queue[T]{pendingEdits: sets.New[T]()} }

// WorkQueue returns a rate limited work queue with the order of the Queue. It has metrics if it has
// a name. It does not use controller-runtime's priority queue: v0.24.1 of that queue hands an item
// to a worker while it holds its lock, and blocks forever if the worker has just returned because of
// a shutdown. Other workers then block in Done, and the process never ends.
func (q *Queue[T]) WorkQueue(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: q})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: delaying})
}

// Add adds a request to the work queue with the priority of an edit. It sets the priority first: a
// worker that takes the request between the two steps already processes the edit, because a cache is
// updated before its event handlers run.
func (q *Queue[T]) Add(queue workqueue.TypedRateLimitingInterface[T], request T) {
	q.mu.Lock()
	q.pendingEdits.Insert(request)
	q.mu.Unlock()
	queue.Add(request)
}

// Push adds a request that is not queued.
func (q *Queue[T]) Push(request T) {
	if q.isEdit(request) {
		q.edits = append(q.edits, request)
	} else {
		q.others = append(q.others, request)
	}
}

// Touch raises the priority of a queued request that has become an edit.
func (q *Queue[T]) Touch(request T) {
	if !q.isEdit(request) {
		return
	}
	if i := slices.Index(q.others, request); i >= 0 {
		q.others = slices.Delete(q.others, i, i+1)
		q.edits = append(q.edits, request)
	}
}

// Len returns the number of queued requests.
func (q *Queue[T]) Len() int { return len(q.edits) + len(q.others) }

// Pop removes the next request and returns it. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var next T
	if len(q.edits) > 0 && (len(q.others) == 0 || q.consecutiveEdits < maxConsecutiveEdits) {
		q.edits, next = pop(q.edits, q.takeNewest)
		q.takeNewest = !q.takeNewest
		q.consecutiveEdits++
	} else {
		q.others, next = pop(q.others, false)
		q.consecutiveEdits = 0
	}
	q.clearEdit(next)
	return next
}

// pop removes the newest or the oldest request. The slice no longer refers to its strings.
func pop[T any](from []T, newest bool) (left []T, next T) {
	i := 0
	if newest {
		i = len(from) - 1
	}
	next = from[i]
	clear(from[i : i+1])
	if newest {
		return from[:i], next
	}
	return from[1:], next
}

func (q *Queue[T]) isEdit(request T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pendingEdits.Has(request)
}

func (q *Queue[T]) clearEdit(request T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pendingEdits.Delete(request)
}
