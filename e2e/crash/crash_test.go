package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// stillness is how long nothing is written when an undisturbed step is over: the operator writes what it observes once a second.
const stillness = 1500 * time.Millisecond

// lived is what came of a step.
type lived struct {
	state  state
	writes []request
}

// kill is where the operator is killed in a step; number 0 means nowhere.
type kill struct {
	number int
	way    way
	kind   string // of the requests that are counted; empty for all
}

// Every request by which the operator changes something is one that it may die of, before or after it.
func TestEveryRequest(t *testing.T) {
	f := theFleet
	begun := time.Now()
	want, err := f.undisturbed(t)
	if err != nil {
		f.fatal(t, fmt.Errorf("undisturbed: %w", err))
	}
	c := &campaign{fleet: f, want: want, hits: map[hit]int{}}
	c.run(t, plan(t, want))
	if *everyFlag > 0 {
		c.run(t, c.missing())
		c.checkCoverage(t)
	}
	c.report(t)
	if others := f.proxy.since(begun, func(r request) bool { return r.changes && !isLife(r.namespace) }); len(others) > 0 {
		t.Errorf("%d requests changed something that is no AppService's: %v", len(others), others)
	}
}

// undisturbed lives a life, and has it begin with a restart at rest. It logs what each step costs.
func (f *fleet) undisturbed(t *testing.T) ([]lived, error) {
	app, err := f.newApp(t.Context())
	if err != nil {
		return nil, err
	}
	var all []lived
	for i, step := range scenario {
		begun := time.Now()
		if err := f.act(t.Context(), app, step.change); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		now, err := f.rest(t.Context(), app, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		writes := f.proxy.since(begun, changing(app.Namespace))
		all = append(all, lived{state: now, writes: writes})
		t.Logf("%-22s %s", step.name, cost(f.proxy.since(begun, func(request) bool { return true })))
		if i > 0 {
			continue
		}
		begun = time.Now()
		if err := f.restart(t.Context()); err != nil {
			return nil, err
		}
		if err := errors.Join(quiet(t.Context()), f.unchanged(t.Context(), app, begun, now)); err != nil {
			return nil, fmt.Errorf("restart at rest: %w", err)
		}
		t.Logf("%-22s %s", "restart at rest", cost(f.proxy.since(begun, func(request) bool { return true })))
		if *idleFlag == 0 {
			continue
		}
		begun = time.Now()
		select {
		case <-t.Context().Done():
		case <-time.After(*idleFlag):
			t.Logf("%-22s %s", "at rest for "+idleFlag.String(), cost(f.proxy.since(begun, func(request) bool { return true })))
		}
	}
	return all, nil
}

// rest waits until the AppService is settled and nothing is written any more, and returns the state.
func (f *fleet) rest(ctx context.Context, app *v1alpha1.AppService, generations bool) (state, error) {
	if err := environment.Await(ctx, patience, "the AppService to settle", func(ctx context.Context) error {
		if err := f.settled(ctx, app); err != nil {
			return err
		}
		return f.still(app)
	}); err != nil {
		return "", err
	}
	return f.snapshot(ctx, app, generations)
}

// still is nil when nothing of the AppService was written lately.
func (f *fleet) still(app *v1alpha1.AppService) error {
	if recent := f.proxy.since(time.Now().Add(-stillness), changing(app.Namespace)); len(recent) > 0 {
		return fmt.Errorf("a moment ago: %v", recent)
	}
	return nil
}

// is waits for a state, and returns a time after which nothing may change any more. A request that was
// sent while the state was read may be the one that completed the state, so the state is read again.
func (f *fleet) is(ctx context.Context, app *v1alpha1.AppService, want state) (at time.Time, err error) {
	err = environment.Await(ctx, patience, "the state", func(ctx context.Context) error {
		at = time.Now()
		if err := f.has(ctx, app, want); err != nil {
			return err
		}
		if meanwhile := f.proxy.since(at, changing(app.Namespace)); len(meanwhile) > 0 {
			return fmt.Errorf("while the state was read, the operator sent %v", meanwhile)
		}
		return nil
	})
	return at, err
}

// has is nil when the AppService has a state that it may rest in. It asks the members only when the hub says so: it is asked often.
func (f *fleet) has(ctx context.Context, app *v1alpha1.AppService, want state) error {
	if err := f.settled(ctx, app); err != nil {
		return err
	}
	now, err := f.snapshot(ctx, app, true)
	return errors.Join(err, diff(want, now))
}

// quiet waits for the quiet window.
func quiet(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(*quietFlag):
		return nil
	}
}

// unchanged is nil when no request about the AppService has changed anything from a time on, and the state is the same.
func (f *fleet) unchanged(ctx context.Context, app *v1alpha1.AppService, from time.Time, want state) error {
	var stirred error
	if late := f.proxy.since(from, changing(app.Namespace)); len(late) > 0 {
		stirred = fmt.Errorf("all was in place, and %d requests followed, the first after %s: %v", len(late), late[0].at.Sub(from).Round(time.Millisecond), late)
	}
	now, err := f.snapshot(ctx, app, true)
	return errors.Join(stirred, err, diff(want, now))
}

// plan returns, for each life, where it is disturbed in each step.
func plan(t *testing.T, want []lived) [][]kill {
	most := 0
	for _, step := range want {
		most = max(most, len(step.writes))
	}
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().Unix()) // it rotates
	}
	random := rand.New(rand.NewPCG(seed, 0))
	if *everyFlag == 0 {
		life := make([]kill, len(want))
		first := random.IntN(len(ways))
		for i, step := range want {
			life[i] = kill{number: 1 + random.IntN(len(step.writes)), way: ways[(first+i)%len(ways)]}
		}
		t.Logf("-crash.seed %d: %v", seed, life)
		return [][]kill{life}
	}
	first := 1 + random.IntN(*everyFlag)
	t.Logf("-crash.seed %d: requests %d, %d ...", seed, first, first+*everyFlag)
	var lives [][]kill
	// One more than there were: the lives differ a little in how often the status is written.
	for number := first; number <= most+1; number += *everyFlag {
		for _, way := range ways {
			life := make([]kill, len(want))
			for i, step := range want {
				if number <= len(step.writes)+1 {
					life[i] = kill{number: number, way: way}
				}
			}
			lives = append(lives, life)
		}
	}
	return lives
}
