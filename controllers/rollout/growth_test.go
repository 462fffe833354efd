package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

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

func init() {
	fleets["a rollout in three stages"] = rollingFleet
	fleets["a rollback"] = func(n int) rollout.Input {
		in := rollingFleet(n)
		in.App.Annotations = map[string]string{v1alpha1.AnnotationAbort: "2"}
		return in
	}
	fleets["an edit at once"] = func(n int) rollout.Input {
		return readyFleet(n, func(in *rollout.Input) { in.App.Generation, in.Revision = in.App.Generation+1, 1 })
	}
}

// rollingFleet returns an input in a rollout with a limited stage, a stage by label, and the rest.
func rollingFleet(clusters int) rollout.Input {
	in := readyFleet(clusters)
	in.App.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{
		{Name: "few", Limit: new(intstr.FromString("10%")), SpreadKey: "region", RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(0))}},
		{Name: "eu", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: inRegion("eu")}},
	}}
	in.App.Generation++
	in.Revision = 1
	i := 0
	for _, member := range in.Members {
		member.Labels = map[string]string{"region": []string{"eu", "us", "ap"}[i%3]}
		i++
	}
	in.App.Status.Rollout = v1alpha1.RolloutStatus{Revision: 1, StableRevision: 1, Phase: v1alpha1.RolloutCompleted}
	for i := range in.App.Status.Clusters {
		in.App.Status.Clusters[i].Revision, in.App.Status.Clusters[i].Generation, in.App.Status.Clusters[i].ObservedGeneration = 1, in.App.Generation, in.App.Generation
	}
	for name, seen := range in.Observations {
		seen.Revision, seen.Generation, seen.Applied = 1, in.App.Generation, in.App.Generation
		in.Observations[name] = seen
	}
	in.Revision = 2
	return Next(in)
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
