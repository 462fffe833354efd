package placement

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// standing is the priority of a cluster under a limit. The limit takes the lowest standing first,
// so that an AppService stays on the clusters where it runs.
type standing int

const (
	running        standing = iota // in the plan
	starting                       // in the plan, but the cluster has not taken the AppService on yet
	removalPending                 // left the plan; the removal has not started
	removing                       // being removed
	newcomer                       // no entry
)

// standingOf returns the standing of a cluster with this entry. A cluster in the plan ranks before
// every cluster outside the plan, independent of what runs on either of them. Otherwise the two
// clusters would swap places forever.
func standingOf(entry *v1alpha1.ClusterStatus) standing {
	if entry == nil {
		return newcomer
	}
	switch transition := entry.Transition.Type; {
	case entry.Phase == v1alpha1.ClusterRemoving:
		return removing
	case transition == v1alpha1.TransitionRemovalPending, transition == v1alpha1.TransitionRemovalNeedsApproval:
		return removalPending
	case entry.Surging && entry.ObservedGeneration == 0:
		return starting
	}
	return running
}

// Contender is a cluster that competes for a place under a limit.
type Contender struct {
	Member *v1alpha1.MemberCluster
	// Standing is the priority of the cluster: the lowest is taken first.
	Standing int
	// Rank orders the clusters of the same standing, see [RanksOf].
	Rank uint64

	index       int // in the order of the caller
	spreadIndex int // the number of contenders before it with the same value of the spread label
}

func (a Contender) compare(b Contender) int {
	return cmp.Or(cmp.Compare(a.Standing, b.Standing), cmp.Compare(a.spreadIndex, b.spreadIndex), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Member.Name, b.Member.Name))
}

// Order returns the indices of the contenders in the order in which a limit takes them, spread over
// the values of the label spreadKey. The contenders are changed.
//
// Repeatedly taking from the value with the fewest clusters so far is the same as taking by spread
// index: the first contender of every value comes before the second contender of any value. The
// spread index also counts contenders with a better standing, because a contender is taken only
// after all of them.
func Order(contenders []Contender, spreadKey string) []int {
	for i := range contenders {
		contenders[i].index = i
	}
	slices.SortFunc(contenders, Contender.compare)
	turns := map[string]int{}
	for i := range contenders {
		value := contenders[i].Member.Labels[spreadKey] // "" if the label or the spread key is not set
		contenders[i].spreadIndex = turns[value]
		turns[value]++
	}
	slices.SortFunc(contenders, Contender.compare)
	order := make([]int, len(contenders))
	for i, c := range contenders {
		order[i] = c.index
	}
	return order
}

// limit returns the candidates that the placement's limit takes, and the others.
func limit(p *v1alpha1.Placement, candidates []candidate) (taken, others []candidate) {
	if p == nil || p.Limit == nil || len(candidates) <= int(*p.Limit) {
		return candidates, nil
	}
	contenders := make([]Contender, len(candidates))
	for i, c := range candidates {
		contenders[i] = Contender{Member: c.member, Standing: int(c.standing), Rank: c.rank}
	}
	ordered := make([]candidate, 0, len(candidates))
	for _, i := range Order(contenders, p.SpreadKey) {
		ordered = append(ordered, candidates[i])
	}
	most := max(0, int(*p.Limit))
	return ordered[:most], ordered[most:]
}

// Ranks is the hash from which the order of the clusters for one AppService is derived (rendezvous
// hashing). Each AppService has a different order. By name, a hundred AppServices with a limit of one
// would all run on the first cluster of the alphabet. The hash must never change: an upgrade would
// move AppServices to other clusters.
type Ranks uint64

// RanksOf returns the ranks of the clusters for an AppService.
func RanksOf(app *v1alpha1.AppService) Ranks {
	const offset Ranks = 0xcbf29ce484222325
	return offset.with(app.Namespace).with("/").with(app.Name).with("/")
}

// with adds the text to the 64-bit FNV-1a hash.
func (r Ranks) with(text string) Ranks {
	for i := range len(text) {
		r = (r ^ Ranks(text[i])) * 0x100000001b3
	}
	return r
}

// Of returns the rank of a cluster. FNV hardly spreads the last letters, in which the names of
// clusters differ, so the finalizer of MurmurHash3 spreads them.
func (r Ranks) Of(cluster string) uint64 {
	x := uint64(r.with(cluster))
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
