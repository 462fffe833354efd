package placement

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// standing orders clusters for a limit, which takes the lowest first, so that what runs stays where it runs.
type standing int

const (
	running        standing = iota // in the plan
	starting                       // in the plan, and the cluster has taken on nothing yet
	removalPending                 // left the plan, and not being removed yet
	removing                       // being removed
	newcomer                       // nothing there
)

// standingOf returns the standing of a cluster with this entry. A cluster of the plan ranks before every cluster outside of it, whatever
// runs on either: otherwise the two would change places for ever.
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

// contender is a candidate for one of the places that a limit leaves.
type contender struct {
	candidate
	spreadIndex int // how many with the same value of the spread label come before it
}

func (a contender) compare(b contender) int {
	return cmp.Or(cmp.Compare(a.standing, b.standing), cmp.Compare(a.spreadIndex, b.spreadIndex), cmp.Compare(a.rank, b.rank), cmp.Compare(a.member.Name, b.member.Name))
}

// limit returns the candidates that the placement's limit takes, and the others.
//
// To take again and again from the value that has the fewest so far is to take by turn: all the firsts of their values come before all the
// seconds. A cluster's turn counts those of a better standing too, for it has its turn only when they are all taken.
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
		value := contenders[i].member.Labels[p.SpreadKey] // "" without the label, or the key
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

// ranks order clusters for one AppService, and otherwise for each.
type ranks uint64

func ranksOf(app *v1alpha1.AppService) ranks {
	const offset ranks = 0xcbf29ce484222325
	return offset.with(app.Namespace).with("/").with(app.Name).with("/")
}

// with goes on with a 64-bit FNV-1a hash.
func (r ranks) with(text string) ranks {
	for i := range len(text) {
		r = (r ^ ranks(text[i])) * 0x100000001b3
	}
	return r
}

// of is the rank of a cluster. FNV hardly spreads the last letters, by which clusters differ: the finalizer of MurmurHash3 does.
func (r ranks) of(cluster string) uint64 {
	x := uint64(r.with(cluster))
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
