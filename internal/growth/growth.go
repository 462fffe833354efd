// Package growth lets a test fail if the work of a function grows faster than its input, so that
// nobody adds quadratic work to what plans ten thousand clusters. Only tests import it.
//
//	growth.CheckLinear(t, func(clusters int) func() {
//		in := fleet(clusters)
//		return func() { rollout.Plan(in) }
//	})
//
// Allocations and bytes are exact. A loop within a loop may allocate nothing, so the CPU time of the
// thread counts, too: other programs hardly change it. Its limit is far above linear growth, because
// large inputs do not fit into the processor's caches, and far below quadratic growth.
package growth

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// The input grows tenfold. Quadratic work grows a hundredfold.
const (
	small, large = 1000, 10000
	// maxAllocated allows for the logarithm of a sort, and for slices and maps that grow in steps.
	maxAllocated = 25
	maxCPU       = 40
	// rounds is how often each size is measured. The least counts: it is disturbed least.
	rounds = 6
	// Costs below these are not compared: one more step of a slice or a moment of another program
	// would be a large part of them.
	minAllocations = 100
	minBytes       = 64 << 10
	minCPU         = 100 * time.Microsecond
)

// Cost is what one call of a function costs.
type Cost struct {
	Allocations, Bytes uint64
	CPU                time.Duration
}

// CheckLinear fails the test if a function costs much more than ten times as much for an input that
// is ten times as large. Prepare returns the function for an input of a size. The test must not run
// in parallel with others.
func CheckLinear(t *testing.T, prepare func(size int) func()) {
	t.Helper()
	few, many := Measure(prepare(small)), Measure(prepare(large))
	t.Logf("%d: %+v; %d: %+v", small, few, large, many)
	if many.Allocations > maxAllocated*max(minAllocations, few.Allocations) {
		t.Errorf("%d allocations for %d, and %d for %d: more than %d times as many", few.Allocations, small, many.Allocations, large, maxAllocated)
	}
	if many.Bytes > maxAllocated*max(minBytes, few.Bytes) {
		t.Errorf("%d bytes for %d, and %d for %d: more than %d times as many", few.Bytes, small, many.Bytes, large, maxAllocated)
	}
	if many.CPU > maxCPU*max(minCPU, few.CPU) {
		t.Errorf("%v of CPU for %d, and %v for %d: more than %d times as much", few.CPU, small, many.CPU, large, maxCPU)
	}
}

// Measure returns the least cost of some calls of a function. Garbage is collected between them.
func Measure(do func()) Cost {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	do() // what is computed once
	least := once(do)
	for range rounds - 1 {
		cost := once(do)
		least.Allocations, least.Bytes, least.CPU = min(least.Allocations, cost.Allocations), min(least.Bytes, cost.Bytes), min(least.CPU, cost.CPU)
	}
	return least
}

func once(do func()) Cost {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := cpuTime()
	do()
	used := cpuTime() - start
	runtime.ReadMemStats(&after)
	return Cost{Allocations: after.Mallocs - before.Mallocs, Bytes: after.TotalAlloc - before.TotalAlloc, CPU: used}
}
