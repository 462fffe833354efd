package fleet

import (
	"fmt"
	"strings"

	"github.com/fleetwright/fleetwright/internal/explore"
)

// story tells how a violation happens: what each event leads to, and a line for [found] that replays it.
func (c *config) story(world explore.World[state], v explore.Violation) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n\n", v.Error.Rule, v.Error.Problem)
	for _, start := range world.Starts {
		if start.Name != v.Start {
			continue
		}
		s := start.State
		fmt.Fprintf(&text, "   %s\n%s", v.Start, c.describe(&s))
		for i, name := range v.Trace {
			if next, err := c.do(s, name); err == nil {
				s = next
			}
			fmt.Fprintf(&text, "%2d. %s\n%s", i+1, name, c.describe(&s))
		}
		c.tellHealthy(&text, world, v.Healthy, s)
	}
	fmt.Fprintf(&text, "\nTo keep it as a test, add to found_test.go:\n\n\t{problem: \"\", world: %q, start: %q, isHealthy: %t,\n\t\ttrace: %q},\n", c.name, v.Start, v.Healthy != "", strings.Join(v.Trace, "; "))
	return text.String()
}

// tellHealthy tells what happens in a healthy world.
func (c *config) tellHealthy(text *strings.Builder, world explore.World[state], name string, s state) {
	for _, way := range world.Healthy {
		if way.Name != name {
			continue
		}
		s = way.Heal(s)
		for step := 1; step <= 12; step++ {
			next, goesOn, err := way.Next(s)
			if err != nil || !goesOn {
				fmt.Fprintf(text, "    then %s: it ends after step %d\n", name, step)
				return
			}
			s = next
			fmt.Fprintf(text, "    then %s, step %d\n%s", name, step, c.describe(&s))
		}
	}
}

// describe returns what matters of a state.
func (c *config) describe(s *state) string {
	var text strings.Builder
	rollout := &s.app.Status.Rollout
	fmt.Fprintf(&text, "      %s after %v: generation %d of %d, image %s, revision %d %s, stable %d, failed %d\n", appName, s.now.time().Sub(epoch),
		s.app.Status.ObservedGeneration, s.app.Generation, s.app.Spec.Image, rollout.Revision, rollout.Phase, rollout.StableRevision, rollout.FailedRevision)
	for _, stage := range rollout.Stages {
		fmt.Fprintf(&text, "      stage %s: %s\n", stage.Name, stage.Phase)
	}
	for i := range c.clusters {
		m, entry, seen := &s.members[i], s.entry(clusterName(i)), s.process.seen[i]
		fmt.Fprintf(&text, "      %s runs revision %d, %d of %d ready", clusterName(i), m.runs, m.ready, m.replicas)
		switch {
		case m.isFailing:
			text.WriteString(", failing")
		case m.exists && !m.isUpdated:
			text.WriteString(", updating")
		}
		if !m.isReachable() {
			text.WriteString(", not reachable")
		}
		if entry != nil {
			fmt.Fprintf(&text, "; its entry: revision %d, %d replicas, %s %s", entry.Revision, entry.Replicas, entry.Phase, entry.Transition.Type)
		}
		if seen != nil {
			fmt.Fprintf(&text, "; observed: revision %d, %s", seen.Revision, seen.Phase)
		}
		text.WriteString("\n")
	}
	return text.String()
}
