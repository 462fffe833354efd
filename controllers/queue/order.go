// Package queue is the order of a work queue: what is new comes first, then what a user has
// edited, then everything else. The planner and each member's controller use it.
//
//	order := queue.NewOrder[reconcile.Request]()
//	queue := order.WorkQueue("appservice", limiter)
//	order.Add(queue, request, queue.Edited)
//	queue.Add(request) // everything else, such as an observation
//
// Requests of one class are first in, first out. A class that waits is passed over at most
// maxPassedOver times. So a flood of edits does not stop everything else.
//
// The order is a [workqueue.Queue] inside client-go's work queue, which keeps its guarantees: a
// request is queued once, and is never processed by two workers at the same time.
package queue

import (
	"slices"
	"sync"

	"k8s.io/client-go/util/workqueue"
)

// Class is a class of requests. A higher one comes first.
type Class int

const (
	// Other requests follow from no change by a user.
	Other Class = iota
	// Edited is what a user has changed.
	Edited
	// New is what does not run yet.
	New

	classes = 3
)

// maxPassedOver is the number of requests of higher classes that are handed out before one of a
// class, if both are queued.
const maxPassedOver = 16

// Order is the order of one work queue. The work queue calls Touch, Push, Len and Pop under its own
// lock. Add is safe for concurrent use.
// docs/decisions/edits-are-planned-before-observations.md says why.
type Order[T comparable] struct {
	queued     [classes][]T // the oldest first
	passedOver [classes]int // how often a class has waited since its last request was handed out

	mu      sync.Mutex
	classOf map[T]Class // of requests that are not Other
}

// NewOrder returns the order of an empty work queue.
func NewOrder[T comparable]() *Order[T] { return &Order[T]{classOf: map[T]Class{}} }

// WorkQueue returns a rate limited work queue with this order. It has metrics if it has a name. It
// does not use controller-runtime's priority queue: v0.24.1 of that queue hands an item to a worker
// while it holds its lock, and blocks forever if the worker has just returned because of a shutdown.
// Other workers then block in Done, and the process never ends.
func (o *Order[T]) WorkQueue(name string, limiter workqueue.TypedRateLimiter[T]) workqueue.TypedRateLimitingInterface[T] {
	ordered := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[T]{Name: name, Queue: o})
	delaying := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[T]{Name: name, Queue: ordered})
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[T]{DelayingQueue: delaying})
}

// Add adds a request of a class to the work queue. It sets the class first: a worker that takes the
// request between the two steps already processes the change, because a cache is updated before its
// event handlers run.
func (o *Order[T]) Add(queue workqueue.TypedRateLimitingInterface[T], request T, class Class) {
	o.mu.Lock()
	if class > o.classOf[request] {
		o.classOf[request] = class
	}
	o.mu.Unlock()
	queue.Add(request)
}

// Push adds a request that is not queued.
func (o *Order[T]) Push(request T) {
	class := o.class(request)
	o.queued[class] = append(o.queued[class], request)
}

// Touch moves a queued request whose class has risen.
func (o *Order[T]) Touch(request T) {
	class := o.class(request)
	for lower := range class {
		if i := slices.Index(o.queued[lower], request); i >= 0 {
			o.queued[lower] = slices.Delete(o.queued[lower], i, i+1)
			o.queued[class] = append(o.queued[class], request)
			return
		}
	}
}

// Len returns the number of queued requests.
func (o *Order[T]) Len() int {
	n := 0
	for _, queued := range o.queued {
		n += len(queued)
	}
	return n
}

// Pop removes the next request and returns it. The queue must not be empty.
func (o *Order[T]) Pop() T {
	class := o.nextClass()
	o.passedOver[class] = 0
	for lower := range class {
		if len(o.queued[lower]) > 0 {
			o.passedOver[lower]++
		}
	}
	request := o.queued[class][0]
	clear(o.queued[class][:1]) // lets its strings be freed
	o.queued[class] = o.queued[class][1:]
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.classOf, request)
	return request
}

// nextClass returns the class of the next request: one that was passed over too often, or else the
// highest.
func (o *Order[T]) nextClass() Class {
	highest := Other
	for class := range Class(classes) {
		switch {
		case len(o.queued[class]) == 0:
		case o.passedOver[class] >= maxPassedOver:
			return class
		default:
			highest = class
		}
	}
	return highest
}

func (o *Order[T]) class(request T) Class {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.classOf[request]
}
