package explore_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/internal/explore"
)

// jugs are two jugs that hold three and five litres. The states that can be reached, and the shortest way to
// four litres, are known.
type jugs struct{ three, five int }

func action(name string, do func(jugs) jugs) explore.Action[jugs] {
	return explore.Action[jugs]{Name: name, Do: func(j jugs) (jugs, bool, error) {
		next := do(j)
		if next.five == 4 {
			return next, true, &explore.RuleError{Rule: "no four litres", Problem: fmt.Sprint(next)}
		}
		return next, next != j, nil
	}}
}

var actions = []explore.Action[jugs]{
	action("fill three", func(j jugs) jugs { return jugs{3, j.five} }),
	action("fill five", func(j jugs) jugs { return jugs{j.three, 5} }),
	action("empty three", func(j jugs) jugs { return jugs{0, j.five} }),
	action("empty five", func(j jugs) jugs { return jugs{j.three, 0} }),
	action("pour three into five", func(j jugs) jugs {
		poured := min(j.three, 5-j.five)
		return jugs{j.three - poured, j.five + poured}
	}),
	action("pour five into three", func(j jugs) jugs {
		poured := min(j.five, 3-j.three)
		return jugs{j.three + poured, j.five - poured}
	}),
}

func world() explore.World[jugs] {
	return explore.World[jugs]{
		Starts:  []explore.Start[jugs]{{Name: "empty"}},
		Actions: actions,
		Key:     func(j jugs) uint64 { return uint64(j.three*10 + j.five) },
	}
}

func TestExplore_finds_the_shortest_trace(t *testing.T) {
	result := explore.Explore(world(), explore.Limits{})
	want := []explore.Violation{{
		Error: &explore.RuleError{Rule: "no four litres", Problem: "{3 4}"},
		Start: "empty",
		Trace: []string{"fill five", "pour five into three", "empty three", "pour five into three", "fill five", "pour five into three"},
	}}
	if diff := cmp.Diff(want, result.Violations); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if _, err := explore.Replay(world(), "empty", want[0].Trace...); err == nil {
		t.Error("the replay of the trace breaks no rule")
	}
}

func TestExplore_visits_each_state_once(t *testing.T) {
	w := world()
	w.Actions = w.Actions[:4] // without pouring, each jug is empty or full
	got := explore.Explore(w, explore.Limits{})
	want := explore.Result{States: 4, Steps: 8, Levels: []int{1, 2, 1}, IsComplete: true, Taken: []int{2, 2, 2, 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

func TestExplore_stops_at_its_limits(t *testing.T) {
	for _, limits := range []explore.Limits{{Depth: 1}, {States: 2}} {
		if got := explore.Explore(world(), limits); got.IsComplete || len(got.Levels) != 2 {
			t.Errorf("with %+v: complete %t, levels %v", limits, got.IsComplete, got.Levels)
		}
	}
}

func TestExplore_does_not_depend_on_the_processors(t *testing.T) {
	first := explore.Explore(world(), explore.Limits{})
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if diff := cmp.Diff(first, explore.Explore(world(), explore.Limits{})); diff != "" {
		t.Errorf("result (-first +second):\n%s", diff)
	}
}

func TestExplore_finds_states_from_which_nothing_ends(t *testing.T) {
	w := world()
	w.Actions = w.Actions[:4]
	w.Healthy = []explore.Healthy[jugs]{{
		Name: "five is emptied",
		Heal: func(j jugs) jugs { return j },
		Next: func(j jugs) (jugs, bool, error) { // it never ends while three is full
			return jugs{j.three, 0}, j.five > 0 || j.three == 3, nil
		},
	}}
	got := explore.Explore(w, explore.Limits{HealthyEvery: 1, HealthySteps: 10})
	want := []explore.Violation{{
		Error:   &explore.RuleError{Rule: "progress", Problem: `the healthy world "five is emptied" does not end within 10 steps`},
		Start:   "empty",
		Trace:   []string{"fill three"},
		Healthy: "five is emptied",
	}}
	if diff := cmp.Diff(want, got.Violations); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
