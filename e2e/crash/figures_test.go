package crash

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// countRequests returns the numbers of requests to the hub and to the members, as text.
func countRequests(requests []ledger.Request) string {
	writes, reads, watches := map[bool]int{}, map[bool]int{}, map[bool]int{}
	for _, r := range requests {
		onHub := r.Cluster == hubName
		switch {
		case r.Changes:
			writes[onHub]++
		case r.Verb == "WATCH":
			watches[onHub]++
		case !slices.Contains(ledger.Stateless, r.Resource):
			reads[onHub]++
		}
	}
	text := func(onHub bool) string {
		return fmt.Sprintf("%d writes, %d reads, %d watches", writes[onHub], reads[onHub], watches[onHub])
	}
	return fmt.Sprintf("hub: %s; members together: %s", text(true), text(false))
}

// report logs the requests at which the operator was killed.
func (c *campaign) report(t *testing.T) {
	total := 0
	for i, step := range c.want {
		total += len(step.writes)
		var lines []string
		for _, h := range slices.SortedFunc(maps.Keys(c.hits), func(a, b hit) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.mode, b.mode)) }) {
			if h.step == scenario[i].name {
				lines = append(lines, fmt.Sprintf("\n  %3d × %s, %s", c.hits[h], h.kind, h.mode))
			}
		}
		t.Logf("%s: %d requests in the baseline; killed at%s", scenario[i].name, len(step.writes), strings.Join(lines, ""))
	}
	t.Logf("requests of the baseline: %d; kills: %d; not reached, because the lifecycle had fewer requests: %d", total, c.kills, c.unreached)
}

// namespacePrefix is the prefix of the namespaces of the tests' AppServices.
const namespacePrefix = "lifecycle-"

// verifyLedger prints the ledger's figures. It returns an error if a deletion or a scale-down
// cannot be traced to an intent, or a cluster denied a request of the operator.
func verifyLedger(ctx context.Context, _ int) error {
	created := pool.Created()
	if len(created) == 0 {
		return nil
	}
	f := created[0]
	sum := f.ledger.Figures()
	fmt.Printf("crash: operators started: %d\n", f.started)
	fmt.Printf("crash: ledger: deletions: %d, scale-downs: %d, untraced: %d\n", sum.Deletions, sum.ScaleDowns, len(sum.Untraced))
	if len(sum.Untraced) > 0 {
		return fmt.Errorf("not traced to an intent of the user:\n  %s", strings.Join(sum.Untraced, "\n  "))
	}
	clusters, err := f.env.Clusters()
	if err != nil {
		return err
	}
	return environment.Denied(ctx, clusters...)
}
