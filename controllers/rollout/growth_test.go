package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/internal/growth"
)

// fleets are inputs of any number of clusters.
var fleets = map[string]func(clusters int) rollout.Input{
	"at rest":          func(n int) rollout.Input { return readyFleet(n) },
	"a new generation": func(n int) rollout.Input { return readyFleet(n, func(in *rollout.Input) { in.App.Generation++ }) },
	"all unreachable":  func(n int) rollout.Input { return readyFleet(n, each(Unreachable)) },
	"all removed":      func(n int) rollout.Input { return readyFleet(n, excluded(n)) },
	"half removed, with an edit": func(n int) rollout.Input {
		return readyFleet(n, excluded(n/2), func(in *rollout.Input) { in.App.Generation++ })
	},
	"deleted": func(n int) rollout.Input { return readyFleet(n, Deleting) },
	"scaled down while half surge": func(n int) rollout.Input {
		return readyFleet(n, Divided(int32(n)), func(in *rollout.Input) {
			in.App.Generation++
			for i := range in.Plan {
				in.Plan[i].Replicas = 1
				if i%2 == 0 {
					in.Plan[i].Replicas = 3
				}
			}
		})
	},
}

// readyFleet returns an input that runs on this number of clusters and is at rest, with changes.
func readyFleet(clusters int, changes ...func(*rollout.Input)) rollout.Input {
	in := NewInput()
	for i := range clusters {
		name := memberName(i)
		Reachable(name)(&in)
		Observed(name, Observation(v1alpha1.ClusterReady))(&in)
		in.Plan = append(in.Plan, placement.Decision{Cluster: name, Replicas: 2}) // sorted by name
	}
	return Next(Next(in), append(changes, Later(time.Minute))...)
}

func memberName(i int) string { return fmt.Sprintf("member-%04d", i) }

// excluded excludes the first clusters of the plan.
func excluded(n int) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for i := range n {
			in.Plan[i].Replicas, in.Plan[i].Reason = 0, v1alpha1.ReasonSelectorMismatch
		}
	}
}

// each changes all members.
func each(change func(string) func(*rollout.Input)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		for name := range in.Members {
			change(name)(in)
		}
	}
}

func TestPlan_grows_linearly(t *testing.T) {
	for name, fleet := range fleets {
		t.Run(name, func(t *testing.T) {
			growth.CheckLinear(t, func(clusters int) func() {
				in := fleet(clusters)
				return func() { rollout.Plan(in) }
			})
		})
	}
}

func BenchmarkPlan(b *testing.B) {
	for name, fleet := range fleets {
		for _, clusters := range []int{10, 100, 1000, 10000} {
			in := fleet(clusters)
			b.Run(fmt.Sprintf("%s on %d", name, clusters), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					rollout.Plan(in)
				}
			})
		}
	}
}
