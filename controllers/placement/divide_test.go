package placement_test

import (
	"math"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// Rank decides which of several equal clusters gets a replica. For an AppService without a name, c
// comes before b.

func TestDecide_divides_replicas(t *testing.T) {
	ab := members(member("a"), member("b"))
	abc := members(member("a"), member("b"), member("c"))
	runCases(t, map[string]decideCase{
		"no clusters": {
			app: app(divided(3)), want: placement.Plan{},
		},
		"no chosen cluster": {
			app: app(divided(3)), members: members(member("a", notReady)), want: placement.Plan{excluded("a", v1alpha1.ReasonClusterNotReady)},
		},
		"evenly":        {app: app(divided(6)), members: abc, want: shares(2, 2, 2)},
		"zero replicas": {app: app(divided(0)), members: abc, want: shares(0, 0, 0)},
		"the maximum without overflow": {
			app:     app(divided(math.MaxInt32, rule("a", weight(1_000_000)), rule("b", weight(1_000_000)), rule("c", weight(0))), withEntry("a", math.MaxInt32)),
			members: abc, want: shares(math.MaxInt32/2+1, math.MaxInt32/2, 0),
		},
		"by weight": {
			app: app(divided(10, rule("a", weight(3)), rule("b", weight(2)))), members: ab, want: shares(6, 4),
		},
		"by weight, with the default weight 1": {
			app: app(divided(10, rule("a", weight(3)), rule("b"))), members: abc, want: shares(6, 2, 2),
		},
		"the first matching rule counts": {
			app: app(divided(8, rule("a", weight(3)), rule("", weight(1)), rule("b", weight(100)))), members: ab, want: shares(6, 2),
		},
		"the remainder goes to the largest fraction": { // 4.9, 2.8, 2.3
			app: app(divided(10, rule("a", weight(49)), rule("b", weight(28)), rule("c", weight(23)))), members: abc, want: shares(5, 3, 2),
		},
		"weight 0 gets no replicas": {
			app: app(divided(10, rule("a", weight(0)))), members: abc, want: shares(0, 5, 5),
		},
		"only weights of 0": {
			app: app(divided(10, rule("", weight(0)))), members: ab, want: shares(0, 0),
		},
		"weight 0 gets its minReplicas": {
			app: app(divided(10, rule("a", weight(0), atLeast(2)))), members: abc, want: shares(2, 4, 4),
		},
		"minReplicas of a rule": {
			app: app(divided(10, rule("a", atLeast(6)))), members: abc, want: shares(6, 2, 2),
		},
		"maxReplicas of a rule": {
			app: app(divided(10, rule("a", atMost(2)))), members: abc, want: shares(2, 4, 4),
		},
		"a bound that takes effect because of another bound": { // a is fixed at 1; then the quota of b rises above its maximum
			app: app(divided(12, rule("a", weight(10), atMost(1)), rule("b", atMost(5)))), members: abc, want: shares(1, 5, 6),
		},
		"minReplicas without effect because of maxReplicas of another cluster": { // the quota of b is 10 without its minimum
			app: app(divided(30, rule("a", weight(100), atMost(10)), rule("b", atLeast(3)))), members: abc, want: shares(10, 10, 10),
		},
		"the sum of minReplicas is above the total": {
			app: app(divided(3, rule("a", atLeast(4)), rule("b", atLeast(1)))), members: abc, want: shares(4, 1, 0),
		},
		"the sum of maxReplicas is below the total": {
			app: app(divided(30, rule("a", atMost(4)), rule("", atMost(2)))), members: abc, want: shares(4, 2, 2),
		},
		"maxReplicas below minReplicas": {
			app: app(divided(10, rule("a", atLeast(4), atMost(2)))), members: abc, want: shares(4, 3, 3),
		},
		"maxReplicas of 0": {
			app: app(divided(10, rule("a", atMost(0)))), members: abc, want: shares(0, 5, 5),
		},
	})
}

func TestDecide_divides_by_capacity(t *testing.T) {
	by := app(divided(12), byAllocatable)
	runCases(t, map[string]decideCase{
		"by CPU":         {app: by, members: members(member("a", cpu("4")), member("b", cpu("8"))), want: shares(4, 8)},
		"in thousandths": {app: by, members: members(member("a", cpu("500m")), member("b", cpu("1"))), want: shares(4, 8)},
		"an unknown capacity counts as the smallest": {app: by, members: members(member("a"), member("b", cpu("2")), member("c", cpu("8"))), want: shares(2, 2, 8)},
		"zero is unknown":                    {app: by, members: members(member("a", cpu("0")), member("b", cpu("2")), member("c", cpu("8"))), want: shares(2, 2, 8)},
		"a negative capacity is unknown":     {app: by, members: members(member("a", cpu("-5")), member("b", cpu("2")), member("c", cpu("8"))), want: shares(2, 2, 8)},
		"evenly if no capacity is known":     {app: by, members: members(member("a"), member("b")), want: shares(6, 6)},
		"a false capacity is limited":        {app: by, members: members(member("a", cpu("9E")), member("b", cpu("999999999999999999999999999"))), want: shares(6, 6)},
		"a tiny capacity beside a false one": {app: by, members: members(member("a", cpu("1n")), member("b", cpu("1e30"))), want: shares(0, 12)},
		"bounds of rules": {
			app:     app(divided(12, rule("b", atMost(5))), byAllocatable),
			members: members(member("a", cpu("4")), member("b", cpu("8"))), want: shares(7, 5),
		},
	})
}

func TestDecide_moves_as_few_replicas_as_possible(t *testing.T) {
	abc := members(member("a"), member("b"), member("c"))
	abcd := members(member("a"), member("b"), member("c"), member("d"))
	runCases(t, map[string]decideCase{
		"exact shares stay": {
			app: app(divided(10), withEntry("a", 3), withEntry("b", 4), withEntry("c", 3)), members: abc, want: shares(3, 4, 3),
		},
		"the odd replica stays": {
			app: app(divided(10), withEntry("a", 3), withEntry("b", 3), withEntry("c", 4)), members: abc, want: shares(3, 3, 4),
		},
		"a fourth cluster gets two of eleven": {
			app: app(divided(11), withEntry("a", 4), withEntry("b", 4), withEntry("c", 3)), members: abcd, want: shares(3, 3, 3, 2),
		},
		"one more replica moves none": {
			app: app(divided(11), withEntry("a", 4), withEntry("b", 3), withEntry("c", 3)), members: abc, want: shares(4, 3, 4),
		},
		"the replicas of a leaving cluster go to the others": {
			app: app(divided(10), withEntry("a", 3), withEntry("b", 3), withEntry("c", 2), withEntry("d", 2)), members: members(member("a"), member("b")), want: shares(5, 5),
		},
		"a distant share moves to the near end of its range": { // bands 3 to 4
			app: app(divided(10), withEntry("a", 10), withEntry("b", 0), withEntry("c", 0)), members: abc, want: shares(4, 3, 3),
		},
		"a surplus replica is removed where the fraction is smallest": { // 4.9, 2.8, 2.3
			app:     app(divided(10, rule("a", weight(49)), rule("b", weight(28)), rule("c", weight(23))), withEntry("a", 5), withEntry("b", 3), withEntry("c", 3)),
			members: abc, want: shares(5, 3, 2),
		},
		"a Removing cluster starts from zero": {
			app: app(divided(3), withEntry("a", 2, removing), withEntry("b", 2)), members: members(member("a"), member("b")), want: shares(1, 2),
		},
	})
}

func TestDecide_adds_no_replicas_to_a_cluster_that_is_not_Ready(t *testing.T) {
	oneNotReady := members(member("a", notReady), member("b"), member("c"))
	runCases(t, map[string]decideCase{
		"keeps its share":                       {app: app(divided(9), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)), members: oneNotReady, want: shares(3, 3, 3)},
		"new replicas go to the other clusters": {app: app(divided(15), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)), members: oneNotReady, want: shares(3, 6, 6)},
		"scales down like the others":           {app: app(divided(6), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)), members: oneNotReady, want: shares(2, 2, 2)},
		"does not get the odd replica":          {app: app(divided(10), withEntry("a", 3), withEntry("b", 4), withEntry("c", 2)), members: oneNotReady, want: shares(3, 4, 3)},
		"the only Ready cluster gets all new replicas": { // 3.67 each
			app:     app(divided(11), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)),
			members: members(member("a", notReady), member("b", notReady), member("c")), want: shares(3, 3, 5),
		},
		"the rank does not matter": {
			app:     app(divided(11), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)),
			members: members(member("a"), member("b", notReady), member("c", notReady)), want: shares(5, 3, 3),
		},
		"a reduced share is not a new bound for the others": { // 500.6, 3.475, 3.475, 1.45; if d were fixed at 1, the quota of a would be 501.04
			app: app(divided(509, rule("a", weight(500600)), rule("b", weight(3475)), rule("c", weight(3475)), rule("d", weight(1450))),
				withEntry("a", 500), withEntry("b", 4), withEntry("c", 4), withEntry("d", 1)),
			members: members(member("a"), member("b"), member("c"), member("d", notReady)), want: shares(500, 4, 4, 1),
		},
		"gets its minReplicas": {
			app: app(divided(9, rule("a", atLeast(2))), withEntry("a", 1), withEntry("b", 4), withEntry("c", 3)), members: oneNotReady, want: shares(2, 4, 3),
		},
		"a Removing cluster keeps its replicas": {
			app: app(divided(9), withEntry("a", 1, removing), withEntry("b", 4), withEntry("c", 4)), members: oneNotReady, want: shares(1, 4, 4),
		},
		"gets more if the others are at maxReplicas": {
			app:     app(divided(15, rule("b", atMost(4)), rule("c", atMost(4))), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)),
			members: oneNotReady, want: shares(7, 4, 4),
		},
		"gets more if no cluster is Ready": {
			app: app(divided(9), withEntry("a", 2), withEntry("b", 1)), members: members(member("a", notReady), member("b", notReady)), want: shares(5, 4),
		},
		"keeps its share if another cluster is at maxReplicas": {
			app:     app(divided(15, rule("b", atMost(4))), withEntry("a", 3), withEntry("b", 3), withEntry("c", 3)),
			members: oneNotReady, want: shares(3, 4, 8),
		},
	})
}

func TestDecide_sets_the_bounds_of_autoscalers(t *testing.T) {
	ab := members(member("a"), member("b"))
	runCases(t, map[string]decideCase{
		"each cluster gets the bounds":                  {app: app(autoscaling(2, 6), replicas(4)), members: ab, want: placement.Plan{autoscaled("a", 4, 2, 6), autoscaled("b", 4, 2, 6)}},
		"the initial replicas are at least minReplicas": {app: app(autoscaling(2, 6), replicas(1)), members: ab, want: placement.Plan{autoscaled("a", 2, 2, 6), autoscaled("b", 2, 2, 6)}},
		"the initial replicas are at most maxReplicas":  {app: app(autoscaling(2, 6), replicas(9)), members: ab, want: placement.Plan{autoscaled("a", 6, 2, 6), autoscaled("b", 6, 2, 6)}},
		"minReplicas is 1 by default":                   {app: app(autoscaling(2, 6), func(app *v1alpha1.AppService) { app.Spec.Autoscaling.MinReplicas = nil }), members: ab, want: placement.Plan{autoscaled("a", 1, 1, 6), autoscaled("b", 1, 1, 6)}},
		"Divided: both bounds are divided": {
			app: app(divided(4), autoscaling(4, 10)), members: ab, want: placement.Plan{autoscaled("a", 2, 2, 5), autoscaled("b", 2, 2, 5)},
		},
		"Divided: no clusters": {app: app(divided(4), autoscaling(4, 10)), want: placement.Plan{}},
		"by weight": {
			app: app(divided(4, rule("a", weight(3))), autoscaling(4, 12)), members: ab, want: placement.Plan{autoscaled("a", 3, 3, 9), autoscaled("b", 1, 1, 3)},
		},
		"a cluster without a share of minReplicas has no autoscaler": {
			app: app(divided(4, rule("a", weight(0))), autoscaling(4, 12)), members: ab, want: placement.Plan{chosen("a", 0), autoscaled("b", 4, 4, 12)},
		},
		"minReplicas of a rule": {
			app: app(divided(4, rule("a", atLeast(3))), autoscaling(4, 10)), members: ab, want: placement.Plan{autoscaled("a", 3, 3, 5), autoscaled("b", 1, 1, 5)},
		},
		"maxReplicas of a rule limits both bounds": {
			app: app(divided(4, rule("a", atMost(1))), autoscaling(4, 10)), members: ab, want: placement.Plan{autoscaled("a", 1, 1, 1), autoscaled("b", 3, 3, 9)},
		},
		"maxReplicas is at least minReplicas": {
			app: app(divided(4, rule("a", atLeast(5))), autoscaling(6, 7)), members: ab, want: placement.Plan{autoscaled("a", 5, 5, 5), autoscaled("b", 1, 1, 2)},
		},
		"odd replicas stay": {
			app: app(divided(5), autoscaling(5, 9), withEntry("a", 2, withBounds(2, 5)), withEntry("b", 3, withBounds(3, 4))), members: ab,
			want: placement.Plan{autoscaled("a", 2, 2, 5), autoscaled("b", 3, 3, 4)},
		},
		"the initial replicas are the current ones within the bounds": {
			app: app(divided(4), autoscaling(4, 10), withEntry("a", 4, withBounds(2, 5)), withEntry("b", 9, withBounds(2, 5))), members: ab,
			want: placement.Plan{autoscaled("a", 4, 2, 5), autoscaled("b", 5, 2, 5)},
		},
		"a Removing cluster starts with minReplicas": {
			app: app(divided(4), autoscaling(4, 10), withEntry("a", 4, removing, withBounds(2, 5))), members: ab,
			want: placement.Plan{autoscaled("a", 2, 2, 5), autoscaled("b", 2, 2, 5)},
		},
		"a cluster that is not Ready keeps its bounds": {
			app:     app(divided(4), autoscaling(8, 20), withEntry("a", 2, withBounds(2, 5)), withEntry("b", 2, withBounds(2, 5))),
			members: members(member("a", notReady), member("b")), want: placement.Plan{autoscaled("a", 2, 2, 5), autoscaled("b", 6, 6, 15)},
		},
		"a cluster that is not Ready and had no autoscaler keeps its share": {
			app:     app(divided(4), autoscaling(4, 10), withEntry("a", 2), withEntry("b", 2)),
			members: members(member("a", notReady), member("b")), want: placement.Plan{autoscaled("a", 2, 2, 2), autoscaled("b", 2, 2, 8)},
		},
	})
}

func TestDecide_moves_two_of_ten_replicas_to_a_fourth_cluster(t *testing.T) {
	for _, before := range [][]int32{{4, 3, 3}, {3, 4, 3}, {3, 3, 4}} {
		app := app(divided(10), withEntry("a", before[0]), withEntry("b", before[1]), withEntry("c", before[2]))
		plan, err := placement.Decide(app, members(member("a"), member("b"), member("c"), member("d")))
		if err != nil {
			t.Fatal(err)
		}
		kept := int32(0)
		for i, has := range before {
			kept += min(has, plan[i].Replicas)
		}
		if kept != 8 || plan[3].Replicas != 2 {
			t.Errorf("before %v, after %v", before, plan)
		}
	}
}

// shares returns a plan of the clusters a, b, c and so on, with these replicas.
func shares(replicas ...int32) placement.Plan {
	plan := make(placement.Plan, len(replicas))
	for i, n := range replicas {
		plan[i] = chosen(string(rune('a'+i)), n)
	}
	return plan
}
