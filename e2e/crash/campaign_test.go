package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// campaign runs many lifecycles.
type campaign struct {
	fleet *fleet
	want  []stepResult

	hits      map[hit]int
	kills     int
	unreached int // kills whose request number was not reached
}

// hit is a kind of request, in a step, at which the operator was killed.
type hit struct {
	step, kind string
	mode       crashMode
}

// lifecycle is one lifecycle of a campaign.
type lifecycle struct {
	app   *v1alpha1.AppService
	kills []kill

	killed  string    // where the operator was killed in the current step
	reached time.Time // when the state of the current step was reached
	failed  bool      // a state was not reached
}

// run runs the lifecycles of a plan, some of them in parallel.
func (c *campaign) run(t *testing.T, plan [][]kill) {
	for batch := range slices.Chunk(plan, *parallelFlag) {
		var lifecycles []*lifecycle
		for _, kills := range batch {
			app, err := c.fleet.newApp(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lifecycles = append(lifecycles, &lifecycle{app: app, kills: kills})
		}
		for i := range scenario {
			begin := time.Now()
			c.step(t, lifecycles, i)
			t.Logf("%d lifecycles, %s: %s, %d kills so far", len(lifecycles), scenario[i].name, time.Since(begin).Round(time.Second), c.kills)
		}
	}
}

// step runs a step of all lifecycles: first those without a kill, then one after the other those
// with a kill. If there was a kill, it checks that nothing changes during the quiet period.
func (c *campaign) step(t *testing.T, lifecycles []*lifecycle, i int) {
	for _, disturbed := range []bool{false, true} {
		for _, l := range lifecycles {
			if !l.failed && disturbed == (l.kills[i].number > 0) {
				c.check(t, l, i, c.act(t.Context(), l, i))
			}
		}
	}
	for _, l := range lifecycles {
		if !l.failed && l.reached.IsZero() {
			c.check(t, l, i, c.await(t.Context(), l, i))
		}
	}
	if !slices.ContainsFunc(lifecycles, func(l *lifecycle) bool { return l.kills[i].number > 0 }) {
		return
	}
	if err := waitQuietPeriod(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range lifecycles {
		if l.failed {
			continue
		}
		if err := c.fleet.checkUnchanged(t.Context(), l.app, l.reached, c.want[i].state); err != nil {
			t.Errorf("%s after %s, %s: %v", l.app.Namespace, scenario[i].name, l.killed, err)
		}
	}
}

// check reports an error and ends the lifecycle. It ends the test if no operator runs.
func (c *campaign) check(t *testing.T, l *lifecycle, i int, err error) {
	if err == nil {
		return
	}
	l.failed = true
	t.Errorf("%s in %s, %s: %v", l.app.Namespace, scenario[i].name, l.killed, err)
	if running, err := c.fleet.env.Operator(); err != nil || running == nil {
		t.Fatal("no operator runs")
	}
}

// act runs a step of a lifecycle. If the step has a kill, act starts the operator again and waits
// for the state.
func (c *campaign) act(ctx context.Context, l *lifecycle, i int) error {
	f, k, want := c.fleet, l.kills[i], c.want[i].state
	l.killed, l.reached = "not killed", time.Time{}
	if k.number == 0 {
		return f.take(ctx, l.app, scenario[i])
	}
	armed := f.proxy.arm(l.app.Namespace, k)
	if err := f.take(ctx, l.app, scenario[i]); err != nil {
		return err
	}
	r, killed, err := f.awaitKill(ctx, l.app, armed, want)
	if !killed {
		c.unreached++
		return err // nil if the state was reached
	}
	c.kills++
	c.hits[hit{scenario[i].name, r.Kind(), k.mode}]++
	l.killed = fmt.Sprintf("killed at request %d (%s), %s", k.number, r, k.mode)
	if err := f.start(ctx); err != nil {
		return err
	}
	return c.await(ctx, l, i)
}

// await waits for the state of the baseline.
func (c *campaign) await(ctx context.Context, l *lifecycle, i int) (err error) {
	l.reached, err = c.fleet.awaitState(ctx, l.app, c.want[i].state)
	return err
}

// awaitKill waits until the operator is killed, or the state is reached without a kill and nothing
// is written any more.
func (f *fleet) awaitKill(ctx context.Context, app *v1alpha1.AppService, armed *killPoint, want state) (r ledger.Request, killed bool, err error) {
	err = environment.Await(ctx, wait.Patience, "the request at which to kill", func(ctx context.Context) error {
		select {
		case r = <-armed.fired:
			killed = true
			return nil
		default:
		}
		return errors.Join(f.checkState(ctx, app, want), f.checkNoRecentWrites(app))
	})
	if killed || f.proxy.disarm(armed) {
		return r, killed, err
	}
	return <-armed.fired, true, nil // it fired after the wait
}

// missed returns, by step, kills at the kinds of requests of the baseline that were not hit in both
// modes.
func (c *campaign) missed() [][]kill {
	missed := make([][]kill, len(scenario))
	for i, step := range c.want {
		if !isKilled(i) {
			continue
		}
		for _, r := range step.writes {
			for _, mode := range modes {
				k := kill{number: 1, mode: mode, kind: r.Kind()}
				if c.hits[hit{scenario[i].name, k.kind, mode}] == 0 && !slices.Contains(missed[i], k) {
					missed[i] = append(missed[i], k)
				}
			}
		}
	}
	return missed
}

// planMissed plans lifecycles with the missed kills.
func (c *campaign) planMissed() (plan [][]kill) {
	for i, kills := range c.missed() {
		for n, k := range kills {
			if n == len(plan) {
				plan = append(plan, make([]kill, len(scenario)))
			}
			plan[n][i] = k
		}
	}
	return plan
}

// checkCoverage fails the test if a kind of request was missed.
func (c *campaign) checkCoverage(t *testing.T) {
	for i, kills := range c.missed() {
		for _, k := range kills {
			t.Errorf("%s: never killed at %s, %s", scenario[i].name, k.kind, k.mode)
		}
	}
}
