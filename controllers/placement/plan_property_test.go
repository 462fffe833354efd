package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// These tests combine all fields of an AppService that concern clusters and replicas.

func TestPlan_does_not_depend_on_the_order_of_members_and_rows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyQuestion(t)
		want := decide(t, app, fleet)
		app.Status.Clusters = rapid.Permutation(app.Status.Clusters).Draw(t, "entries shuffled")
		if diff := cmp.Diff(want, decide(t, app, rapid.Permutation(fleet).Draw(t, "members shuffled"))); diff != "" {
			t.Fatalf("plans differ (-sorted +shuffled):\n%s", diff)
		}
	})
}

func TestPlan_changes_nothing_of_what_it_is_made_from(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyQuestion(t)
		appBefore, fleetBefore := app.DeepCopy(), deepCopy(fleet)
		first := decide(t, app, fleet)
		if diff := cmp.Diff(first, decide(t, app, fleet)); diff != "" {
			t.Fatalf("plans differ (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(appBefore, app) + cmp.Diff(fleetBefore, fleet); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
	})
}

// Invariant 5: at rest, nothing is written.
func TestPlan_is_the_same_again_when_it_is_carried_out(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyQuestion(t)
		plan := decide(t, app, fleet)
		carryOut(t, app, plan)
		if diff := cmp.Diff(chosenOf(plan), chosenOf(decide(t, app, fleet))); diff != "" {
			t.Fatalf("plans differ (-first +again):\n%s", diff)
		}
	})
}

// A removal or scale-down waits for surging clusters, so entries may have more replicas than the
// plan for a while. The plan stays the same.
func TestPlan_is_the_same_again_while_some_of_it_waits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyQuestion(t)
		before := app.DeepCopy()
		plan := decide(t, app, fleet)
		carryOut(t, app, plan)
		for i := range app.Status.Clusters {
			entry, old := &app.Status.Clusters[i], before.Status.Cluster(app.Status.Clusters[i].Name)
			if app.Spec.Autoscaling == nil && old != nil && isRunning(old) && isRunning(entry) && rapid.Bool().Draw(t, "waits") {
				entry.Replicas = max(entry.Replicas, old.Replicas)
			}
		}
		if diff := cmp.Diff(chosenOf(plan), chosenOf(decide(t, app, fleet))); diff != "" {
			t.Fatalf("plans differ (-first +again):\n%s", diff)
		}
	})
}

func TestPlan_keeps_to_the_limit_and_to_the_clusters_that_run(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		app, fleet := anyQuestion(t)
		plan := decide(t, app, fleet)
		if app.Spec.Placement == nil || app.Spec.Placement.Limit == nil {
			if slices.ContainsFunc(plan, func(d placement.Decision) bool { return d.Reason == v1alpha1.ReasonLimitReached }) {
				t.Fatalf("a limit is reached that there is not: %v", plan)
			}
			return
		}
		candidates := slices.DeleteFunc(slices.Clone(plan), func(d placement.Decision) bool {
			return !d.Chosen() && d.Reason != v1alpha1.ReasonLimitReached
		})
		if got, want := len(chosenOf(plan)), min(len(candidates), int(*app.Spec.Placement.Limit)); got != want {
			t.Fatalf("%d clusters, want %d: %v", got, want, plan)
		}
		worst, best := 0, 3
		for _, d := range candidates {
			if entry := app.Status.Cluster(d.Cluster); d.Chosen() {
				worst = max(worst, rowsWorth(entry))
			} else {
				best = min(best, rowsWorth(entry))
			}
		}
		if len(chosenOf(plan)) < len(candidates) && best < worst {
			t.Fatalf("one is taken before another that has more of it: %v", plan)
		}
	})
}

// No value of the label has two newcomers more than another value that has clusters left.
func TestPlan_spreads_newcomers_as_evenly_as_can_be(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := fleetOf(rapid.IntRange(1, 12).Draw(t, "members"), func(i int) v1alpha1.MemberCluster {
			return member(nth(i), label("zone", rapid.SampledFrom([]string{"", "x", "y", "z"}).Draw(t, "zone")))
		})
		plan := decide(t, app(limited(rapid.Int32Range(1, 8).Draw(t, "limit")), spread("zone")), fleet)
		taken, left := map[string]int{}, map[string]bool{}
		for _, member := range fleet {
			switch zone := member.Labels["zone"]; plan.Find(member.Name).Reason {
			case "":
				taken[zone]++
			case v1alpha1.ReasonLimitReached:
				left[zone] = true
			}
		}
		for some, n := range taken {
			for other := range left {
				if n > taken[other]+1 {
					t.Fatalf("%d of %q, and %d of %q: %v", n, some, taken[other], other, plan)
				}
			}
		}
	})
}

func isRunning(entry *v1alpha1.ClusterStatus) bool { return rowsWorth(entry) == 0 }

// rowsWorth returns the order in which the limit takes clusters. It is implemented independently of
// the package.
func rowsWorth(entry *v1alpha1.ClusterStatus) int {
	switch {
	case entry == nil:
		return 3
	case entry.Phase == v1alpha1.ClusterRemoving:
		return 2
	case entry.Transition.Type != "":
		return 1
	}
	return 0
}

func chosenOf(plan placement.Plan) placement.Plan {
	return slices.DeleteFunc(slices.Clone(plan), func(d placement.Decision) bool { return !d.Chosen() })
}

// carryOut sets the entries to the plan. An entry that is not in the plan gets one of the states
// that it may have next.
func carryOut(t *rapid.T, app *v1alpha1.AppService, plan placement.Plan) {
	var rows []v1alpha1.ClusterStatus
	for _, d := range plan {
		old := app.Status.Cluster(d.Cluster)
		switch {
		case d.Chosen():
			rows = append(rows, v1alpha1.ClusterStatus{
				Name: d.Cluster, Phase: v1alpha1.ClusterPending, Replicas: d.Replicas, MinReplicas: d.MinReplicas, MaxReplicas: d.MaxReplicas, Weight: d.Weight,
			})
		case old != nil:
			entry := *old
			rapid.SampledFrom([]func(*v1alpha1.ClusterStatus){removing, removalWaits, removalHeld}).Draw(t, "leaves as")(&entry)
			rows = append(rows, entry)
		}
	}
	app.Status.Clusters = rows
}

// anyQuestion returns an AppService with any combination of fields, and a fleet. In some cases the
// plan has been carried out, and afterwards a part of the fleet becomes not Ready and the total
// changes.
func anyQuestion(t *rapid.T) (*v1alpha1.AppService, []v1alpha1.MemberCluster) {
	app, fleet := anyFirstQuestion(t)
	if rapid.Bool().Draw(t, "is the first") {
		return app, fleet
	}
	carryOut(t, app, decide(t, app, fleet))
	for i := range fleet {
		if rapid.Bool().Draw(t, "goes dark") {
			notReady(&fleet[i])
		}
	}
	replicas(app.DesiredReplicas() + rapid.Int32Range(0, 5).Draw(t, "more pods"))(app)
	return app, fleet
}

func anyFirstQuestion(t *rapid.T) (*v1alpha1.AppService, []v1alpha1.MemberCluster) {
	fleet := anyFleet().Draw(t, "fleet")
	for i := range fleet {
		taints := rapid.SliceOfN(rapid.SampledFrom([]func(*v1alpha1.MemberCluster){noSchedule("gpu"), noExecute("spot")}), 0, 1).Draw(t, "taints")
		for _, taint := range taints {
			taint(&fleet[i])
		}
		if rapid.Bool().Draw(t, "is known") {
			cpu(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "cpu")))(&fleet[i])
		}
	}
	app := anyApp().Draw(t, "app")
	app.Name = rapid.SampledFrom([]string{"web", "api", "batch"}).Draw(t, "name")
	for i := range app.Status.Clusters {
		anyState(t, &app.Status.Clusters[i])
	}
	options := []func(*v1alpha1.AppService){
		func(app *v1alpha1.AppService) { limited(rapid.Int32Range(1, 6).Draw(t, "limit"))(app) },
		spread("zone"),
		tolerating(v1alpha1.Toleration{Key: "spot", Operator: v1alpha1.TolerationExists}),
		func(app *v1alpha1.AppService) { anyPolicy(t, app) },
		func(app *v1alpha1.AppService) {
			least := rapid.Int32Range(1, 20).Draw(t, "least")
			autoscaling(least, least+rapid.Int32Range(0, 20).Draw(t, "more"))(app)
		},
		func(app *v1alpha1.AppService) {
			overriding(rapid.Int32Range(0, 9).Draw(t, "overriding"), "a", "c", "e")(app)
		},
	}
	for i, option := range options {
		if rapid.Bool().Draw(t, fmt.Sprint("option ", i)) {
			option(app)
		}
	}
	return app, fleet
}

func anyState(t *rapid.T, entry *v1alpha1.ClusterStatus) {
	entry.Phase = rapid.SampledFrom([]v1alpha1.ClusterPhase{v1alpha1.ClusterReady, v1alpha1.ClusterUnknown, v1alpha1.ClusterFailed}).Draw(t, "phase")
	entry.Replicas = rapid.Int32Range(0, 30).Draw(t, "runs")
	if rapid.Bool().Draw(t, "scales") {
		entry.MinReplicas = rapid.Int32Range(1, 10).Draw(t, "from")
		entry.MaxReplicas = entry.MinReplicas + rapid.Int32Range(0, 10).Draw(t, "up")
	}
	change := rapid.SampledFrom([]func(*v1alpha1.ClusterStatus){nil, nil, nil, removing, removalWaits, removalHeld, detached}).Draw(t, "state")
	if change != nil {
		change(entry)
	}
}

func anyPolicy(t *rapid.T, app *v1alpha1.AppService) {
	var rules []v1alpha1.ReplicaRule
	for range rapid.IntRange(0, 4).Draw(t, "rules") {
		var changes []func(*v1alpha1.ReplicaRule)
		least := int32(0)
		if rapid.Bool().Draw(t, "has a weight") {
			changes = append(changes, weight(rapid.Int32Range(0, 5).Draw(t, "weight")))
		}
		if rapid.Bool().Draw(t, "has a least") {
			least = rapid.Int32Range(0, 5).Draw(t, "rule's least")
			changes = append(changes, atLeast(least))
		}
		if rapid.Bool().Draw(t, "has a most") {
			changes = append(changes, atMost(least+rapid.Int32Range(0, 10).Draw(t, "rule's most")))
		}
		r := rule(anyName.Draw(t, "rule for"), changes...)
		r.Name = fmt.Sprint("rule-", len(rules))
		rules = append(rules, r)
	}
	total := rapid.Int32Range(0, 60).Draw(t, "total")
	divided(total, rules...)(app)
	if rapid.Bool().Draw(t, "by capacity") {
		byAllocatable(app)
	}
}
