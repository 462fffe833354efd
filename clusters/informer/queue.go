package informer

import (
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
)

// queue calls a handler in a goroutine of its own, in the order of the events. The goroutine exists only
// while there are events. Like client-go's, the queue has no limit. It is safe for concurrent use.
type queue struct {
	mu                  sync.Mutex
	pending             []func()
	isRunning, isClosed bool
}

func (q *queue) add(call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isClosed {
		return
	}
	q.pending = append(q.pending, call)
	if !q.isRunning {
		q.isRunning = true
		go q.run()
	}
}

// run makes the calls until there are none.
func (q *queue) run() {
	for call := q.next(); call != nil; call = q.next() {
		call()
	}
}

func (q *queue) next() (call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.pending) == 0 {
		q.isRunning, q.pending = false, nil
		return nil
	}
	call, q.pending = q.pending[0], q.pending[1:]
	return call
}

// close drops what is pending. A call may be in progress.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isClosed, q.pending = true, nil
}

// registration is a handler of an informer.
type registration struct {
	toolscache.ResourceEventHandler
	// DoneChecker is done when the handler was called for all objects of the first list.
	toolscache.DoneChecker
	// queue is nil if the handler is called directly.
	queue *queue
}

// HasSynced reports whether the handler was called for all objects of the first list.
func (r *registration) HasSynced() bool { return isDone(r.DoneChecker) }

// HasSyncedChecker returns a checker that is done when HasSynced is true.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r.DoneChecker }

// notify calls the handler, now or from the queue.
func (r *registration) notify(call func(toolscache.ResourceEventHandler)) {
	if r.queue == nil {
		call(r.ResourceEventHandler)
		return
	}
	r.queue.add(func() { call(r.ResourceEventHandler) })
}

// handled is a DoneChecker of a handler with a queue.
type handled struct {
	toolscache.DoneChecker // of the informer, for the name
	done                   chan struct{}
}

// Done returns a channel that is closed when the handler was called for all objects of the first list.
func (h handled) Done() <-chan struct{} { return h.done }

// markSynced closes the channel of a registration with a queue behind the events of the first list.
func (i *Informer) markSynced(r *registration, done chan struct{}) {
	select {
	case <-i.HasSyncedChecker().Done():
	case <-i.ctx.Done():
		return
	}
	i.handlersMu.Lock() // the last event of the list is in the queue
	defer i.handlersMu.Unlock()
	r.queue.add(func() { close(done) })
}
