package rollup

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// driftWindow is for how long a removal without an edit counts against further ones.
	driftWindow = time.Hour
	// driftBucket is the time within which such removals are counted as one number, which keeps the status small.
	driftBucket = 5 * time.Minute
)

// tally counts the removals that are under way, and decides how many more may begin.
type tally struct {
	in      Input
	drafts  []draft
	counted v1alpha1.RemovalsStatus

	leaving    []*draft // no longer in the plan, and not being removed yet
	blocked    []*draft // of those: wait for other clusters to become ready
	waiting    []*draft // of those: wait for their turn
	held       []*draft // of those: wait for somebody to accept them
	unintended int32    // clusters that left the plan without an edit, within an hour, and that nobody accepted
	removing   []string // being removed, and can be reached
	lost       int      // being removed, and cannot be reached: they must not keep others waiting
	most       int32    // how many may be removed from at a time, beside those accepted
	chooses    bool     // the plan chooses a cluster
}

func (in Input) tally(drafts []draft, counted v1alpha1.RemovalsStatus) *tally {
	t := &tally{in: in, drafts: drafts, counted: counted}
	var runs, leaving, removing int32
	for i := range drafts {
		d := &drafts[i]
		if d.member == nil {
			continue
		}
		if d.row.ObservedGeneration > 0 { // one that has yet to take it on cannot be spared
			runs++
		}
		unintended := isUnintended(d)
		switch {
		case d.leaves:
			t.leaving = append(t.leaving, d)
			if unintended {
				leaving++
			}
		case d.row.Phase == v1alpha1.ClusterRemoving:
			t.countRemoving(d)
			if unintended && d.member.IsReady() {
				removing++
			}
		default:
			t.chooses = true
		}
	}
	recent := in.recentRemovals(counted)
	t.unintended = leaving + max(recent, removing)
	t.most = max(1, (runs+max(0, recent-removing))/5)
	return t
}

// removals returns the count of removals as far as it is about the present: somebody's acceptance ends with the generation that it is about.
func (in Input) removals() v1alpha1.RemovalsStatus {
	counted := in.App.Status.Removals
	if counted.AcceptedGeneration != in.App.Generation {
		counted.Accepted, counted.AcceptedGeneration = 0, 0
	}
	if in.App.Status.ObservedGeneration != in.App.Generation { // it is written anyhow
		counted.WithoutEdit = in.withinWindow(counted.WithoutEdit)
	}
	return counted
}

// withinWindow returns the counts that are not over.
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

// countRemoving counts a removal that is under way.
func (t *tally) countRemoving(d *draft) {
	if d.member.IsReady() {
		t.removing = append(t.removing, d.row.Name)
	} else {
		t.lost++
	}
}

// begin begins the removal from a cluster.
func (t *tally) begin(d *draft) {
	if isUnintended(d) {
		t.countUnintended()
	}
	transition := d.row.Transition
	transition.Type = v1alpha1.TransitionRemoving
	d.row = *t.in.removing(d.row, d.previous, d.seen, d.member)
	d.row.Transition, d.leaves = transition, false
	t.countRemoving(d)
}

// countUnintended counts one more removal without an edit.
func (t *tally) countUnintended() {
	counts := t.in.withinWindow(t.counted.WithoutEdit)
	last := len(counts) - 1
	if last >= 0 && t.in.Now.Sub(counts[last].StartTime.Time) < driftBucket {
		counts[last].Count++
	} else {
		counts = append(counts, v1alpha1.RemovalCount{StartTime: metav1.NewTime(t.in.Now.Time), Count: 1})
	}
	t.counted.WithoutEdit = counts
}

// admits reports whether the removal from one more cluster may begin. Lost clusters take no place from those that can be reached; but
// only so many become Removing, because all may be back at the same time.
func (t *tally) admits(d *draft) bool {
	if d.row.Transition.Accepted {
		return true
	}
	busy := len(t.removing)
	if !d.member.IsReady() {
		busy += t.lost
	}
	return busy < int(t.most)
}

// needsAcknowledgement reports whether the removal is held until somebody accepts it. One that is held because clusters changed stays held,
// even when it is the only one left, and whatever is edited.
func (t *tally) needsAcknowledgement(d *draft) bool {
	switch transition := d.row.Transition; {
	case !isUnintended(d):
		return false
	case transition.Cause == v1alpha1.CauseDrift:
		return transition.Type == v1alpha1.TransitionRemovalNeedsApproval || t.unintended > t.most
	}
	return true
}

// isLast reports whether the plan chooses no cluster, and no other than this is known to be ready.
func (t *tally) isLast(d *draft) bool {
	if t.chooses || !mayServe(d) {
		return false
	}
	return !slices.ContainsFunc(t.drafts, func(other draft) bool { return other.row.Name != d.row.Name && serves(&other) })
}

// acknowledge marks the removals that the annotation accepts: those that are held, when it covers all of them, and then those that wait.
func (t *tally) acknowledge() {
	number, _ := t.in.acceptedRemovals()
	left := int(number - t.counted.Accepted)
	var asking, others []*draft
	for _, d := range t.leaving {
		switch {
		case d.row.Transition.Accepted:
		case t.needsAcknowledgement(d), t.isLast(d):
			asking = append(asking, d)
		default:
			others = append(others, d)
		}
	}
	if left <= 0 || left < len(asking) {
		return
	}
	all := slices.Concat(asking, others)
	for _, d := range all[:min(left, len(all))] {
		if isUnintended(d) {
			t.unintended--
		}
		d.row.Transition.Accepted = true
		t.counted.Accepted++
		t.counted.AcceptedGeneration = t.in.App.Generation
	}
}

// acceptedRemovals returns how many removals the annotation accepts at the present generation, or 0 and what is wrong with its value.
func (in Input) acceptedRemovals() (accepted int32, complaint string) {
	value, found := in.App.Annotations[v1alpha1.AnnotationAcceptRemovals]
	if !found {
		return 0, ""
	}
	count, of, _ := strings.Cut(value, "@")
	number, err := strconv.ParseInt(count, 10, 32)
	generation, generationErr := strconv.ParseInt(of, 10, 64)
	switch {
	case err != nil || generationErr != nil || number < 1:
		return 0, fmt.Sprintf("is %.32q, not NUMBER@GENERATION", value)
	case generation != in.App.Generation:
		return 0, fmt.Sprintf("is %.32q, and the AppService is at generation %d", value, in.App.Generation)
	}
	return int32(number), ""
}

// toAccept is the annotation that accepts the removals that are held; without any, those that wait for their turn or for other clusters.
func (t *tally) toAccept() string {
	number := len(t.held)
	if number == 0 {
		number = len(t.waiting) + len(t.blocked)
	}
	return t.acceptance(number)
}

// acceptance returns the annotation that accepts so many more removals.
func (t *tally) acceptance(more int) string {
	return fmt.Sprintf("%s=%d@%d", v1alpha1.AnnotationAcceptRemovals, int(t.counted.Accepted)+more, t.in.App.Generation)
}

func removals(n int) string {
	if n == 1 {
		return "1 removal"
	}
	return fmt.Sprintf("%d removals", n)
}

// complaint says what is wrong with the annotation, and what to set instead.
func (t *tally) complaint() string {
	_, wrong := t.in.acceptedRemovals()
	if wrong == "" {
		return ""
	}
	return fmt.Sprintf("; annotation %s %s: set %s", v1alpha1.AnnotationAcceptRemovals, wrong, t.toAccept())
}
