package fleet

import (
	"cmp"
	"strings"
	"testing"

	"github.com/fleetwright/fleetwright/internal/explore"
)

// found are the traces of what explorations found. Each one broke a rule before it was corrected.
var found = []struct {
	problem, world, trace string
	// start is the state in which the trace begins; "" is at rest.
	start string
	// isHealthy is set if the healthy worlds after the trace broke it.
	isHealthy bool
}{
	{problem: "an abandoned cluster whose Secret is gone kept its entry until the next event", world: "lost clusters",
		trace: "a loses its Secret or gets it back; a is abandoned; plan"},
	{problem: "a lost cluster that was abandoned before it left the plan kept its entry until the next event", world: "lost clusters",
		trace: "b is lost; plan; b is abandoned; edit: placement 1; plan"},
	{problem: "a retry that was asked for during the rollback waited for the next event", world: "crashes", isHealthy: true,
		trace: "edit: image two; plan; a carries out its entry; plan; a tick passes; plan; retry"},
	{problem: "the next plan took back that an approval came too early", world: "stages on and off",
		trace: "edit: image two; plan; a carries out its entry; b carries out its entry; plan; a carries out its entry; a starts its pods; " +
			"a carries out its entry; plan; edit: rollout 3; approve (rest); plan"},
	{problem: "an observation from before a removal counted for the cluster that was chosen again", world: "canaries come and go",
		trace: "a is drained or not any more; plan; a is drained or not any more; plan"},
	{problem: "the status said why a cluster is excluded as if it still had its entry", world: "removals",
		trace: "edit: limit 1; plan; b carries out its entry; plan; a carries out its entry; a carries out its entry; a is cordoned or uncordoned; plan"},
	{problem: "a stage ended before a cluster that came back had answered, which then got the target without a stage", world: "one first",
		start: "edit: image two, every template starts, step 3", isHealthy: true,
		trace: "c is drained or not any more; edit: image one; edit: image two; plan"},
	{problem: "a scale-down waited for an approval, and no message said so, because all clusters were Ready", world: "divided",
		start: "edit: 1 replicas, every template starts, step 1", isHealthy: true,
		trace: "b is drained or not any more; plan; a is drained or not any more; plan"},
}

func TestFound(t *testing.T) {
	for _, f := range found {
		t.Run(f.problem, func(t *testing.T) {
			world := worldNamed(t, f.world).world(t)
			state, err := explore.Replay(world, cmp.Or(f.start, atRest), strings.Split(f.trace, "; ")...)
			if err != nil {
				t.Fatal(err)
			}
			if !f.isHealthy {
				return
			}
			for _, healthy := range world.Healthy {
				if broken := explore.RunHealthy(healthy, state, healthySteps); broken != nil {
					t.Errorf("%s: %v", healthy.Name, broken)
				}
			}
		})
	}
}

func worldNamed(t *testing.T, name string) *config {
	for _, c := range worlds {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("there is no world %q", name)
	return nil
}
