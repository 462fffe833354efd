package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
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

// removalBudget counts the removals in progress, and decides by the removal limit how many more may
// start. docs/decisions/a-fifth-of-the-clusters-is-left-at-a-time.md says why.
type removalBudget struct {
	in      Input
	counted v1alpha1.RemovalsStatus

	leaving       []*entryPlan // no longer in the plan, removal not started
	blocked       []*entryPlan // of leaving: wait for other clusters to become ready
	waiting       []*entryPlan // of leaving: wait for other removals
	onHold        []*entryPlan // of leaving: wait for a user's approval
	unintended    int32        // clusters that left the plan or were scaled down within an hour, without an edit and without approval
	removing      []string     // removal in progress, reachable
	unreachable   int          // number of unreachable clusters with a removal in progress: they must not block others
	maxConcurrent int32        // removal limit: approved removals start regardless of it, but count while they are in progress
	planCanServe  bool         // whether the plan has a cluster on which pods are to run
	serving       int          // clusters that are known to be ready and keep running

	scaledDown     int32 // those of unintended that are or were scaled down
	heldScaleDowns int   // scale-downs that need approval too
}

func (in Input) newRemovalBudget(plans []entryPlan, counted v1alpha1.RemovalsStatus) *removalBudget {
	b := &removalBudget{in: in, counted: counted}
	var clustersThatApplied, unintendedLeaving, unintendedRemoving int32
	for i := range plans {
		e := &plans[i]
		if e.member == nil {
			continue
		}
		if e.entry.ObservedGeneration > 0 { // a new cluster must not raise the limit
			clustersThatApplied++
		}
		if in.isServing(e) {
			b.serving++
		}
		if in.isUnintendedDrain(e) {
			b.scaledDown++
		}
		unintended := isUnintended(e)
		switch {
		case e.isLeaving:
			b.leaving = append(b.leaving, e)
			if unintended {
				unintendedLeaving++
			}
		case e.entry.Phase == v1alpha1.ClusterRemoving:
			b.countRemoving(e)
			if unintended && e.member.IsReady() {
				unintendedRemoving++
			}
		default:
			b.planCanServe = b.planCanServe || in.canServe(e)
		}
	}
	recent := in.recentRemovals(counted)
	b.scaledDown += in.recentScaleDowns(counted)
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

// removals returns the removal counters for the current generation. An approval ends with the
// generation that it names.
func (in Input) removals() v1alpha1.RemovalsStatus {
	counted := in.App.Status.Removals
	if counted.AcceptedGeneration != in.App.Generation {
		counted.Accepted, counted.AcceptedGeneration = 0, 0
	}
	if in.App.Status.ObservedGeneration != in.App.Generation { // the status is written anyway
		counted.WithoutEdit = in.withinWindow(counted.WithoutEdit)
	}
	return counted
}

// withinWindow returns the counts that have not expired.
func (in Input) withinWindow(counts []v1alpha1.RemovalCount) []v1alpha1.RemovalCount {
	var recent []v1alpha1.RemovalCount
	for _, count := range counts {
		if in.Now.Sub(count.StartTime.Time) < withoutEditWindow+withoutEditBucket {
			recent = append(recent, count)
		}
	}
	return recent
}

// recentRemovals returns how many removals without an edit have started within the window.
func (in Input) recentRemovals(counted v1alpha1.RemovalsStatus) int32 {
	var sum int32
	for _, count := range in.withinWindow(counted.WithoutEdit) {
		sum += count.Count
	}
	return sum
}

// recentScaleDowns returns how many scale-downs without an edit have started within the window.
func (in Input) recentScaleDowns(counted v1alpha1.RemovalsStatus) int32 {
	var sum int32
	for _, count := range in.withinWindow(counted.WithoutEdit) {
		sum += count.ScaleDowns
	}
	return sum
}

// countRemoving counts a removal in progress.
func (b *removalBudget) countRemoving(e *entryPlan) {
	if e.member.IsReady() {
		b.removing = append(b.removing, e.entry.Name)
	} else {
		b.unreachable++
	}
}

// begin starts the removal from a cluster.
func (b *removalBudget) begin(e *entryPlan) {
	if isUnintended(e) {
		b.counted = b.in.countWithoutEdit(b.counted, func(count *v1alpha1.RemovalCount) { count.Count++ })
	}
	if b.in.isServing(e) {
		b.serving--
	}
	transition := e.entry.Transition
	transition.Type = v1alpha1.TransitionRemoving
	e.entry = *b.in.removingEntry(e.entry, e.previous, e.seen, e.member)
	e.entry.Transition, e.isLeaving = transition, false
	b.countRemoving(e)
}

// countWithoutEdit returns the counters with another removal or scale-down without an edit.
func (in Input) countWithoutEdit(counted v1alpha1.RemovalsStatus, add func(*v1alpha1.RemovalCount)) v1alpha1.RemovalsStatus {
	counts := in.withinWindow(counted.WithoutEdit)
	if last := len(counts) - 1; last < 0 || in.Now.Sub(counts[last].StartTime.Time) >= withoutEditBucket {
		counts = append(counts, v1alpha1.RemovalCount{StartTime: metav1.NewTime(in.Now.Time)})
	}
	add(&counts[len(counts)-1])
	counted.WithoutEdit = counts
	return counted
}

// allows reports whether another removal may start. Removals from unreachable clusters do not count
// against removals from reachable ones. But removals from unreachable clusters are limited to the
// same number, because all these clusters may return at the same time.
func (b *removalBudget) allows(e *entryPlan) bool {
	if e.entry.Transition.Accepted {
		return true
	}
	inFlight := len(b.removing)
	if !e.member.IsReady() {
		inFlight += b.unreachable
	}
	return inFlight < int(b.maxConcurrent)
}
