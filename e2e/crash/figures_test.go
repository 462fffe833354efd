package crash

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// cost says how many requests there were to the hub and to the members.
func cost(requests []request) string {
	writes, reads, watches := map[bool]int{}, map[bool]int{}, map[bool]int{}
	for _, r := range requests {
		onHub := r.cluster == hubName
		switch {
		case r.changes:
			writes[onHub]++
		case r.verb == "WATCH":
			watches[onHub]++
		case !slices.Contains(stateless, r.resource):
			reads[onHub]++
		}
	}
	say := func(onHub bool) string {
		return fmt.Sprintf("%d writes, %d reads, %d watches", writes[onHub], reads[onHub], watches[onHub])
	}
	return fmt.Sprintf("hub: %s; members together: %s", say(true), say(false))
}

// report logs what was killed at.
func (c *campaign) report(t *testing.T) {
	total := 0
	for i, step := range c.want {
		total += len(step.writes)
		var lines []string
		for _, h := range slices.SortedFunc(maps.Keys(c.hits), func(a, b hit) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.way, b.way)) }) {
			if h.step == scenario[i].name {
				lines = append(lines, fmt.Sprintf("\n  %3d × %s, %s", c.hits[h], h.kind, h.way))
			}
		}
		t.Logf("%s: %d requests undisturbed; killed at%s", scenario[i].name, len(step.writes), strings.Join(lines, ""))
	}
	t.Logf("requests of the undisturbed life: %d; kills: %d; not reached, for the life had fewer requests: %d", total, c.kills, c.unreached)
}

// isLife tells whether a namespace is an AppService's of these tests.
func isLife(namespace string) bool { return strings.HasPrefix(namespace, "life-") }

// account prints the ledger's figures, and is an error when something was lost that nobody meant.
func (f *fleet) account() error {
	sum := f.ledger.figures()
	fmt.Printf("crash: operators started: %d\n", f.started)
	fmt.Printf("crash: ledger: deletes: %d, lowered: %d, untraced: %d\n", sum.Deletes, sum.Lowered, len(sum.Untraced))
	if len(sum.Untraced) > 0 {
		return fmt.Errorf("no intent of the user explains:\n  %s", strings.Join(sum.Untraced, "\n  "))
	}
	clusters, err := f.env.Clusters()
	if err != nil {
		return err
	}
	return environment.Denied(context.Background(), clusters...)
}

// fatal ends the test, and shows how the operator's log ends.
func (f *fleet) fatal(t *testing.T, err error) {
	t.Helper()
	if running, _ := f.env.Operator(); running != nil {
		t.Logf("the operator's log ends:\n%s", environment.Tail(running.Log(), 20))
	}
	t.Fatal(err)
}
