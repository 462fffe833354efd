package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
)

// newTestQueue returns an Order and the work queue around it.
func newTestQueue() (*Order[string], workqueue.TypedRateLimitingInterface[string]) {
	order := NewOrder[string]()
	return order, order.WorkQueue("", workqueue.DefaultTypedControllerRateLimiter[string]())
}

func TestOrder_returns_new_requests_and_edits_first(t *testing.T) {
	order, queue := newTestQueue()
	defer queue.ShutDown()
	for _, name := range []string{"a", "b", "c"} {
		queue.Add(name)
	}
	order.Add(queue, "d", Edited)
	order.Add(queue, "e", New)
	order.Add(queue, "e", Edited) // remains new
	order.Add(queue, "b", Edited) // is already queued as an observation
	queue.Add("d")                // remains an edit
	var got []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		got = append(got, request)
		queue.Done(request)
	}
	if want := []string{"e", "d", "b", "a", "c"}; !slices.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOrder_does_not_starve_observations(t *testing.T) {
	order, queue := newTestQueue()
	defer queue.ShutDown()
	queue.Add("observed")
	for i := range 3 * maxPassedOver {
		order.Add(queue, fmt.Sprint(i), Edited)
	}
	for i := range maxPassedOver + 1 {
		request, _ := queue.Get()
		if observed := request == "observed"; observed != (i == maxPassedOver) {
			t.Fatalf("number %d is %s", i, request)
		}
	}
}

// Each request is processed by one worker at a time, at least once after it was added, and never
// without having been added, also if it is added during its processing.
func TestOrder_keeps_the_guarantees_of_a_work_queue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order, queue := newTestQueue()
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
				order.Add(queue, n, Edited)
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

// A class that waits is passed over at most maxPassedOver times.
func TestOrder_passes_over_no_class_for_long(t *testing.T) {
	order, queue := newTestQueue()
	defer queue.ShutDown()
	for i := range 1000 {
		order.Add(queue, fmt.Sprint("new ", i), New)
		order.Add(queue, fmt.Sprint("edited ", i), Edited)
		queue.Add(fmt.Sprint("other ", i))
	}
	waits := map[string]int{}
	for range 1000 {
		request, _ := queue.Get()
		queue.Done(request)
		got, _, _ := strings.Cut(request, " ")
		for _, class := range []string{"new", "edited", "other"} {
			waits[class]++
			if class == got {
				waits[class] = 0
			}
			if waits[class] > maxPassedOver+2 { // the other two classes may be due at the same time
				t.Fatalf("%s was passed over %d times", class, waits[class])
			}
		}
	}
}
