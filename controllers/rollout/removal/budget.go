package removal

import (
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

const (
	// clustersPerRemoval is the divisor of the removal limit: removals may run from a fifth of the
	// clusters at the same time.
	clustersPerRemoval = 5
	// withoutEditWindow is how long a removal without an edit counts against further removals.
	withoutEditWindow = time.Hour
	// withoutEditBucket is the interval in which removals without an edit share one counter, which
	// keeps the status small.
	withoutEditBucket = 5 * time.Minute
)

// budget counts the removals in progress, and decides by the removal limit how many more may
// start.
// docs/decisions/a-fifth-of-the-clusters-is-left-at-a-time.md says why.
type budget struct {
	in      Input
	counted *counters

	leaving       []*entryplan.Plan // no longer in the plan, removal not started
	blocked       []*entryplan.Plan // of leaving: wait for other clusters to become ready
	waiting       []*entryplan.Plan // of leaving: wait for other removals
	onHold        []*entryplan.Plan // of leaving: wait for a user's approval
	unintended    int32             // clusters that left the plan or were scaled down within an hour, without an edit and without approval
	removing      []string          // removal in progress, reachable
	unreachable   int               // number of unreachable clusters with a removal in progress: they must not block others
	maxConcurrent int32             // removal limit: approved removals start regardless of it, but count while they are in progress
	planCanServe  bool              // whether the plan has a cluster on which pods are to run
	serving       int               // clusters that are known to be ready and keep running

	blockers map[string][]string // the clusters that must become ready before a removal starts, by cluster of leaving

	scaledDown     int32 // those of unintended that are or were scaled down
	heldScaleDowns int   // scale-downs that need approval too
}

func newBudget(in Input, plans []entryplan.Plan, counted *counters) *budget {
	b := &budget{in: in, counted: counted, blockers: map[string][]string{}}
	var clustersThatApplied, unintendedLeaving, unintendedRemoving int32
	for i := range plans {
		e := &plans[i]
		if e.Member == nil {
			continue
		}
		if e.Entry.ObservedGeneration > 0 { // a new cluster must not raise the limit
			clustersThatApplied++
		}
		if isServing(in.App, e) {
			b.serving++
		}
		if isUnintendedDrain(in.App, e) {
			b.scaledDown++
		}
		unintended := isUnintended(e)
		switch {
		case e.IsLeaving:
			b.leaving = append(b.leaving, e)
			if unintended {
				unintendedLeaving++
			}
		case e.Entry.Phase == v1alpha1.ClusterRemoving:
			b.countRemoving(e)
			if unintended && e.Member.IsReady() {
				unintendedRemoving++
			}
		default:
			b.planCanServe = b.planCanServe || canServe(in.App, e)
		}
	}
	recent := counted.recentRemovals()
	b.scaledDown += counted.recentScaleDowns()
	b.unintended = unintendedLeaving + max(recent, unintendedRemoving) + b.scaledDown
	// The removal limit is a fifth of the clusters that have applied the AppService, and at least
	// one, so that an AppService on fewer than five clusters can leave them. A cluster whose
	// removal without an edit has ended within the window still counts among these clusters.
	// Otherwise each removal that ends would lower the limit, and removals that were allowed
	// together would need approval.
	recentlyEnded := max(0, recent-unintendedRemoving)
	b.maxConcurrent = max(1, (clustersThatApplied+recentlyEnded)/clustersPerRemoval)
	return b
}

// countRemoving counts a removal in progress.
func (b *budget) countRemoving(e *entryplan.Plan) {
	if e.Member.IsReady() {
		b.removing = append(b.removing, e.Entry.Name)
	} else {
		b.unreachable++
	}
}

// begin starts the removal from a cluster.
func (b *budget) begin(e *entryplan.Plan) {
	if isUnintended(e) {
		b.counted.countWithoutEdit(func(count *v1alpha1.RemovalCount) { count.Count++ })
	}
	if isServing(b.in.App, e) {
		b.serving--
	}
	e.BeginRemoval()
	b.countRemoving(e)
}

// allows reports whether another removal may start. Removals from unreachable clusters do not count
// against removals from reachable ones. But removals from unreachable clusters are limited to the
// same number, because all these clusters may return at the same time.
func (b *budget) allows(e *entryplan.Plan) bool {
	if e.Entry.Transition.Accepted {
		return true
	}
	inFlight := len(b.removing)
	if !e.Member.IsReady() {
		inFlight += b.unreachable
	}
	return inFlight < int(b.maxConcurrent)
}
