package clusters_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/fleetwright/fleetwright/clusters"
)

// polled is an informer that counts how often it is asked before it is synced.
type polled struct {
	toolscache.SharedIndexInformer
	tooEarly *atomic.Int32
}

func (p polled) HasSynced() bool {
	synced := p.SharedIndexInformer.HasSynced()
	if !synced {
		p.tooEarly.Add(1)
	}
	return synced
}

// newConfigMapCache returns a cache that watches the ConfigMaps of an API server, and how often its
// informer was asked before it was synced.
func newConfigMapCache(t *testing.T) (cache.Cache, *atomic.Int32) {
	t.Helper()
	var tooEarly atomic.Int32
	c, err := clusters.NewCache(sharedEnv(t).hub.environment.Config, cache.Options{
		Scheme: scheme.Scheme,
		NewInformer: func(lw toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return polled{toolscache.NewSharedIndexInformer(lw, object, resync, indexers), &tooEarly}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.GetInformer(t.Context(), &corev1.ConfigMap{}, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	return c, &tooEarly
}

func TestCache_does_not_poll(t *testing.T) {
	c, tooEarly := newConfigMapCache(t)
	begin := time.Now()
	go func() { _ = c.Start(t.Context()) }() // it ends with the context
	if !c.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not synced")
	}
	if n := tooEarly.Load(); n > 0 && time.Since(begin) < time.Second { // after that, it polls
		t.Errorf("the informer was asked %d times before it was synced, want 0", n)
	}
	var found corev1.ConfigMapList
	if err := c.List(t.Context(), &found); err != nil || len(found.Items) == 0 {
		t.Errorf("%d ConfigMaps and error %v, want those of the hub", len(found.Items), err)
	}
}

func TestCache_wait_ends_with_its_context(t *testing.T) {
	c, _ := newConfigMapCache(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.WaitForCacheSync(ctx) { // nobody has started it
		t.Error("a cache that does not run is synced")
	}
}
