package editqueue

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
)

// newTestQueue returns a Queue and the work queue around it.
func newTestQueue() (*Queue[string], workqueue.TypedRateLimitingInterface[string]) {
	q := New[string]()
	return q, q.WorkQueue("", workqueue.DefaultTypedControllerRateLimiter[string]())
}

func TestQueue_returns_edits_first(t *testing.T) {
	q, queue := newTestQueue()
	defer queue.ShutDown()
	for _, name := range []string{"a", "b", "c"} {
		queue.Add(name)
	}
	q.Add(queue, "d")
	q.Add(queue, "b") // is already queued as an observation
	queue.Add("d")    // remains an edit
	var got []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		got = append(got, request)
		queue.Done(request)
	}
	if want := []string{"d", "b", "a", "c"}; !slices.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestQueue_does_not_starve_observations(t *testing.T) {
	q, queue := newTestQueue()
	defer queue.ShutDown()
	queue.Add("observed")
	for i := range 3 * maxConsecutiveEdits {
		q.Add(queue, fmt.Sprint(i))
	}
	for i := range maxConsecutiveEdits + 1 {
		request, _ := queue.Get()
		if observed := request == "observed"; observed != (i == maxConsecutiveEdits) {
			t.Fatalf("number %d is %s", i, request)
		}
	}
}

// Each request is processed by one worker at a time, at least once after it was added, and never
// without having been added, also if it is added during its processing.
func TestQueue_keeps_the_guarantees_of_a_work_queue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, queue := newTestQueue()
		defer queue.ShutDown()
		dirty, processing := map[string]bool{}, map[string]bool{}
		ready := func() (n int) {
			for name := range dirty {
				if !processing[name] {
					n++
				}
			}
			return n
		}
		name := rapid.StringMatching(`[a-e]`)
		t.Repeat(map[string]func(*rapid.T){
			"observe": func(t *rapid.T) {
				n := name.Draw(t, "name")
				queue.Add(n)
				dirty[n] = true
			},
			"edit": func(t *rapid.T) {
				n := name.Draw(t, "name")
				q.Add(queue, n)
				dirty[n] = true
			},
			"get": func(t *rapid.T) {
				if ready() == 0 {
					t.Skip("nothing is queued")
				}
				request, _ := queue.Get()
				if !dirty[request] || processing[request] {
					t.Fatalf("Get returned %s: queued %v, processed %v", request, dirty, processing)
				}
				delete(dirty, request)
				processing[request] = true
			},
			"done": func(t *rapid.T) {
				n := name.Draw(t, "name")
				if !processing[n] {
					t.Skip("not processed")
				}
				delete(processing, n)
				queue.Done(n)
			},
			"": func(t *rapid.T) {
				if queue.Len() != ready() {
					t.Fatalf("%d are queued, want %d", queue.Len(), ready())
				}
			},
		})
	})
}

// A new edit does not wait for a flood of others, and none of those waits longer than twice its
// place in the queue, also if another edit is added each time.
func TestQueue_returns_new_edits_early_and_old_ones_too(t *testing.T) {
	const flood = 100
	q, queue := newTestQueue()
	defer queue.ShutDown()
	for i := range flood {
		q.Add(queue, fmt.Sprint("old ", i))
	}
	place := map[string]int{}
	for i := range 3 * flood {
		newest := fmt.Sprint("new ", i)
		q.Add(queue, newest)
		request, _ := queue.Get()
		place[request] = i
		queue.Done(request)
		if i%2 == 1 && request != newest {
			t.Fatalf("number %d is %s, want %s", i, request, newest)
		}
	}
	for i := range flood {
		if at, found := place[fmt.Sprint("old ", i)]; !found || at > 2*i {
			t.Errorf("old %d: was number %d (%t), want at most %d", i, at, found, 2*i)
		}
	}
}
