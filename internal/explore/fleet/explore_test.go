package fleet

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/explore"
)

var (
	statesFlag  = flag.Int("explore.states", 1000, "stop each exploration after the depth at which it has so many states; 0: no limit")
	depthFlag   = flag.Int("explore.depth", 0, "stop each exploration at this depth, unless its world is small and there is no limit for states; 0: no limit")
	leastFlag   = flag.Int("explore.least", 0, "fail if all explorations together have fewer states")
	healthyFlag = flag.Int("explore.healthy", 8, "let the world be healthy after every n-th state")
)

// healthySteps is within how many steps a healthy world must end.
const healthySteps = 100

func TestExplore(t *testing.T) {
	all := 0
	for _, c := range worlds {
		t.Run(c.name, func(t *testing.T) { all += c.explore(t) })
	}
	t.Logf("%d states in %d worlds", all, len(worlds))
	if all < *leastFlag {
		t.Errorf("README.md says that there are more than %d", *leastFlag)
	}
}

// explore explores a world, and returns the number of its states.
func (c *config) explore(t *testing.T) int {
	world, begin := c.world(t), time.Now()
	limits := explore.Limits{Depth: *depthFlag, States: *statesFlag, HealthyEvery: *healthyFlag, HealthySteps: healthySteps}
	if c.isFinite && limits.States == 0 {
		limits.Depth = 0
	}
	result := explore.Explore(world, limits)
	bound := fmt.Sprintf("to depth %d", len(result.Levels)-1)
	if result.IsComplete {
		bound = fmt.Sprintf("to the end, at depth %d", len(result.Levels)-1)
	}
	t.Logf("%d states from %d starts, %s; %d steps, %d healthy states, %v",
		result.States, result.Levels[0], bound, result.Steps, result.HealthyStates, time.Since(begin).Round(time.Second/10))
	for i, n := range result.Taken {
		if n == 0 {
			t.Logf("in none of these states: %s", world.Actions[i].Name)
		}
	}
	for _, v := range result.Violations {
		t.Error(c.story(world, v))
	}
	return result.States
}

// world returns the world of a configuration.
func (c *config) world(t *testing.T) explore.World[state] {
	t.Helper()
	starts, err := c.starts()
	if err != nil {
		t.Fatalf("%s begins: %v", c.name, err)
	}
	return explore.World[state]{Starts: starts, Actions: c.actions(), Key: c.key, Healthy: c.healthy()}
}
