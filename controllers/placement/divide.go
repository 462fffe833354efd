package placement

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// share is the input and the result of one cluster in a division. A division runs in rounds. The
// first round divides the total. Each later round divides the remainder of the previous round, in
// addition to the replicas that are already given.
type share struct {
	cluster     string
	rank        uint64
	weight      uint64
	least, most int64 // the bounds; most is least if the weight is 0
	current     int64 // the value that the cluster has now
	ceiling     int64 // most if Ready; else the current value, but at least least
	given       int64 // in all rounds so far

	// The fields below belong to the present round.

	lo, hi    int64  // the band: the quota rounded down and up
	remainder uint64 // of the quota, in the same unit for all shares
	growing   bool   // the quota follows the weight
	held      bool   // the quota exceeds the ceiling
	part      int64
}

// sharesOf returns the shares of the chosen clusters. The function of returns the current value of
// an entry for the quantity that is divided, such as its replicas.
func sharesOf(chosen []candidate, all []shareBounds, of func(*v1alpha1.ClusterStatus) int32) []*share {
	shares := make([]*share, len(chosen))
	block := make([]share, len(chosen)) // one allocation
	for i, c := range chosen {
		t := all[i]
		if t.weight == 0 {
			t.most = t.least
		}
		shares[i] = &block[i]
		block[i] = share{cluster: c.member.Name, rank: c.rank, weight: t.weight, least: t.least, most: t.most, ceiling: t.most}
		if c.runs() {
			shares[i].current = int64(of(c.entry))
		}
		if c.entry != nil && !c.member.IsReady() {
			shares[i].ceiling = min(t.most, max(t.least, int64(of(c.entry))))
		}
	}
	return shares
}

// low returns the minimum that the share gets in this round.
func (c *share) low() int64 { return max(0, c.least-c.given) }

// high returns the maximum that the share may get in this round.
func (c *share) high() int64 { return c.most - c.given }

// top returns the maximum that the share may get in this round under its ceiling.
func (c *share) top() int64 { return c.ceiling - c.given }

// divide divides the total among the shares. The results add up to the total, or come as close to
// it as the bounds allow.
//
// A share that was held in a round is at its ceiling and takes no part in the next round. This at
// least halves the number of open shares in every two rounds, so there are few rounds.
func divide(total int64, shares []*share) {
	open := slices.Clone(shares)
	rest := divideRound(total, open)
	for rest > 0 && len(open) > 0 {
		open = slices.DeleteFunc(open, func(c *share) bool { return c.held || c.high() == 0 })
		rest = divideRound(rest, open)
	}
	if rest == 0 {
		return
	}
	// Only clusters that are not Ready can take the remainder.
	open = slices.DeleteFunc(slices.Clone(shares), func(c *share) bool { return c.high() == 0 })
	for _, c := range open {
		c.ceiling = c.most
	}
	divideRound(rest, open)
}

// divideRound allocates one round and returns the remainder. If any remains, every share got the
// upper end of its band, so the next reconcile starts from the same round.
func divideRound(total int64, shares []*share) int64 {
	quotaBand(total, shares)
	rest := total
	for _, c := range shares {
		rest -= c.hi
	}
	if rest < 0 {
		apportion(total, shares)
		return 0
	}
	for _, c := range shares {
		c.given += c.hi
	}
	return rest
}

// apportion gives each share a part within its band. The parts add up to the total, and as few
// replicas as possible move.
func apportion(total int64, shares []*share) {
	missing := total
	for _, c := range shares {
		c.part = min(max(c.current-c.given, c.lo), c.hi)
		missing -= c.part
	}
	step := int64(cmp.Compare(missing, 0))
	for _, c := range adjustable(shares, missing) {
		c.part += step
	}
	for _, c := range shares {
		c.given += c.part
	}
}

// adjustable returns the shares that get one more if missing is positive, or one less if missing is
// negative. One step per share is enough, because no band is wider than one.
func adjustable(shares []*share, missing int64) []*share {
	if missing == 0 {
		return nil
	}
	var found []*share
	for _, c := range shares {
		if missing > 0 && c.part < c.hi || missing < 0 && c.part > c.lo {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *share) int {
		return cmp.Or(cmp.Compare(b.remainder, a.remainder), cmp.Compare(a.rank, b.rank), cmp.Compare(a.cluster, b.cluster))
	})
	if missing > 0 {
		return found[:min(missing, int64(len(found)))]
	}
	return found[max(0, int64(len(found))+missing):]
}

// breakpoint is a level at which the quota of a share starts or stops following its weight: the
// level times the weight equals at.
type breakpoint struct {
	at int64
	*share
}

// compare compares the levels of two breakpoints.
func (b breakpoint) compare(other breakpoint) int {
	return compareProducts(uint64(b.at), other.weight, uint64(other.at), b.weight)
}

// quotaBand water-fills the total and sets the band of each share: its quota rounded down and up.
// The ceiling of a cluster that is not Ready is applied after the fill and not as a bound:
// otherwise its current share would feed back into the next plan. A share whose quota would exceed
// its ceiling by one or more is held at its ceiling.
func quotaBand(total int64, shares []*share) {
	fixed, weight := int64(0), uint64(0)
	breakpoints := make([]breakpoint, 0, len(shares))
	for _, c := range shares {
		low := c.low()
		c.lo, c.hi, c.remainder, c.growing, c.held = low, low, 0, false, false
		fixed += low
		if c.weight == 0 || c.high() == low {
			continue
		}
		if low > 0 {
			breakpoints = append(breakpoints, breakpoint{low, c})
		} else {
			c.growing = true
			weight += c.weight
		}
		if end := min(c.high(), c.top()+1); end <= total { // a higher end is never reached
			breakpoints = append(breakpoints, breakpoint{end, c})
		}
	}
	if fixed > total {
		return
	}
	slices.SortFunc(breakpoints, breakpoint.compare)
	for _, b := range breakpoints {
		if weight > 0 && compareProducts(uint64(total-fixed), b.weight, uint64(b.at), weight) < 0 {
			break
		}
		fixed, weight = b.advance(fixed, weight)
	}
	for _, c := range shares {
		c.round(total-fixed, weight)
	}
}

// advance returns the fixed sum and the total weight of the quotas that follow the level, both
// above the breakpoint.
func (b breakpoint) advance(fixed int64, weight uint64) (int64, uint64) {
	c := b.share
	if !c.growing {
		c.growing = true
		return fixed - c.low(), weight + c.weight
	}
	c.growing = false
	c.lo = min(c.high(), c.top())
	c.hi, c.held = c.lo, c.lo < c.high()
	return fixed + c.lo, weight - c.weight
}

// round sets the band of a share whose quota follows its weight. The quota is its part, by weight,
// of rest, which is the part of the total that is not fixed.
func (c *share) round(rest int64, weight uint64) {
	if !c.growing {
		return
	}
	high, low := bits.Mul64(uint64(rest), c.weight)
	whole, remainder := bits.Div64(high, low, weight) // at most rest, because c.weight is at most weight
	c.lo, c.hi, c.remainder = int64(whole), int64(whole), remainder
	if remainder > 0 {
		c.hi = min(c.lo+1, c.top())
		c.held = c.hi == c.lo
	}
}

// compareProducts compares a*b with c*d without overflow.
func compareProducts(a, b, c, d uint64) int {
	high1, low1 := bits.Mul64(a, b)
	high2, low2 := bits.Mul64(c, d)
	return cmp.Or(cmp.Compare(high1, high2), cmp.Compare(low1, low2))
}
