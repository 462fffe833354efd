package e2e

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// quiet is how long nothing may be written.
const quiet = 20 * time.Second

// writes are how many requests that write the operator has sent to each cluster: by cluster, then by what was done to which resource. The
// Lease of its election is left out.
type writes map[string]map[string]int

func (f *fleet) writes(t *testing.T) writes {
	t.Helper()
	counted := writes{}
	for name, c := range f.all() {
		counted[name] = map[string]int{}
		for _, request := range f.requests(t, c) {
			if request.Writes() && request.Object.Resource != "leases" {
				counted[name][request.What()]++
			}
		}
	}
	return counted
}

// all are the hub and the members.
func (f *fleet) all() map[string]*cluster {
	all := maps.Clone(f.members)
	all[f.hub.Name()] = f.hub
	return all
}

// requests are what the operator has asked of a cluster so far.
func (f *fleet) requests(t *testing.T, c *cluster) []environment.Request {
	t.Helper()
	requests, err := c.Requests(background)
	if err != nil {
		t.Fatalf("read what the operator has asked of %s: %v", c.Name(), err)
	}
	if len(requests) == 0 {
		t.Fatalf("nothing is logged of what the operator has asked of %s", c.Name())
	}
	return requests
}

func totals(w writes) map[string]int {
	sums := map[string]int{}
	for cluster, counts := range w {
		for _, n := range counts {
			sums[cluster] += n
		}
	}
	return sums
}

// awaitSilence waits until nothing was written for three seconds: what the last change caused is over.
func (f *fleet) awaitSilence(t *testing.T) {
	t.Helper()
	last, since := f.writes(t), time.Now()
	eventually(t, "three seconds without a write", func() error {
		now := f.writes(t)
		diff := cmp.Diff(last, now)
		if diff != "" {
			last, since = now, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("written last (-before +after):\n%s", diff)
		}
		return nil
	})
}
