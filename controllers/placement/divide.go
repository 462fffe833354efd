package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// claim is what a cluster brings to a division, and what it gets. The division is in rounds: the first is over all of the total, each
// other one over what the round before it could not give, on top of what was given.
type claim struct {
	cluster     string
	rank        uint64
	weight      uint64
	least, most int64 // one of weight 0 has its least only
	has         int64 // now
	roof        int64 // the most while the cluster is not Ready: what it has, or its least; when it is Ready, most
	given       int64 // in all rounds up to now

	// What follows is of the present round.

	lo, hi    int64  // the band
	remainder uint64 // of the quota: the same unit for all
	growing   bool   // its quota follows its weight
	held      bool   // its quota is more than its roof
	part      int64
}

// claimsOf are the claims of the chosen clusters to something of which their rows have a number.
func claimsOf(chosen []candidate, all []terms, of func(*v1alpha1.ClusterStatus) int32) []*claim {
	claims := make([]*claim, len(chosen))
	block := make([]claim, len(chosen)) // one allocation
	for i, c := range chosen {
		t := all[i]
		if t.weight == 0 {
			t.most = t.least
		}
		claims[i] = &block[i]
		block[i] = claim{cluster: c.member.Name, rank: c.rank, weight: t.weight, least: t.least, most: t.most, roof: t.most}
		if c.runs() {
			claims[i].has = int64(of(c.row))
		}
		if c.row != nil && !c.member.IsReady() {
			claims[i].roof = min(t.most, max(t.least, int64(of(c.row))))
		}
	}
	return claims
}

// low is the least that the claim gets in this round.
func (c *claim) low() int64 { return max(0, c.least-c.given) }

// high is the most that the claim may get in this round.
func (c *claim) high() int64 { return c.most - c.given }

// top is the most that the claim may get in this round while the roof holds.
func (c *claim) top() int64 { return c.roof - c.given }

// divide gives each claim its part of the total. The sum is the total, or as near to it as the bounds let it be.
//
// A claim that was held in a round is at its roof and has no part in the next. That no more than halves the others every two rounds, so
// the rounds are few.
func divide(total int64, claims []*claim) {
	open := slices.Clone(claims)
	rest := deal(total, open)
	for rest > 0 && len(open) > 0 {
		open = slices.DeleteFunc(open, func(c *claim) bool { return c.held || c.high() == 0 })
		rest = deal(rest, open)
	}
	if rest == 0 {
		return
	}
	// Only clusters that are not Ready are left to run it.
	open = slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return c.high() == 0 })
	for _, c := range open {
		c.roof = c.most
	}
	deal(rest, open)
}

// deal does one round, and rebends how much of the total it could not give within the bands. When it rebends some, all claims have the
// upper ends of theirs, so that the next call with what came of this one begins the next round with the same.
func deal(total int64, claims []*claim) int64 {
	band(total, claims)
	rest := total
	for _, c := range claims {
		rest -= c.hi
	}
	if rest < 0 {
		settle(total, claims)
		return 0
	}
	for _, c := range claims {
		c.given += c.hi
	}
	return rest
}

// settle gives each claim a part within its band, so that they add up to the total and are as near as can be to what the clusters have.
func settle(total int64, claims []*claim) {
	missing := total
	for _, c := range claims {
		c.part = min(max(c.has-c.given, c.lo), c.hi)
		missing -= c.part
	}
	step := int64(cmp.Compare(missing, 0))
	for _, c := range movable(claims, missing) {
		c.part += step
	}
	for _, c := range claims {
		c.given += c.part
	}
}

// movable are the claims that get one of what is missing, or, when that is less than nothing, lose one. No band is wider than one.
func movable(claims []*claim, missing int64) []*claim {
	if missing == 0 {
		return nil
	}
	var found []*claim
	for _, c := range claims {
		if missing > 0 && c.part < c.hi || missing < 0 && c.part > c.lo {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *claim) int {
		return cmp.Or(cmp.Compare(b.remainder, a.remainder), cmp.Compare(a.rank, b.rank), cmp.Compare(a.cluster, b.cluster))
	})
	if missing > 0 {
		return found[:min(missing, int64(len(found)))]
	}
	return found[max(0, int64(len(found))+missing):]
}

// bend is where a quota begins or ceases to follow the claim's weight, as the level rises: at the level where weight times level is at.
type bend struct {
	at int64
	*claim
}

// compare compares levels.
func (b bend) compare(other bend) int {
	return compareProducts(uint64(b.at), other.weight, uint64(other.at), b.weight)
}

// band finds the level at which the quotas add up to the total, and with them the bands. A claim whose quota would be a whole one above its
// roof has its roof for a quota; one whose quota is less than that above it keeps the band, as far as it is under the roof. Were the roof a bound like the
// others, what is given below it would change the level when it is the next roof.
func band(total int64, claims []*claim) {
	fixed, weight := int64(0), uint64(0)
	bends := make([]bend, 0, len(claims))
	for _, c := range claims {
		low := c.low()
		c.lo, c.hi, c.remainder, c.growing, c.held = low, low, 0, false, false
		fixed += low
		if c.weight == 0 || c.high() == low {
			continue
		}
		if low > 0 {
			bends = append(bends, bend{low, c})
		} else {
			c.growing = true
			weight += c.weight
		}
		if end := min(c.high(), c.top()+1); end <= total { // else it is never reached
			bends = append(bends, bend{end, c})
		}
	}
	if fixed > total {
		return
	}
	slices.SortFunc(bends, bend.compare)
	for _, b := range bends {
		if weight > 0 && compareProducts(uint64(total-fixed), b.weight, uint64(b.at), weight) < 0 {
			break
		}
		fixed, weight = b.pass(fixed, weight)
	}
	for _, c := range claims {
		c.round(total-fixed, weight)
	}
}

// pass rebends what is fixed, and the weight of what is not, above a bend.
func (b bend) pass(fixed int64, weight uint64) (int64, uint64) {
	c := b.claim
	if !c.growing {
		c.growing = true
		return fixed - c.low(), weight + c.weight
	}
	c.growing = false
	c.lo = min(c.high(), c.top())
	c.hi, c.held = c.lo, c.lo < c.high()
	return fixed + c.lo, weight - c.weight
}

// round sets the band of a claim whose quota is its part by weight of what is not fixed.
func (c *claim) round(rest int64, weight uint64) {
	if !c.growing {
		return
	}
	high, low := bits.Mul64(uint64(rest), c.weight)
	whole, remainder := bits.Div64(high, low, weight) // no more than rest, for the weight of one is no more than that of all
	c.lo, c.hi, c.remainder = int64(whole), int64(whole), remainder
	if remainder > 0 {
		c.hi = min(c.lo+1, c.top())
		c.held = c.hi == c.lo
	}
}

// compareProducts compares a times b with c times d, whatever their size.
func compareProducts(a, b, c, d uint64) int {
	high1, low1 := bits.Mul64(a, b)
	high2, low2 := bits.Mul64(c, d)
	return cmp.Or(cmp.Compare(high1, high2), cmp.Compare(low1, low2))
}
