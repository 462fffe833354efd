package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// settleTime is how long nothing is written when a step is complete. The operator writes
// observations once a second.
const settleTime = 1500 * time.Millisecond

// stepResult is the result of a step without a crash.
type stepResult struct {
	state  state
	writes []ledger.Request
}

// kill defines where the operator is killed in a step. It is not killed if number is 0.
type kill struct {
	number int
	mode   crashMode
	kind   string // the kind of requests that are counted; empty for all
}

// TestEveryRequest kills the operator before and after each request that changes something.
func TestEveryRequest(t *testing.T) {
	if isOnlyEdits {
		t.Skip("the sample has a restore of e2e/timetravel instead; all: make crash")
	}
	f := testFleet(t)
	begin := time.Now()
	want, err := f.baseline(t)
	if err != nil {
		f.LogOperator(t, 20)
		t.Fatalf("the baseline: %v", err)
	}
	c := &campaign{fleet: f, want: want, hits: map[hit]int{}}
	c.run(t, plan(t, want))
	if *everyFlag > 0 {
		c.run(t, c.planMissed())
		c.checkCoverage(t)
	}
	c.report(t)
	isOther := func(r ledger.Request) bool {
		isKey := r.Resource == "secrets" && r.Name == sources.KeyName // created for the first snapshot
		return r.Changes && !r.Counts && !isKey && !strings.HasPrefix(r.Namespace, namespacePrefix)
	}
	if others := f.proxy.since(begin, isOther); len(others) > 0 {
		t.Errorf("%d requests changed something outside of the AppServices' namespaces: %v", len(others), others)
	}
}

// baseline runs a lifecycle without a crash, with a restart at rest after the first step. It logs
// the number of requests of each step.
func (f *fleet) baseline(t *testing.T) ([]stepResult, error) {
	app, err := f.newApp(t.Context())
	if err != nil {
		return nil, err
	}
	var all []stepResult
	for i, step := range scenario {
		begin := time.Now()
		if err := f.take(t.Context(), app, step); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		current, err := f.awaitSettled(t.Context(), app, true)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		writes := f.proxy.since(begin, changesIn(app.Namespace))
		all = append(all, stepResult{state: current, writes: writes})
		t.Logf("%-22s %s", step.name, countRequests(f.proxy.since(begin, func(ledger.Request) bool { return true })))
		if i > 0 {
			continue
		}
		begin = time.Now()
		if err := f.restart(t.Context()); err != nil {
			return nil, err
		}
		if err := errors.Join(waitQuietPeriod(t.Context()), f.checkUnchanged(t.Context(), app, begin, current)); err != nil {
			return nil, fmt.Errorf("restart at rest: %w", err)
		}
		t.Logf("%-22s %s", "restart at rest", countRequests(f.proxy.since(begin, func(ledger.Request) bool { return true })))
		if *idleFlag == 0 {
			continue
		}
		begin = time.Now()
		select {
		case <-t.Context().Done():
		case <-time.After(*idleFlag):
			t.Logf("%-22s %s", "at rest for "+idleFlag.String(), countRequests(f.proxy.since(begin, func(ledger.Request) bool { return true })))
		}
	}
	return all, nil
}

// awaitSettled waits until the AppService is settled and nothing is written any more, and returns
// the state.
func (f *fleet) awaitSettled(ctx context.Context, app *v1alpha1.AppService, generations bool) (state, error) {
	if err := environment.Await(ctx, wait.Patience, "the AppService to settle", func(ctx context.Context) error {
		if err := f.checkSettled(ctx, app); err != nil {
			return err
		}
		return f.checkNoRecentWrites(app)
	}); err != nil {
		return "", err
	}
	return f.snapshot(ctx, app, generations)
}

// checkNoRecentWrites returns an error if an object of the AppService was written recently.
func (f *fleet) checkNoRecentWrites(app *v1alpha1.AppService) error {
	if recent := f.proxy.since(time.Now().Add(-settleTime), changesIn(app.Namespace)); len(recent) > 0 {
		return fmt.Errorf("recent writes: %v", recent)
	}
	return nil
}

// awaitState waits for a state, and returns a time after which nothing may change any more. A
// request that was sent while the state was read may be the one that completed the state, so the
// state is read again.
func (f *fleet) awaitState(ctx context.Context, app *v1alpha1.AppService, want state) (at time.Time, err error) {
	err = environment.Await(ctx, wait.Patience, "the state", func(ctx context.Context) error {
		at = time.Now()
		if err := f.checkState(ctx, app, want); err != nil {
			return err
		}
		if meanwhile := f.proxy.since(at, changesIn(app.Namespace)); len(meanwhile) > 0 {
			return fmt.Errorf("while the state was read, the operator sent %v", meanwhile)
		}
		return nil
	})
	return at, err
}

// checkState returns an error unless the AppService is settled in this state. It reads the members
// only if the AppService is settled, because it is called often.
func (f *fleet) checkState(ctx context.Context, app *v1alpha1.AppService, want state) error {
	if err := f.checkSettled(ctx, app); err != nil {
		return err
	}
	current, err := f.snapshot(ctx, app, true)
	return errors.Join(err, diff(want, current))
}

// waitQuietPeriod waits for the quiet period.
func waitQuietPeriod(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(*quietFlag):
		return nil
	}
}

// checkUnchanged returns an error if a request has changed an object of the AppService since a
// time, or the state is another one.
func (f *fleet) checkUnchanged(ctx context.Context, app *v1alpha1.AppService, from time.Time, want state) error {
	var changed error
	if late := f.proxy.since(from, changesIn(app.Namespace)); len(late) > 0 {
		changed = fmt.Errorf("%d requests after the state was reached, the first after %s: %v", len(late), late[0].At.Sub(from).Round(time.Millisecond), late)
	}
	current, err := f.snapshot(ctx, app, true)
	return errors.Join(changed, err, diff(want, current))
}

// plan returns the kills in each step, for each lifecycle.
func plan(t *testing.T, want []stepResult) [][]kill {
	most := 0
	for i, step := range want {
		if isKilled(i) {
			most = max(most, len(step.writes))
		}
	}
	random := rand.New(rand.NewPCG(*seedFlag, 0))
	if *everyFlag == 0 {
		kills := make([]kill, len(want))
		first := random.IntN(len(modes))
		for i, step := range want {
			if !isKilled(i) {
				continue
			}
			kills[i] = kill{number: 1 + random.IntN(len(step.writes)), mode: modes[(first+i)%len(modes)]}
		}
		t.Logf("kills: %v", kills)
		return [][]kill{kills}
	}
	first := 1 + random.IntN(*everyFlag)
	t.Logf("kills at the requests %d, %d ...", first, first+*everyFlag)
	var all [][]kill
	// One more than the baseline has: the number of status writes differs between lifecycles.
	for number := first; number <= most+1; number += *everyFlag {
		for _, mode := range modes {
			kills := make([]kill, len(want))
			for i, step := range want {
				if isKilled(i) && number <= len(step.writes)+1 {
					kills[i] = kill{number: number, mode: mode}
				}
			}
			all = append(all, kills)
		}
	}
	return all
}

// isKilled reports whether the operator is killed in a step.
func isKilled(step int) bool {
	return *stepFlag == "" || slices.Contains(namesIn(*stepFlag), scenario[step].name)
}

// namesIn returns the names of steps in a flag.
func namesIn(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ","), func(name string) bool { return name == "" })
}

// selectSteps removes from the scenario the steps that the flags do not name. It returns an error if
// they name an unknown step.
func selectSteps() error {
	names := map[string]bool{}
	for _, step := range scenario {
		names[step.name] = true
	}
	taken := namesIn(*takeFlag)
	for _, name := range slices.Concat(taken, namesIn(*stepFlag)) {
		if !names[name] {
			return fmt.Errorf("there is no step %q", name)
		}
	}
	if len(taken) > 0 {
		scenario = slices.DeleteFunc(scenario, func(s step) bool { return !slices.Contains(taken, s.name) })
	}
	return nil
}
