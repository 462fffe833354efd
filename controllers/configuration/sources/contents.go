package sources

import (
	"context"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

const (
	// keepContent is how long a content is kept, so that all AppServices that share a source, and
	// change at the same time, share one read.
	keepContent = 30 * time.Second
	// maxContents is the maximum size of the contents that are kept, in bytes.
	maxContents = 8 << 20
	// readTimeout limits a shared read, which does not end with the request of one of its callers.
	readTimeout = 30 * time.Second
)

// contents reads objects. Callers that need the same content at the same time share one read. It is
// safe for concurrent use.
type contents struct {
	hub   *hubClient
	reads singleflight.Group

	mu    sync.Mutex
	kept  []keptContent // oldest first
	bytes int64
}

type keptContent struct {
	key    objectKey
	object *object
	until  time.Time
}

// get returns an object with this version, or a later one. The object must not be modified.
func (c *contents) get(ctx context.Context, key objectKey, version string) (*object, error) {
	if found := c.find(key, version); found != nil {
		return found, nil
	}
	// A read for another version may have begun before this version existed.
	return share(ctx, &c.reads, "content of "+key.String()+" at "+version, func(ctx context.Context) (*object, error) {
		if found := c.find(key, version); found != nil { // another read has ended just before this one
			return found, nil
		}
		return c.readAndKeep(ctx, key)
	})
}

// metadata returns an object without its content.
func (c *contents) metadata(ctx context.Context, key objectKey) (*object, error) {
	return share(ctx, &c.reads, "metadata of "+key.String(), func(ctx context.Context) (*object, error) { return c.hub.readMetadata(ctx, key) })
}

// share reads once for all callers that wait for the same.
func share[T any](ctx context.Context, reads *singleflight.Group, what string, read func(context.Context) (T, error)) (T, error) {
	results := reads.DoChan(what, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return read(ctx)
	})
	select {
	case result := <-results:
		found, _ := result.Val.(T)
		return found, result.Err
	case <-ctx.Done():
		var none T
		return none, wrap("read the "+what, ctx.Err())
	}
}

func (c *contents) readAndKeep(ctx context.Context, key objectKey) (*object, error) {
	found, err := c.hub.read(ctx, key)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = append(c.kept, keptContent{key, found, time.Now().Add(keepContent)})
	c.bytes += found.content.Size()
	c.dropOld()
	time.AfterFunc(keepContent, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.dropOld()
	})
	return found, nil
}

// dropOld drops the contents that are too old, or too many.
func (c *contents) dropOld() {
	first := 0
	for first < len(c.kept) && (c.bytes > maxContents || !time.Now().Before(c.kept[first].until)) {
		c.bytes -= c.kept[first].object.content.Size()
		c.kept[first] = keptContent{} // the array may stay
		first++
	}
	if c.kept = c.kept[first:]; len(c.kept) == 0 {
		c.kept = nil
	}
}

// find returns a content that is kept and has this version or a later one, or nil.
func (c *contents) find(key objectKey, version string) *object {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.kept) - 1; i >= 0; i-- {
		if c.kept[i].key == key && isAtLeast(versionOf(c.kept[i].object), version) {
			return c.kept[i].object
		}
	}
	return nil
}

// isAtLeast reports whether a version of an object is the same as another one, or later.
func isAtLeast(version, other string) bool {
	if version == other {
		return true
	}
	uid, number, _ := strings.Cut(version, "/")
	otherUID, otherNumber, _ := strings.Cut(other, "/")
	if uid != otherUID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(number, otherNumber)
	return err == nil && order >= 0
}
