package rollout

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// driftWindow is how long a removal without an edit counts against further removals.
	driftWindow = time.Hour
	// driftBucket is the interval in which removals without an edit share one counter, which keeps
	// the status small.
	driftBucket = 5 * time.Minute
)

// removalBudget counts the removals in progress, and decides how many more may start.
type removalBudget struct {
	in      Input
	counted v1alpha1.RemovalsStatus

	leaving       []*entryPlan // no longer in the plan, removal not started
	blocked       []*entryPlan // of leaving: wait for other clusters to become ready
	waiting       []*entryPlan // of leaving: wait for other removals
	onHold        []*entryPlan // of leaving: wait for a user's approval
	unintended    int32        // clusters that left the plan within an hour, without an edit and without approval
	removing      []string     // removal in progress, reachable
	unreachable   int          // number of unreachable clusters with a removal in progress: they must not block others
	maxConcurrent int32        // limit of concurrent removals, not counting approved removals
	chooses       bool         // whether the plan chooses any cluster
	serving       int          // clusters that are known to be ready and keep running
}

func (in Input) newRemovalBudget(plans []entryPlan, counted v1alpha1.RemovalsStatus) *removalBudget {
	t := &removalBudget{in: in, counted: counted}
	var runs, leaving, removing int32
	for i := range plans {
		e := &plans[i]
		if e.member == nil {
			continue
		}
		if e.entry.ObservedGeneration > 0 { // a cluster that has not applied the AppService yet cannot be spared
			runs++
		}
		if isServing(e) {
			t.serving++
		}
		unintended := isUnintended(e)
		switch {
		case e.leaves:
			t.leaving = append(t.leaving, e)
			if unintended {
				leaving++
			}
		case e.entry.Phase == v1alpha1.ClusterRemoving:
			t.countRemoving(e)
			if unintended && e.member.IsReady() {
				removing++
			}
		default:
			t.chooses = true
		}
	}
	recent := in.recentRemovals(counted)
	t.unintended = leaving + max(recent, removing)
	t.maxConcurrent = max(1, (runs+max(0, recent-removing))/5)
	return t
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
		if in.Now.Sub(count.StartTime.Time) < driftWindow+driftBucket {
			recent = append(recent, count)
		}
	}
	return recent
}

func (in Input) recentRemovals(counted v1alpha1.RemovalsStatus) int32 {
	var sum int32
	for _, count := range in.withinWindow(counted.WithoutEdit) {
		sum += count.Count
	}
	return sum
}

// countRemoving counts a removal in progress.
func (t *removalBudget) countRemoving(e *entryPlan) {
	if e.member.IsReady() {
		t.removing = append(t.removing, e.entry.Name)
	} else {
		t.unreachable++
	}
}

// begin starts the removal from a cluster.
func (t *removalBudget) begin(e *entryPlan) {
	if isUnintended(e) {
		t.countUnintended()
	}
	if isServing(e) {
		t.serving--
	}
	transition := e.entry.Transition
	transition.Type = v1alpha1.TransitionRemoving
	e.entry = *t.in.removingEntry(e.entry, e.previous, e.seen, e.member)
	e.entry.Transition, e.leaves = transition, false
	t.countRemoving(e)
}

// countUnintended counts another removal without an edit.
func (t *removalBudget) countUnintended() {
	counts := t.in.withinWindow(t.counted.WithoutEdit)
	last := len(counts) - 1
	if last >= 0 && t.in.Now.Sub(counts[last].StartTime.Time) < driftBucket {
		counts[last].Count++
	} else {
		counts = append(counts, v1alpha1.RemovalCount{StartTime: metav1.NewTime(t.in.Now.Time), Count: 1})
	}
	t.counted.WithoutEdit = counts
}

// allows reports whether another removal may start. Removals from unreachable clusters do not count
// against removals from reachable ones. But removals from unreachable clusters are limited to the
// same number, because all these clusters may return at the same time.
func (t *removalBudget) allows(e *entryPlan) bool {
	if e.entry.Transition.Accepted {
		return true
	}
	inFlight := len(t.removing)
	if !e.member.IsReady() {
		inFlight += t.unreachable
	}
	return inFlight < int(t.maxConcurrent)
}
