package delivery

import (
	"errors"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// An AppService may disappear without a removal: with its namespace, its CRD, or its entry.
func TestMemory_is_dropped_with_the_AppService_or_its_entry(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"when the AppService is gone": func(s *setup) { s.must(onHub.Delete(s.Context(), s.app)) },
		"when the entry is gone":      func(s *setup) { s.writeEntries() },
	}
	for name, goes := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.end()
			s.connect()
			w := s.newReconciler()
			w.reconcileOnce()
			if len(w.memories.byApp) != 1 {
				t.Fatalf("memory: %v", w.memories.byApp)
			}
			goes(s)
			w.reconcileOnce()
			if len(w.memories.byApp) != 0 {
				t.Errorf("memory: %v", w.memories.byApp)
			}
		})
	}
}

func TestMemory_is_of_one_UID(t *testing.T) {
	t.Parallel()
	var m memories
	first := entry("east", v1alpha1.ClusterReady, 2)
	before, after := app(first), app(first)
	after.UID = "another"
	m.of(before).ofKind("PodDisruptionBudget").isUnlisted = true
	if known := m.of(before); !known.ofKind("PodDisruptionBudget").isUnlisted {
		t.Error("the memory is empty")
	}
	if known := m.of(after); known.ofKind("PodDisruptionBudget").isUnlisted || len(m.byApp) != 1 {
		t.Errorf("memory: %+v", known)
	}
}

// Members that deliver an AppService forget it after it is deleted.
func TestDispatch_of_an_AppService_that_is_gone(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.connect()
	e := idleEngagement(s.reported)
	q := e.queue
	defer q.ShutDown()
	s.deliverer.mu.Lock()
	s.deliverer.engagements[s.clusterName()] = []*engagement{e}
	s.deliverer.mu.Unlock()
	s.plan()
	enqueued := func() {
		t.Helper()
		wait.Eventually(t, func() error {
			if q.Len() == 0 {
				return errors.New("nothing is enqueued")
			}
			return nil
		})
		r, _ := q.Get()
		q.Done(r)
	}
	enqueued()
	s.must(onHub.Delete(t.Context(), s.app))
	enqueued()
}
