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

// NewCache returns a cache whose wait ends as soon as its informers are synced. That of
// controller-runtime looks again every 100 ms only. Apart from that, it is the same.
// docs/decisions/a-wait-for-caches-is-not-polled.md says why.
func NewCache(config *rest.Config, options cache.Options) (cache.Cache, error) {
	c := &promptCache{}
	create := options.NewInformer
	if create == nil {
		create = toolscache.NewSharedIndexInformer
	}
	options.NewInformer = func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		return c.note(create(lw, object, resync, indexers))
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

func (c *promptCache) note(created toolscache.SharedIndexInformer) toolscache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = append(c.synced, created.HasSyncedChecker())
	return created
}

// promptTime is how long a wait is prompt. After that it is controller-runtime's, which also knows
// when an informer was removed.
const promptTime = time.Second

// WaitForCacheSync waits until all informers are synced, and returns false if the context ends before.
func (c *promptCache) WaitForCacheSync(ctx context.Context) bool {
	c.mu.Lock()
	synced := c.synced
	c.mu.Unlock()
	prompt, cancel := context.WithTimeout(ctx, promptTime)
	defer cancel()
	toolscache.WaitFor(prompt, "", synced...)
	return c.Cache.WaitForCacheSync(ctx)
}
