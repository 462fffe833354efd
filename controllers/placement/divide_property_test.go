package placement_test

import (
	"math"
	"math/big"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// holder is a cluster of a division in a test: everything that Decide can know about it, and the
// replicas that it got.
type holder struct {
	weight, least, most, has int64
	hasEntry, ready          bool
	got                      int64
}

// highest returns the maximum that the holder may get in any state.
func (h holder) highest() int64 {
	if h.weight == 0 {
		return h.least
	}
	return h.most
}

// roof returns the maximum that the holder may get while other holders can take the rest.
func (h holder) roof() int64 {
	if h.hasEntry && !h.ready {
		return min(h.highest(), max(h.least, h.has))
	}
	return h.highest()
}

func (h holder) draw(name string) (v1alpha1.ReplicaRule, v1alpha1.MemberCluster) {
	m := member(name)
	if !h.ready {
		notReady(&m)
	}
	r := rule(name, weight(int32(h.weight)), atLeast(int32(h.least)))
	if h.most < math.MaxInt32 {
		atMost(int32(h.most))(&r)
	}
	return r, m
}

// anyDivision returns a generator of a total and the clusters that divide it. Clusters without an
// entry are Ready, because Decide does not choose other new clusters.
func anyDivision(allReady bool) *rapid.Generator[division] {
	return rapid.Custom(func(t *rapid.T) division {
		most := rapid.SampledFrom([]int64{12, 40, 1000, math.MaxInt32}).Draw(t, "scale")
		d := division{total: rapid.Int64Range(0, most).Draw(t, "total")}
		for range rapid.IntRange(0, 7).Draw(t, "clusters") {
			h := holder{weight: rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(1, 1_000_000)).Draw(t, "weight"), most: math.MaxInt32, ready: true}
			if rapid.Bool().Draw(t, "has a least") {
				h.least = rapid.Int64Range(0, most/4).Draw(t, "least")
			}
			if rapid.Bool().Draw(t, "has a most") {
				h.most = rapid.Int64Range(h.least, h.least+most/2).Draw(t, "most")
				h.most = min(h.most, math.MaxInt32)
			}
			if h.hasEntry = rapid.Bool().Draw(t, "has an entry"); h.hasEntry {
				h.has = rapid.Int64Range(0, most/2).Draw(t, "has")
				h.ready = allReady || rapid.Bool().Draw(t, "is ready")
			}
			d.holders = append(d.holders, h)
		}
		if rapid.Bool().Draw(t, "is at rest, nearly") {
			for i, band := range d.bands() {
				if d.holders[i].hasEntry {
					d.holders[i].has = min(math.MaxInt32, max(0, band[0]+rapid.Int64Range(-2, 2).Draw(t, "off by")))
				}
			}
		}
		return d
	})
}

type division struct {
	total   int64
	holders []holder
}

// question returns the AppService and the members that lead to the division.
func (d division) question() (*v1alpha1.AppService, []v1alpha1.MemberCluster) {
	var rules []v1alpha1.ReplicaRule
	var fleet []v1alpha1.MemberCluster
	app := app()
	for i, h := range d.holders {
		r, m := h.draw(nth(i))
		rules, fleet = append(rules, r), append(fleet, m)
		if h.hasEntry {
			running(nth(i), int32(h.has))(app)
		}
	}
	divided(int32(d.total), rules...)(app)
	return app, fleet
}

// answered returns the division with the replicas that each holder got.
func (d division) answered(t *rapid.T) division {
	plan := decide(t, d.app(), d.fleet())
	d.holders = slices.Clone(d.holders)
	for i := range d.holders {
		d.holders[i].got = int64(plan[i].Replicas)
	}
	return d
}

func (d division) app() *v1alpha1.AppService {
	app, _ := d.question()
	return app
}

func (d division) fleet() []v1alpha1.MemberCluster {
	_, fleet := d.question()
	return fleet
}

func (d division) sum(of func(holder) int64) int64 {
	sum := int64(0)
	for _, h := range d.holders {
		sum += of(h)
	}
	return sum
}

func TestDivision_is_exact_as_far_as_the_bounds_allow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDivision(false).Draw(t, "division").answered(t)
		least, most := d.sum(func(h holder) int64 { return h.least }), d.sum(holder.highest)
		if got, want := d.sum(func(h holder) int64 { return h.got }), max(least, min(most, d.total)); got != want {
			t.Fatalf("%d of %d, want %d: %+v", got, d.total, want, d.holders)
		}
	})
}

func TestDivision_keeps_everyone_within_its_bounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, h := range anyDivision(false).Draw(t, "division").answered(t).holders {
			if h.got < h.least || h.got > h.highest() {
				t.Fatalf("%d is out of bounds: %+v", h.got, h)
			}
		}
	})
}

func TestDivision_gives_no_more_to_clusters_that_are_not_Ready_than_it_must(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDivision(false).Draw(t, "division").answered(t)
		over, must := int64(0), max(0, min(d.total, d.sum(holder.highest))-d.sum(holder.roof))
		for _, h := range d.holders {
			over += max(0, h.got-h.roof())
		}
		if over != must {
			t.Fatalf("%d over what they have, want %d: %+v", over, must, d)
		}
	})
}

// The test calculates the quotas as CSS does for a flexible line, with fractions. The package uses
// a different method and integer arithmetic.
func TestDivision_gives_each_its_quota_rounded_up_or_down(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDivision(true).Draw(t, "division").answered(t)
		for i, band := range d.bands() {
			if h := d.holders[i]; h.got < band[0] || h.got > band[1] {
				t.Fatalf("%d got %d, not from %d to %d: %+v", i, h.got, band[0], band[1], d)
			}
		}
	})
}

// The test tries all divisions within the bands: none of them moves fewer replicas.
func TestDivision_moves_as_few_as_can_be(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDivision(true).Draw(t, "division").answered(t)
		bands := d.bands()
		want, sum := int64(math.MaxInt64), d.sum(func(h holder) int64 { return h.got })
		for choice := range 1 << len(bands) {
			moved, given := int64(0), int64(0)
			for i, band := range bands {
				n := band[choice>>i&1]
				given += n
				moved += distance(n, d.holders[i].has)
			}
			if given == sum {
				want = min(want, moved)
			}
		}
		if moved := d.sum(func(h holder) int64 { return distance(h.got, h.has) }); moved != want {
			t.Fatalf("%d are moved, and %d could be: %+v", moved, want, d)
		}
	})
}

// Without current replicas, the division is Hamilton's method: the cluster with the larger
// remainder gets a replica first.
func TestDivision_among_newcomers_goes_by_the_largest_remainder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDivision(true).Draw(t, "division")
		for i := range d.holders {
			d.holders[i].hasEntry, d.holders[i].has = false, 0
		}
		d = d.answered(t)
		quotas, bands := d.quotas(), d.bands()
		for i, up := range d.holders {
			for j, down := range d.holders {
				if up.got == bands[i][0] || down.got == bands[j][1] {
					continue
				}
				if fraction(quotas[i]).Cmp(fraction(quotas[j])) < 0 {
					t.Fatalf("%v is rounded up, and %v is not: %+v", quotas[i], quotas[j], d)
				}
			}
		}
	})
}

func TestDivision_by_Allocatable_is_exact_whatever_members_say(t *testing.T) {
	anyQuantity := rapid.OneOf(rapid.StringMatching(`-?[0-9]{1,12}(m|n|k|Ei|E)?`), rapid.SampledFrom([]string{"0", "1n", "9E", "8Ei", "1e40", "-1e40"}))
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Int32Range(0, math.MaxInt32).Draw(t, "total")
		app := app(divided(total), byAllocatable)
		n := rapid.IntRange(1, 9).Draw(t, "clusters")
		fleet := fleetOf(n, func(i int) v1alpha1.MemberCluster {
			m := member(nth(i))
			if rapid.Bool().Draw(t, "is known") {
				m.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(anyQuantity.Draw(t, "cpu"))}
			}
			return m
		})
		sum := int64(0)
		for _, decision := range decide(t, app, fleet) {
			if decision.Replicas < 0 {
				t.Fatalf("less than nothing: %+v", decision)
			}
			sum += int64(decision.Replicas)
		}
		if sum != int64(total) {
			t.Fatalf("%d of %d", sum, total)
		}
	})
}

func TestDivision_of_autoscaling_is_exact_and_in_order(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := anyDivision(false).Draw(t, "division")
		least, more := max(1, d.total), rapid.Int64Range(0, 1000).Draw(t, "more")
		most := min(math.MaxInt32, least+more)
		app, fleet := d.question()
		autoscaling(int32(least), int32(most))(app)
		for i := range app.Status.Clusters {
			entry := &app.Status.Clusters[i]
			if entry.MaxReplicas = rapid.Int32Range(0, entry.Replicas).Draw(t, "to"); entry.MaxReplicas > 0 {
				entry.MinReplicas = rapid.Int32Range(1, entry.MaxReplicas).Draw(t, "from")
			}
		}
		var mins, maxs, leasts, mosts, upTo int64
		for i, got := range decide(t, app, fleet) {
			h := d.holders[i]
			mins, maxs = mins+int64(got.MinReplicas), maxs+int64(got.MaxReplicas)
			leasts, mosts = leasts+h.least, mosts+h.highest()
			if got.MinReplicas == 0 && got.MaxReplicas+got.Replicas > 0 {
				t.Fatalf("something without a least: %+v", got)
			}
			if got.Replicas < got.MinReplicas || got.MaxReplicas < got.Replicas || int64(got.MaxReplicas) > h.highest() || int64(got.MinReplicas) < h.least {
				t.Fatalf("out of bounds: %+v of %+v", got, h)
			}
			if got.MinReplicas > 0 && h.weight > 0 {
				upTo += h.most
			} else {
				upTo += int64(got.MinReplicas)
			}
		}
		if want := max(leasts, min(mosts, least)); mins != want {
			t.Fatalf("the leasts are %d, want %d", mins, want)
		}
		if want := max(mins, min(upTo, most)); maxs != want {
			t.Fatalf("the mosts are %d, want %d", maxs, want)
		}
	})
}

// quotas returns the quotas. In each step it fixes the quotas that are out of bounds, on the side
// with the larger excess, until all quotas are within bounds.
func (d division) quotas() []*big.Rat {
	quotas := make([]*big.Rat, len(d.holders))
	total := max(d.sum(func(h holder) int64 { return h.least }), min(d.total, d.sum(holder.highest)))
	for {
		rest, weight := new(big.Rat).SetInt64(total), int64(0)
		for i, h := range d.holders {
			if quotas[i] != nil {
				rest.Sub(rest, quotas[i])
			} else {
				weight += h.weight
			}
		}
		free := map[int]*big.Rat{}
		out := new(big.Rat)
		for i, h := range d.holders {
			if quotas[i] != nil {
				continue
			}
			q := new(big.Rat)
			if weight > 0 {
				q.Mul(rest, big.NewRat(h.weight, weight))
			}
			free[i] = q
			out.Add(out, new(big.Rat).Sub(h.clamp(q), q))
		}
		if len(free) == 0 {
			return quotas
		}
		for i, q := range free {
			within := d.holders[i].clamp(q)
			if out.Sign() == 0 || out.Sign() == within.Cmp(q) {
				quotas[i] = within
			}
		}
	}
}

func (h holder) clamp(q *big.Rat) *big.Rat {
	if least := new(big.Rat).SetInt64(h.least); q.Cmp(least) < 0 {
		return least
	}
	if most := new(big.Rat).SetInt64(h.highest()); q.Cmp(most) > 0 {
		return most
	}
	return q
}

func (d division) bands() [][2]int64 {
	bands := make([][2]int64, len(d.holders))
	for i, q := range d.quotas() {
		floor := new(big.Int).Quo(q.Num(), q.Denom()).Int64()
		bands[i] = [2]int64{floor, floor}
		if !q.IsInt() {
			bands[i][1]++
		}
	}
	return bands
}

func fraction(q *big.Rat) *big.Rat {
	floor := new(big.Int).Quo(q.Num(), q.Denom())
	return new(big.Rat).Sub(q, new(big.Rat).SetInt(floor))
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
