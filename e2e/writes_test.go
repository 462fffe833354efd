package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// writeCounts are the numbers of the operator's write requests, by cluster and by kind of request.
// Writes of the Lease of its election are left out.
type writeCounts map[string]map[string]int

func (f *fleet) countWrites(t *testing.T) writeCounts {
	t.Helper()
	counted := writeCounts{}
	for name, c := range f.All() {
		counted[name] = map[string]int{}
		for _, request := range requests(t, c) {
			if request.IsWrite() && request.Object.Resource != "leases" {
				counted[name][request.What()]++
			}
		}
	}
	return counted
}

// requests returns the operator's requests to a cluster so far.
func requests(t *testing.T, c *framework.Cluster) []environment.Request {
	t.Helper()
	requests, err := c.Requests(context.Background())
	if err != nil {
		t.Fatalf("read the operator's requests to %s: %v", c.Name(), err)
	}
	if len(requests) == 0 {
		t.Fatalf("the audit log of %s has no request of the operator", c.Name())
	}
	return requests
}

// totals returns the number of writes by cluster.
func totals(w writeCounts) map[string]int {
	sums := map[string]int{}
	for cluster, counts := range w {
		for _, n := range counts {
			sums[cluster] += n
		}
	}
	return sums
}

// awaitNoWrites waits until nothing was written for three seconds.
func (f *fleet) awaitNoWrites(t *testing.T) {
	t.Helper()
	last, since := f.countWrites(t), time.Now()
	f.Eventually(t, "three seconds without a write", func(context.Context) error {
		current := f.countWrites(t)
		diff := cmp.Diff(last, current)
		if diff != "" {
			last, since = current, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("the last writes (-before +after):\n%s", diff)
		}
		return nil
	})
}
