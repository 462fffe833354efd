package clusters

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NewCache returns a cache of controller-runtime, with one difference. Its wait ends as soon as the
// informers are synced. Otherwise it would poll them every 100 ms, as it does after the first second.
// docs/decisions/a-wait-for-caches-is-not-polled.md says why.
func NewCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	c := &promptCache{}
	create := options.NewInformer
	if create == nil {
		create = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return c.add(create(lw, object, resync, indexers))
	}
	var err error
	c.Cache, err = cache.New(config, options)
	return c, err
}

// promptCache is the cache of NewCache. It is safe for concurrent use.
type promptCache struct {
	cache.Cache

	mu     sync.Mutex
	synced []toolscache.DoneChecker // of all informers so far
}

func (c *promptCache) add(created toolscache.SharedIndexInformer) toolscache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = append(c.synced, created.HasSyncedChecker())
	return created
}

// pollFreeTime is how long a wait does not poll. After that it is controller-runtime's, which also knows
// when an informer was removed.
const pollFreeTime = time.Second

// WaitForCacheSync waits until all informers are synced, and returns false if the context ends before.
func (c *promptCache) WaitForCacheSync(ctx context.Context) bool {
	c.mu.Lock()
	synced := c.synced
	c.mu.Unlock()
	pollFree, cancel := context.WithTimeout(ctx, pollFreeTime)
	defer cancel()
	toolscache.WaitFor(pollFree, "", synced...)
	return c.Cache.WaitForCacheSync(ctx)
}
