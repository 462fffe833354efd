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
	ask(t, map[string]question{
		"over no clusters": {
			app: app(divided(3)), want: placement.Plan{},
		},
		"over none that is chosen": {
			app: app(divided(3)), members: members(member("a", notReady)), want: placement.Plan{excluded("a", v1alpha1.ReasonClusterNotReady)},
		},
		"evenly":     {app: app(divided(6)), members: abc, want: shares(2, 2, 2)},
		"none of it": {app: app(divided(0)), members: abc, want: shares(0, 0, 0)},
		"all that there can be, without overflow": {
			app:     app(divided(math.MaxInt32, rule("a", weight(1_000_000)), rule("b", weight(1_000_000)), rule("c", weight(0))), running("a", math.MaxInt32)),
			members: abc, want: shares(math.MaxInt32/2+1, math.MaxInt32/2, 0),
		},
		"by weight": {
			app: app(divided(10, rule("a", weight(3)), rule("b", weight(2)))), members: ab, want: shares(6, 4),
		},
		"by weight, 1 for what no rule matches, and for a rule that gives none": {
			app: app(divided(10, rule("a", weight(3)), rule("b"))), members: abc, want: shares(6, 2, 2),
		},
		"the first rule that matches counts": {
			app: app(divided(8, rule("a", weight(3)), rule("", weight(1)), rule("b", weight(100)))), members: ab, want: shares(6, 2),
		},
		"what is left over goes to the largest remainder": { // 4.9, 2.8, 2.3
			app: app(divided(10, rule("a", weight(49)), rule("b", weight(28)), rule("c", weight(23)))), members: abc, want: shares(5, 3, 2),
		},
		"nothing to weight 0": {
			app: app(divided(10, rule("a", weight(0)))), members: abc, want: shares(0, 5, 5),
		},
		"nothing where all weigh 0": {
			app: app(divided(10, rule("", weight(0)))), members: ab, want: shares(0, 0),
		},
		"its least to weight 0": {
			app: app(divided(10, rule("a", weight(0), atLeast(2)))), members: abc, want: shares(2, 4, 4),
		},
		"at least the least, and the others share what is left": {
			app: app(divided(10, rule("a", atLeast(6)))), members: abc, want: shares(6, 2, 2),
		},
		"at most the most, and the others share what is left": {
			app: app(divided(10, rule("a", atMost(2)))), members: abc, want: shares(2, 4, 4),
		},
		"bounds that a bound makes bite": { // a is fixed at 1; then the quota of b rises above its maximum
			app: app(divided(12, rule("a", weight(10), atMost(1)), rule("b", atMost(5)))), members: abc, want: shares(1, 5, 6),
		},
		"a least that another's most makes needless": { // the quota of b is 10 without its minimum
			app: app(divided(30, rule("a", weight(100), atMost(10)), rule("b", atLeast(3)))), members: abc, want: shares(10, 10, 10),
		},
		"the leasts, when they are more than all": {
			app: app(divided(3, rule("a", atLeast(4)), rule("b", atLeast(1)))), members: abc, want: shares(4, 1, 0),
		},
		"the mosts, when they are less than all": {
			app: app(divided(30, rule("a", atMost(4)), rule("", atMost(2)))), members: abc, want: shares(4, 2, 2),
		},
		"a most that is less than the least is the least": {
			app: app(divided(10, rule("a", atLeast(4), atMost(2)))), members: abc, want: shares(4, 3, 3),
		},
		"none where the most is none": {
			app: app(divided(10, rule("a", atMost(0)))), members: abc, want: shares(0, 5, 5),
		},
	})
}

func TestDecide_divides_by_what_clusters_can_hold(t *testing.T) {
	by := app(divided(12), byAllocatable)
	ask(t, map[string]question{
		"by CPU":                         {app: by, members: members(member("a", cpu("4")), member("b", cpu("8"))), want: shares(4, 8)},
		"in thousandths":                 {app: by, members: members(member("a", cpu("500m")), member("b", cpu("1"))), want: shares(4, 8)},
		"unknown is as the smallest":     {app: by, members: members(member("a"), member("b", cpu("2")), member("c", cpu("8"))), want: shares(2, 2, 8)},
		"zero is unknown":                {app: by, members: members(member("a", cpu("0")), member("b", cpu("2")), member("c", cpu("8"))), want: shares(2, 2, 8)},
		"less than zero is unknown":      {app: by, members: members(member("a", cpu("-5")), member("b", cpu("2")), member("c", cpu("8"))), want: shares(2, 2, 8)},
		"evenly where none is known":     {app: by, members: members(member("a"), member("b")), want: shares(6, 6)},
		"a member that lies has no more": {app: by, members: members(member("a", cpu("9E")), member("b", cpu("999999999999999999999999999"))), want: shares(6, 6)},
		"a thousandth beside a lie":      {app: by, members: members(member("a", cpu("1n")), member("b", cpu("1e30"))), want: shares(0, 12)},
		"bounds hold": {
			app:     app(divided(12, rule("b", atMost(5))), byAllocatable),
			members: members(member("a", cpu("4")), member("b", cpu("8"))), want: shares(7, 5),
		},
	})
}

func TestDecide_moves_as_few_replicas_as_it_can(t *testing.T) {
	abc := members(member("a"), member("b"), member("c"))
	abcd := members(member("a"), member("b"), member("c"), member("d"))
	ask(t, map[string]question{
		"what is exact stays": {
			app: app(divided(10), running("a", 3), running("b", 4), running("c", 3)), members: abc, want: shares(3, 4, 3),
		},
		"wherever the odd one is": {
			app: app(divided(10), running("a", 3), running("b", 3), running("c", 4)), members: abc, want: shares(3, 3, 4),
		},
		"a fourth cluster takes two of eleven": {
			app: app(divided(11), running("a", 4), running("b", 4), running("c", 3)), members: abcd, want: shares(3, 3, 3, 2),
		},
		"one more replica moves none": {
			app: app(divided(11), running("a", 4), running("b", 3), running("c", 3)), members: abc, want: shares(4, 3, 4),
		},
		"the other clusters get the replicas of a cluster that leaves": {
			app: app(divided(10), running("a", 3), running("b", 3), running("c", 2), running("d", 2)), members: members(member("a"), member("b")), want: shares(5, 5),
		},
		"a cluster far from its share moves to the near end of it": { // bands 3 to 4
			app: app(divided(10), running("a", 10), running("b", 0), running("c", 0)), members: abc, want: shares(4, 3, 3),
		},
		"a surplus replica is taken where the remainder is smallest": { // 4.9, 2.8, 2.3
			app:     app(divided(10, rule("a", weight(49)), rule("b", weight(28)), rule("c", weight(23))), running("a", 5), running("b", 3), running("c", 3)),
			members: abc, want: shares(5, 3, 2),
		},
		"a cluster in removal counts as a new one": {
			app: app(divided(3), running("a", 2, removing), running("b", 2)), members: members(member("a"), member("b")), want: shares(1, 2),
		},
	})
}

func TestDecide_gives_no_more_to_a_cluster_that_is_not_Ready(t *testing.T) {
	dark := members(member("a", notReady), member("b"), member("c"))
	ask(t, map[string]question{
		"it keeps its share":            {app: app(divided(9), running("a", 3), running("b", 3), running("c", 3)), members: dark, want: shares(3, 3, 3)},
		"the others get new replicas":   {app: app(divided(15), running("a", 3), running("b", 3), running("c", 3)), members: dark, want: shares(3, 6, 6)},
		"it is reduced like the others": {app: app(divided(6), running("a", 3), running("b", 3), running("c", 3)), members: dark, want: shares(2, 2, 2)},
		"it does not get the remainder": {app: app(divided(10), running("a", 3), running("b", 4), running("c", 2)), members: dark, want: shares(3, 4, 3)},
		"the third cluster gets what two clusters cannot take, above its share": { // 3.67 each
			app:     app(divided(11), running("a", 3), running("b", 3), running("c", 3)),
			members: members(member("a", notReady), member("b", notReady), member("c")), want: shares(3, 3, 5),
		},
		"it gets none of that by its rank": {
			app:     app(divided(11), running("a", 3), running("b", 3), running("c", 3)),
			members: members(member("a"), member("b", notReady), member("c", notReady)), want: shares(5, 3, 3),
		},
		"its released replicas do not bound the others": { // 500.6, 3.475, 3.475, 1.45; if d were fixed at 1, the quota of a would be 501.04
			app: app(divided(509, rule("a", weight(500600)), rule("b", weight(3475)), rule("c", weight(3475)), rule("d", weight(1450))),
				running("a", 500), running("b", 4), running("c", 4), running("d", 1)),
			members: members(member("a"), member("b"), member("c"), member("d", notReady)), want: shares(500, 4, 4, 1),
		},
		"it gets its minimum, even if it has less": {
			app: app(divided(9, rule("a", atLeast(2))), running("a", 1), running("b", 4), running("c", 3)), members: dark, want: shares(2, 4, 3),
		},
		"it keeps its replicas while it is in removal": {
			app: app(divided(9), running("a", 1, removing), running("b", 4), running("c", 4)), members: dark, want: shares(1, 4, 4),
		},
		"it gets more when the others are at their maximum": {
			app:     app(divided(15, rule("b", atMost(4)), rule("c", atMost(4))), running("a", 3), running("b", 3), running("c", 3)),
			members: dark, want: shares(7, 4, 4),
		},
		"it gets more when there are no others": {
			app: app(divided(9), running("a", 2), running("b", 1)), members: members(member("a", notReady), member("b", notReady)), want: shares(5, 4),
		},
		"the others get what the bound of one cluster leaves": {
			app:     app(divided(15, rule("b", atMost(4))), running("a", 3), running("b", 3), running("c", 3)),
			members: dark, want: shares(3, 4, 8),
		},
	})
}

func TestDecide_has_clusters_scale(t *testing.T) {
	ab := members(member("a"), member("b"))
	ask(t, map[string]question{
		"each within the bounds":          {app: app(autoscaling(2, 6), replicas(4)), members: ab, want: placement.Plan{scaled("a", 4, 2, 6), scaled("b", 4, 2, 6)}},
		"initial replicas at the minimum": {app: app(autoscaling(2, 6), replicas(1)), members: ab, want: placement.Plan{scaled("a", 2, 2, 6), scaled("b", 2, 2, 6)}},
		"initial replicas at the maximum": {app: app(autoscaling(2, 6), replicas(9)), members: ab, want: placement.Plan{scaled("a", 6, 2, 6), scaled("b", 6, 2, 6)}},
		"the default minimum is one":      {app: app(autoscaling(2, 6), func(app *v1alpha1.AppService) { app.Spec.Autoscaling.MinReplicas = nil }), members: ab, want: placement.Plan{scaled("a", 1, 1, 6), scaled("b", 1, 1, 6)}},
		"divided, both bounds are": {
			app: app(divided(4), autoscaling(4, 10)), members: ab, want: placement.Plan{scaled("a", 2, 2, 5), scaled("b", 2, 2, 5)},
		},
		"divided over no clusters": {app: app(divided(4), autoscaling(4, 10)), want: placement.Plan{}},
		"by weight": {
			app: app(divided(4, rule("a", weight(3))), autoscaling(4, 12)), members: ab, want: placement.Plan{scaled("a", 3, 3, 9), scaled("b", 1, 1, 3)},
		},
		"a cluster without a share of the minimum has no autoscaler, and the others get the whole maximum": {
			app: app(divided(4, rule("a", weight(0))), autoscaling(4, 12)), members: ab, want: placement.Plan{chosen("a", 0), scaled("b", 4, 4, 12)},
		},
		"the minimum of a rule is part of the minimum": {
			app: app(divided(4, rule("a", atLeast(3))), autoscaling(4, 10)), members: ab, want: placement.Plan{scaled("a", 3, 3, 5), scaled("b", 1, 1, 5)},
		},
		"the maximum of a rule bounds both": {
			app: app(divided(4, rule("a", atMost(1))), autoscaling(4, 10)), members: ab, want: placement.Plan{scaled("a", 1, 1, 1), scaled("b", 3, 3, 9)},
		},
		"the maximum is at least the minimum": {
			app: app(divided(4, rule("a", atLeast(5))), autoscaling(6, 7)), members: ab, want: placement.Plan{scaled("a", 5, 5, 5), scaled("b", 1, 1, 2)},
		},
		"the remainders stay where they are": {
			app: app(divided(5), autoscaling(5, 9), running("a", 2, between(2, 5)), running("b", 3, between(3, 4))), members: ab,
			want: placement.Plan{scaled("a", 2, 2, 5), scaled("b", 3, 3, 4)},
		},
		"the initial replicas are the present ones, within the bounds": {
			app: app(divided(4), autoscaling(4, 10), running("a", 4, between(2, 5)), running("b", 9, between(2, 5))), members: ab,
			want: placement.Plan{scaled("a", 4, 2, 5), scaled("b", 5, 2, 5)},
		},
		"a cluster in removal starts with its minimum": {
			app: app(divided(4), autoscaling(4, 10), running("a", 4, removing, between(2, 5))), members: ab,
			want: placement.Plan{scaled("a", 2, 2, 5), scaled("b", 2, 2, 5)},
		},
		"one that is not Ready scales no further than it did": {
			app:     app(divided(4), autoscaling(8, 20), running("a", 2, between(2, 5)), running("b", 2, between(2, 5))),
			members: members(member("a", notReady), member("b")), want: placement.Plan{scaled("a", 2, 2, 5), scaled("b", 6, 6, 15)},
		},
		"one that is not Ready and had no autoscaler keeps its share": {
			app:     app(divided(4), autoscaling(4, 10), running("a", 2), running("b", 2)),
			members: members(member("a", notReady), member("b")), want: placement.Plan{scaled("a", 2, 2, 2), scaled("b", 2, 2, 8)},
		},
	})
}

func TestDecide_moves_two_of_ten_replicas_to_a_fourth_cluster(t *testing.T) {
	for _, before := range [][]int32{{4, 3, 3}, {3, 4, 3}, {3, 3, 4}} {
		app := app(divided(10), running("a", before[0]), running("b", before[1]), running("c", before[2]))
		plan, err := placement.Decide(app, members(member("a"), member("b"), member("c"), member("d")))
		if err != nil {
			t.Fatal(err)
		}
		kept := int32(0)
		for i, has := range before {
			kept += min(has, plan[i].Replicas)
		}
		if kept != 8 || plan[3].Replicas != 2 {
			t.Errorf("of %v: %v", before, plan)
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
