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

// contender is a candidate that competes for a place under the limit.
type contender struct {
	candidate
	spreadIndex int // the number of contenders before it with the same value of the spread label
}

func (a contender) compare(b contender) int {
	return cmp.Or(cmp.Compare(a.standing, b.standing), cmp.Compare(a.spreadIndex, b.spreadIndex), cmp.Compare(a.rank, b.rank), cmp.Compare(a.member.Name, b.member.Name))
}

// limit returns the candidates that the placement's limit takes, and the others.
//
// Repeatedly taking from the value with the fewest clusters so far is the same as taking by spread
// index: the first contender of every value comes before the second contender of any value. The
// spread index also counts contenders with a better standing, because a contender is taken only
// after all of them.
func limit(p *v1alpha1.Placement, candidates []candidate) (taken, others []candidate) {
	if p == nil || p.Limit == nil || len(candidates) <= int(*p.Limit) {
		return candidates, nil
	}
	contenders := make([]contender, len(candidates))
	for i, c := range candidates {
		contenders[i] = contender{candidate: c}
	}
	slices.SortFunc(contenders, contender.compare)
	turns := map[string]int{}
	for i := range contenders {
		value := contenders[i].member.Labels[p.SpreadKey] // "" if the label or the spread key is not set
		contenders[i].spreadIndex = turns[value]
		turns[value]++
	}
	slices.SortFunc(contenders, contender.compare)
	ordered := make([]candidate, len(contenders))
	for i, c := range contenders {
		ordered[i] = c.candidate
	}
	most := max(0, int(*p.Limit))
	return ordered[:most], ordered[most:]
}

// ranks is the hash from which the order of the clusters for one AppService is derived. Each
// AppService has a different order.
type ranks uint64

func ranksOf(app *v1alpha1.AppService) ranks {
	const offset ranks = 0xcbf29ce484222325
	return offset.with(app.Namespace).with("/").with(app.Name).with("/")
}

// with adds the text to the 64-bit FNV-1a hash.
func (r ranks) with(text string) ranks {
	for i := range len(text) {
		r = (r ^ ranks(text[i])) * 0x100000001b3
	}
	return r
}

// of returns the rank of a cluster. FNV hardly spreads the last letters, in which the names of
// clusters differ, so the finalizer of MurmurHash3 spreads them.
func (r ranks) of(cluster string) uint64 {
	x := uint64(r.with(cluster))
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
