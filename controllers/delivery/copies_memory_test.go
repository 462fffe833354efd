package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Members receive slowly, and each is to get another content. Those that are on their way at a time stay
// below the limit, and all arrive in the end.
func TestCopies_on_their_way_take_limited_memory(t *testing.T) {
	t.Parallel()
	const (
		members = 8
		size    = 100 << 10
		atOnce  = 3
	)
	reader := snapshots.NewReader(hubCached.GetAPIReader(), atOnce*size+size/2, newTestKey())
	slow := newSlowMembers()
	all := make([]*configured, members)
	var delivered sync.WaitGroup
	for i := range all {
		c := newConfigured(t)
		content := configuration.Content{Data: map[string][]byte{"value": bytes.Repeat([]byte{'a' + byte(i)}, size-1024)}}
		c.name(v1alpha1.ConfigurationConfigMap, "settings", c.snapshotOf(v1alpha1.ConfigurationConfigMap, "settings", content, 0))
		c.connect()
		c.planRevision()
		c.catchUp()
		w := c.newReconciler()
		w.copies.Snapshots = reader
		c.sent.answers(slow.answer("PATCH configmaps/" + c.ofSettings()))
		all[i] = c
		delivered.Go(func() {
			// An attempt that delivers nothing may return no error: if the revision is not cached yet.
			for t.Context().Err() == nil && onMember.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: c.ofSettings()}, &corev1.ConfigMap{}) != nil {
				if _, err := w.Reconcile(t.Context(), requestFor(c.clusterName(), c.key())); err == nil {
					<-time.After(100 * time.Millisecond)
				}
			}
		})
	}
	wait.Eventually(t, func() error {
		for _, c := range all {
			if name := c.snapshotNamed("settings"); hubRequests.count("GET configmaps/"+name) == 0 {
				return fmt.Errorf("snapshot %s is not read", name)
			}
		}
		return slow.expectArrived(atOnce)
	})
	for n := range members {
		wait.Eventually(t, func() error { return slow.expectArrived(min(n+atOnce, members)) })
		slow.release <- struct{}{}
	}
	delivered.Wait()
	if slow.most != atOnce {
		t.Errorf("%d contents were on their way at a time, want %d", slow.most, atOnce)
	}
	for _, c := range all {
		if found := c.copiesOnMember(); len(found["ConfigMap/"+c.ofSettings()]) != size-1024 {
			t.Errorf("the member has %v", sortedKeys(found))
		}
	}
}

// snapshotNamed returns the snapshot of a source in the present revision.
func (c *configured) snapshotNamed(from string) string {
	for _, named := range c.named {
		if named.From == from {
			return named.Snapshot
		}
	}
	return ""
}

// slowMembers are members whose network does not forward the requests for copies until the test
// releases them.
type slowMembers struct {
	release chan struct{}

	mu                   sync.Mutex
	arrived, inUse, most int
}

func newSlowMembers() *slowMembers { return &slowMembers{release: make(chan struct{})} }

// answer delays the first request of a member that begins with this text.
func (s *slowMembers) answer(prefix string) func(string) (*http.Response, error) {
	var once sync.Once
	return func(request string) (*http.Response, error) {
		if strings.HasPrefix(request, prefix) {
			once.Do(s.delay)
		}
		return nil, nil
	}
}

func (s *slowMembers) delay() {
	count := func(arrived, inUse int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.arrived, s.inUse = s.arrived+arrived, s.inUse+inUse
		s.most = max(s.most, s.inUse)
	}
	count(1, 1)
	<-s.release
	count(0, -1)
}

// expectArrived returns an error until so many requests have arrived.
func (s *slowMembers) expectArrived(want int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.arrived < want {
		return fmt.Errorf("%d requests have arrived, want %d", s.arrived, want)
	}
	return nil
}

// A caller that gives up while it waits leaves no memory taken.
func TestContent_is_released_by_a_caller_that_gives_up(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	reader := snapshots.NewReader(hubCached.GetAPIReader(), 1, newTestKey())
	held, err := reader.Content(t.Context(), c.app, v1alpha1.ConfigurationConfigMap, c.snapshotNamed("settings"))
	c.must(err)
	ctx, giveUp := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() {
		_, err := reader.Content(ctx, c.app, v1alpha1.ConfigurationSecret, c.snapshotNamed("db"))
		waiting <- err
	}()
	wait.Eventually(t, func() error {
		if hubRequests.count("GET secrets/"+c.snapshotNamed("db")) == 0 {
			return errors.New("the second content is not read yet")
		}
		return nil
	})
	giveUp()
	if err := <-waiting; err == nil {
		t.Error("two contents are in use")
	}
	held.Release()
	held.Release() // it may be called repeatedly
	other, err := reader.Content(t.Context(), c.app, v1alpha1.ConfigurationSecret, c.snapshotNamed("db"))
	c.must(err)
	other.Release()
}
