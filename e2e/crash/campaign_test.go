package crash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// campaign is many lives.
type campaign struct {
	fleet *fleet
	want  []lived

	hits      map[hit]int
	kills     int
	unreached int
}

// hit is a kind of request that was killed at.
type hit struct {
	step, kind string
	way        way
}

// life is one of a campaign.
type life struct {
	app   *v1alpha1.AppService
	kills []kill

	did   string    // to the operator, in the present step
	since time.Time // when the state of the present step had come about
	over  bool      // a state has not come about
}

// run lives all lives, some beside each other.
func (c *campaign) run(t *testing.T, plan [][]kill) {
	for batch := range slices.Chunk(plan, *lanesFlag) {
		var lives []*life
		for _, kills := range batch {
			app, err := c.fleet.newApp(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			lives = append(lives, &life{app: app, kills: kills})
		}
		for i := range scenario {
			begun := time.Now()
			c.step(t, lives, i)
			t.Logf("%d lives, %s: %s, %d kills so far", len(lives), scenario[i].name, time.Since(begun).Round(time.Second), c.kills)
		}
	}
}

// step has all lives make a step, those one after the other in which the operator is killed. Then, if it was, it leaves all of them
// alone for the quiet window.
func (c *campaign) step(t *testing.T, lives []*life, i int) {
	for _, disturbed := range []bool{false, true} {
		for _, l := range lives {
			if !l.over && disturbed == (l.kills[i].number > 0) {
				c.check(t, l, i, c.act(t.Context(), l, i))
			}
		}
	}
	for _, l := range lives {
		if !l.over && l.since.IsZero() {
			c.check(t, l, i, c.arrive(t.Context(), l, i))
		}
	}
	if !slices.ContainsFunc(lives, func(l *life) bool { return l.kills[i].number > 0 }) {
		return
	}
	if err := quiet(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, l := range lives {
		if l.over {
			continue
		}
		if err := c.fleet.unchanged(t.Context(), l.app, l.since, c.want[i].state); err != nil {
			t.Errorf("%s after %s, %s: %v", l.app.Namespace, scenario[i].name, l.did, err)
		}
	}
}

// check ends a life in which something has gone wrong. Without an operator all are at their end.
func (c *campaign) check(t *testing.T, l *life, i int, err error) {
	if err == nil {
		return
	}
	l.over = true
	t.Errorf("%s in %s, %s: %v", l.app.Namespace, scenario[i].name, l.did, err)
	if running, err := c.fleet.env.Operator(); err != nil || running == nil {
		t.Fatal("there is no operator any more")
	}
}

// act makes a step of a life. Where the operator is to be killed in it, it is killed and started again, and the state has come about.
func (c *campaign) act(ctx context.Context, l *life, i int) error {
	f, k, want := c.fleet, l.kills[i], c.want[i].state
	l.did, l.since = "not killed", time.Time{}
	if k.number == 0 {
		return f.act(ctx, l.app, scenario[i].change)
	}
	armed := f.proxy.set(l.app.Namespace, k)
	if err := f.act(ctx, l.app, scenario[i].change); err != nil {
		return err
	}
	r, sprung, err := f.springs(ctx, l.app, armed, want)
	if !sprung {
		c.unreached++
		return err // Its state is there, if there is none.
	}
	c.kills++
	c.hits[hit{scenario[i].name, r.kind(), k.way}]++
	l.did = fmt.Sprintf("killed at request %d (%s), %s", k.number, r, k.way)
	if err := f.start(ctx); err != nil {
		return err
	}
	return c.arrive(ctx, l, i)
}

// arrive waits for the state of the undisturbed life.
func (c *campaign) arrive(ctx context.Context, l *life, i int) (err error) {
	l.since, err = c.fleet.is(ctx, l.app, c.want[i].state)
	return err
}

// springs waits until a trap has sprung, or the state has come about without it and nothing is written any more.
func (f *fleet) springs(ctx context.Context, app *v1alpha1.AppService, armed *trap, want state) (r request, sprung bool, err error) {
	err = environment.Await(ctx, patience, "the request to be killed at", func(ctx context.Context) error {
		select {
		case r = <-armed.sprung:
			sprung = true
			return nil
		default:
		}
		return errors.Join(f.has(ctx, app, want), f.still(app))
	})
	if sprung || f.proxy.disarm(armed) {
		return r, sprung, err
	}
	return <-armed.sprung, true, nil // it sprang at the last moment
}

// missed are the kinds of requests of the undisturbed life, by step, that were not killed at in both ways, as kills at the first of them.
func (c *campaign) missed() [][]kill {
	missed := make([][]kill, len(scenario))
	for i, step := range c.want {
		for _, r := range step.writes {
			for _, way := range ways {
				k := kill{number: 1, way: way, kind: r.kind()}
				if c.hits[hit{scenario[i].name, k.kind, way}] == 0 && !slices.Contains(missed[i], k) {
					missed[i] = append(missed[i], k)
				}
			}
		}
	}
	return missed
}

// missing plans lives that make up for what was missed.
func (c *campaign) missing() (plan [][]kill) {
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

// checkCoverage fails for what was missed.
func (c *campaign) checkCoverage(t *testing.T) {
	for i, kills := range c.missed() {
		for _, k := range kills {
			t.Errorf("%s: never killed at %s, %s", scenario[i].name, k.kind, k.way)
		}
	}
}
