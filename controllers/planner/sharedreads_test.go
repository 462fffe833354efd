package planner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// countingReader counts the reads of the hub. If held is set, no read continues before it is closed.
type countingReader struct {
	client.Reader
	reads atomic.Int32
	held  chan struct{}
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	c.reads.Add(1)
	if c.held != nil {
		<-c.held
	}
	return c.Reader.Get(ctx, key, into, options...)
}

var defaultNamespace = objectName{namespaceKind, metav1.NamespaceDefault}

func TestSharedReads_start_after_the_time_that_is_asked_for(t *testing.T) {
	t.Parallel()
	live := &countingReader{Reader: takeHub(t)}
	s := newSharedReads(live)
	start := time.Now()
	tests := []struct {
		name  string
		after func() time.Time
		reads int32
	}{
		{"the first read", func() time.Time { return start }, 1},
		{"a time before the first read", func() time.Time { return start }, 1},
		{"a time after the first read", time.Now, 2},
		{"a time before the second read", func() time.Time { return start }, 2},
	}
	for _, test := range tests {
		if _, err := s.get(t.Context(), defaultNamespace, test.after()); err != nil {
			t.Fatal(err)
		}
		if got := live.reads.Load(); got != test.reads {
			t.Errorf("%s: %d reads, want %d", test.name, got, test.reads)
		}
	}
}

// A read that is in progress may have started too early for callers that come meanwhile. They share
// the next one.
func TestSharedReads_callers_that_wait_share_the_next_read(t *testing.T) {
	t.Parallel()
	live := &countingReader{Reader: takeHub(t), held: make(chan struct{})}
	s := newSharedReads(live)
	var all sync.WaitGroup
	get := func(after time.Time) {
		all.Go(func() {
			if _, err := s.get(t.Context(), defaultNamespace, after); err != nil {
				t.Error(err)
			}
		})
	}
	get(time.Now())
	wait.Eventually(t, func() error { // until the first read is in progress
		if live.reads.Load() == 0 {
			return errors.New("nothing is read")
		}
		return nil
	})
	for range 20 {
		get(time.Now())
	}
	close(live.held)
	all.Wait()
	if got := live.reads.Load(); got != 2 {
		t.Errorf("%d reads, want 2", got)
	}
}

func TestSharedReads_an_error_is_not_shared(t *testing.T) {
	t.Parallel()
	s := newSharedReads(takeHub(t))
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.get(ended, defaultNamespace, time.Now()); !errors.Is(err, context.Canceled) {
		t.Error("got", err)
	}
	if _, err := s.get(t.Context(), defaultNamespace, time.Now()); err != nil {
		t.Error(err)
	}
}

func TestSharedReads_are_forgotten(t *testing.T) {
	t.Parallel()
	s := newSharedReads(takeHub(t))
	if _, err := s.get(t.Context(), defaultNamespace, time.Now()); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.reads) > 0 {
			return errors.New("a read is kept")
		}
		return nil
	})
}
