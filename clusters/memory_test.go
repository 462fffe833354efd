package clusters_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// A member that sends endless data, or data that is small on the wire and large in memory, uses a
// limited amount of the hub's memory. This test does not run in parallel with others, because it
// measures the process.
func TestMember_uses_a_limited_amount_of_memory(t *testing.T) {
	// The memory is proportional to the size of the largest list. maxMemory includes memory that is
	// not collected yet. Without limits, more than 10 GiB would be used.
	const maxList = 128 << 20
	const maxMemory = 5 * maxList
	env := sharedEnv(t)
	// The operator runs with Go's default, and tests with a higher GOGC: see the Makefile.
	percent := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	// The rate is high, because the limit on memory must not depend on throttling.
	o := env.newOperator(t, "fleet-memory", func(o *setup) { o.MaxListBytes, o.ReadRate = maxList, 1<<30 })
	const list, watch = "", "watch"
	tests := []struct {
		name, verb string
		send       func(io.Writer)
	}{
		{"a list of 1 GB", list, func(w io.Writer) { writeRepeatedly(w, `{"metadata": {"namespace": "default", "name": "x"}},`) }},
		{"a list of 60 MB of empty items", list, writeTimes("{},", 20<<20)},
		{"a list of as many empty items as the limits permit", list, writeTimes("{},", maxList/2060)},
		{"a list of as many empty containers as the limits permit", list, func(w io.Writer) {
			_, _ = io.WriteString(w, `{"metadata": {"namespace": "default", "name": "x"}, "spec": {"template": {"spec": {"containers": [`)
			writeTimes("{},", maxList/520)(w)
			_, _ = io.WriteString(w, `{}]}}}},`)
		}},
		{"a watch with endless events", watch, func(w io.Writer) {
			for i := 0; i < 10<<20; i++ {
				if _, err := fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"%d"}}}`, i); err != nil {
					return
				}
			}
		}},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := env.newMember(t, o, fmt.Sprintf("memory-%d", i))
			// A list costs most after the last byte was read, so the test waits for the next
			// request.
			var begun, sent atomic.Int64
			onAllButProbes(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !strings.HasSuffix(r.URL.Path, "/deployments"):
					hang(w, r)
					return
				case r.URL.Query().Has("watch") && test.verb == list:
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				if test.verb == watch && !r.URL.Query().Has("watch") {
					_, _ = io.WriteString(w, listPrefix+"]}")
					return
				}
				begun.Add(1)
				body := bufio.NewWriterSize(w, 32<<10)
				if test.verb == list {
					_, _ = io.WriteString(body, listPrefix)
				}
				test.send(body)
				_, _ = io.WriteString(body, "null]}")
				_ = body.Flush()
				sent.Add(1)
			})(t, m)
			runtime.GC()
			before, peak := heapBytes(), uint64(0)
			m.createSecret(t, m.kubeconfig(t))
			wait.Eventually(t, func() error {
				if peak = max(peak, heapBytes()); peak > before+maxMemory {
					t.Fatalf("%d MiB are used", (peak-before)>>20)
				}
				if sent.Load() < 1 || test.verb == list && begun.Load() < 2 {
					return errors.New("the operator has not read the first response")
				}
				return nil
			})
			t.Logf("%d MiB are used", (peak-before)>>20)
		})
	}
}

// writeTimes writes a text that many times, or until the reader stops.
func writeTimes(piece string, times int) func(io.Writer) {
	return func(w io.Writer) {
		for range times {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	}
}

// heapBytes returns the bytes of the heap that are in use or not collected yet.
func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// Large lists of several members at once would take more memory than all that they leave in the caches.
// So only one of them is read beyond its first bytes, and the others get their turn afterwards.
func TestMembers_take_turns_with_large_lists(t *testing.T) {
	t.Parallel()
	const members = 3
	const size, buffered = 64 << 20, 48 << 20 // the latter is far more than fits into the buffers of a network
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-large-lists", func(o *setup) { o.MaxListBytes, o.ReadRate = 2*size, 1<<30 })
	var sending, most, arrived atomic.Int64
	release := make(chan struct{})
	handle := onAllButProbes(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/deployments") || r.URL.Query().Has("watch") {
			hang(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, listPrefix)
		blank := strings.Repeat(" ", 1<<20)
		for sent := 0; sent < size; sent += len(blank) {
			if _, err := io.WriteString(w, blank); err != nil {
				return
			}
			if sent != buffered {
				continue
			}
			now := sending.Add(1)
			defer sending.Add(-1)
			for was := most.Load(); was < now && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			arrived.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "]}")
	})
	for i := range members {
		m := env.newMember(t, o, fmt.Sprintf("large-list-%d", i))
		handle(t, m)
		m.createSecret(t, m.kubeconfig(t))
	}
	for n := range int64(members) {
		wait.Eventually(t, func() error {
			if arrived.Load() <= n {
				return fmt.Errorf("%d lists have arrived", arrived.Load())
			}
			return nil
		})
		release <- struct{}{}
	}
	if most.Load() != 1 {
		t.Errorf("%d large lists were read at a time", most.Load())
	}
}
