package sources

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// maxGrowth is how much the heap may grow with 300 sources of 100 KiB. The contents alone have 30 MiB,
// and as much again in an annotation.
const maxGrowth = 20 << 20

// It is not parallel, because it measures the heap of the process.
func TestContentIsNotKept(t *testing.T) {
	f := newFixture(t)
	const sources = 300
	content := strings.Repeat("0123456789abcdef", 100<<10/16)
	inParallel(sources, func(i int) {
		ref := configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: fmt.Sprintf("settings-%d", i)}
		f.put(ref, content, func(object metav1.Object) { // as kubectl apply does
			object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: content})
		})
	})
	apps, revisions := make([]*v1alpha1.AppService, sources/20), make([][]configuration.Revision, sources/20)
	for i := range apps {
		var refs []configuration.Ref
		for j := range 20 {
			refs = append(refs, configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: fmt.Sprintf("settings-%d", i*20+j)})
		}
		apps[i] = f.newApp(f.app.Namespace, fmt.Sprintf("web-%d", i), refs...)
	}
	f.stop()
	before := heap()
	f.start()
	f.waitForAccess()
	for range 4 {
		inParallel(len(apps), func(i int) {
			if _, err := f.planFor(apps[i], &revisions[i]); err != nil {
				t.Error(err)
			}
		})
		f.passed += 2 * time.Second
	}
	if stored := len(f.stored()); stored != sources {
		t.Fatalf("there are %d snapshots", stored)
	}
	growth := heap() - before
	t.Logf("the heap has grown by %.1f MiB", float64(growth)/(1<<20))
	if growth > maxGrowth {
		t.Errorf("the heap has grown by %.1f MiB", float64(growth)/(1<<20))
	}
	if kept := f.contents.bytes; kept > maxContents {
		t.Errorf("%d bytes of content are kept", kept)
	}
	runtime.KeepAlive(f)
}

// inParallel calls a function for each number, as the workers of the planner do.
func inParallel(number int, call func(int)) {
	var running sync.WaitGroup
	next := make(chan int)
	for range 16 {
		running.Go(func() {
			for i := range next {
				call(i)
			}
		})
	}
	for i := range number {
		next <- i
	}
	close(next)
	running.Wait()
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A content is dropped after a while, and the oldest first if there are too many.
func TestContentsAreDropped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(settings, strings.Repeat("x", 1<<19))
	key := objectKey{settings.Kind, f.app.Namespace, settings.From}
	c := &contents{hub: f.hub}
	for range 3 * maxContents >> 19 {
		if _, err := c.readAndKeep(f.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if c.bytes != maxContents || len(c.kept) != maxContents>>19 {
		t.Errorf("%d bytes of %d contents are kept", c.bytes, len(c.kept))
	}
	for i := range c.kept {
		c.kept[i].until = time.Now()
	}
	if c.dropOld(); c.bytes != 0 || len(c.kept) != 0 {
		t.Errorf("%d bytes are kept after the time", c.bytes)
	}
}
