package planner

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxSharedAge is how long a live read is shared with callers that accept one from before their
// call.
const maxSharedAge = time.Second

// sharedReads reads the metadata of objects from the API server. Many AppServices ask for the same
// few objects at the same time, so they share the reads. It is safe for concurrent use.
type sharedReads struct {
	live client.Reader

	mu    sync.Mutex
	reads map[objectName]*sharedRead
}

// objectName names a cluster-scoped object.
type objectName struct {
	kind schema.GroupVersionKind
	name string
}

// sharedRead is the last live read of an object. Whoever holds turn may read or replace it.
type sharedRead struct {
	turn      chan struct{}
	object    *metav1.PartialObjectMetadata // nil before the first read
	startTime time.Time
}

func newSharedReads(live client.Reader) *sharedReads {
	return &sharedReads{live: live, reads: map[objectName]*sharedRead{}}
}

// get returns an object as a read found it that started after a time. Callers that wait while
// another read is in progress share the next one. The result must not be modified. An error is not
// shared.
func (s *sharedReads) get(ctx context.Context, of objectName, after time.Time) (*metav1.PartialObjectMetadata, error) {
	last := s.readOf(of)
	select {
	case last.turn <- struct{}{}:
		defer func() { <-last.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("read %s %s: %w", of.kind.Kind, of.name, ctx.Err())
	}
	if last.object != nil && last.startTime.After(after) {
		return last.object, nil
	}
	start, object := time.Now(), &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(of.kind)
	if err := s.live.Get(ctx, client.ObjectKey{Name: of.name}, object); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", of.kind.Kind, of.name, err)
	}
	object.SetGroupVersionKind(of.kind)
	last.startTime, last.object = start, object
	return object, nil
}

// readOf returns the last live read of an object. It is forgotten after a while.
func (s *sharedReads) readOf(of objectName) *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.reads[of]
	if last == nil {
		last = &sharedRead{turn: make(chan struct{}, 1)}
		s.reads[of] = last
		time.AfterFunc(2*maxSharedAge, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.reads, of)
		})
	}
	return last
}
