package delivery

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// countingReader counts the reads of the hub.
type countingReader struct {
	client.Reader
	reads atomic.Int32
}

func (c *countingReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	c.reads.Add(1)
	return c.Reader.Get(ctx, key, into, options...)
}

func newVerifier() (*verifier, *countingReader) {
	hub := &countingReader{Reader: onHub}
	return &verifier{hubLive: hub, reads: map[types.NamespacedName]*liveRead{}}, hub
}

func errorOf(_ time.Time, err error) error { return err }

func expectReads(t *testing.T, hub *countingReader, want int32) {
	t.Helper()
	if got := hub.reads.Load(); got != want {
		t.Errorf("the hub was read %d times, want %d", got, want)
	}
}

func TestVerifier_members_share_a_read(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	v, hub := newVerifier()
	confirms := func(app *v1alpha1.AppService) bool { return app.UID == s.app.UID }
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := v.verify(t.Context(), s.key(), confirms); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	expectReads(t, hub, 1)
}

func TestVerifier_does_not_use_an_old_read(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	v, hub := newVerifier()
	confirms := func(app *v1alpha1.AppService) bool { return app.Generation == 1 }
	s.must(errorOf(v.verify(t.Context(), s.key(), confirms)))
	s.edit(editImage)
	v.readOf(s.key()).startTime = time.Now().Add(-maxVerifiedAge)
	if _, err := v.verify(t.Context(), s.key(), confirms); !errors.Is(err, errNotVerified) {
		t.Error("got", err)
	}
	expectReads(t, hub, 2)
}

// The cache of one member may be ahead of the read that another one has made. Nothing would try
// again if that read refused a change.
func TestVerifier_a_shared_read_cannot_refuse(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	v, hub := newVerifier()
	confirmsGeneration := func(want int64) func(*v1alpha1.AppService) bool {
		return func(app *v1alpha1.AppService) bool { return app.Generation == want }
	}
	s.must(errorOf(v.verify(t.Context(), s.key(), confirmsGeneration(1))))
	s.edit(editImage)
	s.must(errorOf(v.verify(t.Context(), s.key(), confirmsGeneration(2))))
	expectReads(t, hub, 2)
	if _, err := v.verify(t.Context(), s.key(), confirmsGeneration(1)); !errors.Is(err, errNotVerified) {
		t.Error("got", err)
	}
}

func TestVerifier_an_error_is_not_shared(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	v, _ := newVerifier()
	confirms := func(*v1alpha1.AppService) bool { return true }
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := v.verify(ended, s.key(), confirms); !errors.Is(err, context.Canceled) {
		t.Error("got", err)
	}
	s.must(errorOf(v.verify(t.Context(), s.key(), confirms)))
}

func TestVerifier_forgets_its_reads(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	v, _ := newVerifier()
	s.must(errorOf(v.verify(t.Context(), s.key(), func(*v1alpha1.AppService) bool { return true })))
	wait.Eventually(t, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.reads) > 0 {
			return errors.New("a read is kept")
		}
		return nil
	})
}
