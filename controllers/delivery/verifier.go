package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// errNotVerified is returned when a live read of the hub does not confirm a change that cannot be
// undone. The cache is about to follow.
var errNotVerified = errors.New("a live read of the hub does not confirm the change")

// maxVerifiedAge is how old a live read may be that confirms a change. The planner may change its
// mind just as well while a request is on its way to a member.
const maxVerifiedAge = time.Second

// verifier confirms changes that cannot be undone by live reads of the hub. A removal concerns many
// members at the same time, so they share the reads. It is safe for concurrent use.
type verifier struct {
	hubLive client.Reader

	mu    sync.Mutex
	reads map[types.NamespacedName]*liveRead
}

// liveRead is the last live read of an AppService. Whoever holds turn may read or replace it.
type liveRead struct {
	turn      chan struct{}
	app       *v1alpha1.AppService // nil before the first read
	startTime time.Time
}

// verify returns nil if a live read of the AppService confirms a change, and when that read began. A read
// that another member has made within maxVerifiedAge can only confirm: if it does not, the hub may have
// changed since.
func (v *verifier) verify(ctx context.Context, key types.NamespacedName, confirms func(*v1alpha1.AppService) bool) (readTime time.Time, err error) {
	last := v.readOf(key)
	select {
	case last.turn <- struct{}{}:
		defer func() { <-last.turn }()
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("verify with the hub: %w", ctx.Err())
	}
	if last.app != nil && time.Since(last.startTime) < maxVerifiedAge && confirms(last.app) {
		return last.startTime, nil
	}
	start, app := time.Now(), &v1alpha1.AppService{}
	if err := v.hubLive.Get(ctx, key, app); err != nil {
		return time.Time{}, fmt.Errorf("verify with the hub: %w", err)
	}
	last.startTime, last.app = start, app
	if !confirms(app) {
		return time.Time{}, errNotVerified
	}
	return start, nil
}

// readOf returns the last live read of an AppService. It is forgotten after maxVerifiedAge.
func (v *verifier) readOf(key types.NamespacedName) *liveRead {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.reads[key]
	if last == nil {
		last = &liveRead{turn: make(chan struct{}, 1)}
		v.reads[key] = last
		time.AfterFunc(2*maxVerifiedAge, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			delete(v.reads, key)
		})
	}
	return last
}

// verification is the evidence for several deletions in a row: a live read of the hub, which is repeated
// when it is older than maxVerifiedAge. It is not safe for concurrent use.
type verification struct {
	// read reads the hub live, and returns when that began, or why it does not confirm the deletions.
	read     func(context.Context) (readTime time.Time, err error)
	readTime time.Time
}

// renew returns nil if a live read that is at most maxVerifiedAge old confirms the next deletion.
func (c *verification) renew(ctx context.Context) (err error) {
	if time.Since(c.readTime) < maxVerifiedAge {
		return nil
	}
	c.readTime, err = c.read(ctx)
	return err
}
