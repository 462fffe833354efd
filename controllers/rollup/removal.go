package rollup

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// heldBefore is what a row says that was held, while nothing can be decided.
const heldBefore = "no longer fitted when that could last be told: it is kept until that is acknowledged by annotation " + v1alpha1.AnnotationAcceptRemovals

// remove begins the removal from clusters that are no longer in the plan, from so many at a time as may be, in order of name, and says on
// the others why not yet. It returns what there is to say of them all together.
//
// A row that leaves the plan keeps its generation. So one that is older than the AppService leaves because of an edit: it
// waits for its turn. One of the present generation leaves because members changed, their labels say, which may be an
// accident: when that would take it from more clusters than may be removed at once, none of them goes until somebody says so.
//
// None goes either before what is new on other clusters is ready there, unless somebody says so: else it could run on fewer clusters than before, or
// on none.
func (in Input) remove(drafts []draft) []string {
	if in.suspended() || in.PlanError != nil {
		in.keepHeld(drafts)
		return nil
	}
	t := in.tally(drafts)
	if len(t.leaving) == 0 {
		return nil
	}
	arriving := in.awaited(drafts)
	for _, d := range t.leaving {
		lost := !d.member.IsReady() && in.abandons(d.row.Name)
		switch {
		case in.drifted(d) && (t.drifting > t.most || unmeant(d) && t.accepted < t.drifting):
			t.held = append(t.held, d)
		case lost || len(arriving) == 0 && t.admits(d.member.IsReady()):
			d.row = *in.removing(*d.previous, d.previous, d.seen, d.member)
			t.begin(d)
		default:
			t.waiting = append(t.waiting, d)
		}
	}
	return t.explain(arriving)
}

// explain says on rows why they are not being removed yet, and returns what there is to say of them all together.
func (t *tally) explain(arriving []string) []string {
	var notes []string
	waiting, held := clusters(int32(len(t.waiting))), clusters(int32(len(t.held)))
	switch {
	case len(t.waiting) == 0:
	case len(arriving) > 0:
		keep(t.waiting, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf("it is removed when it is ready on: %s%s", capped(arriving), t.complaint))
		notes = append(notes, fmt.Sprintf("it waits to be removed from %s until it is ready on: %s", waiting, capped(arriving)))
	default:
		slices.Sort(t.removing)
		keep(t.waiting, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf("it is removed after %s: from no more than %d at a time%s", capped(t.removing), t.most, t.complaint))
		notes = append(notes, fmt.Sprintf("it waits to be removed from %s, no more than %d at a time", waiting, t.most))
	}
	if len(t.held) > 0 {
		keep(t.held, v1alpha1.ReasonRemovalHeld, fmt.Sprintf("no longer fits, as %s in all: annotate the AppService with %s=%d to let it be removed%s",
			clusters(t.drifting), v1alpha1.AnnotationAcceptRemovals, t.drifting, t.complaint))
		notes = append(notes, fmt.Sprintf("it is kept on %s until it is annotated with %s=%d", held, v1alpha1.AnnotationAcceptRemovals, t.drifting))
	}
	if len(notes) > 0 && t.complaint != "" {
		notes = append(notes, t.complaint[len("; "):])
	}
	return notes
}

// keepHeld keeps, while it is suspended or there is no plan, the mark by which unmeant knows what was held before: it must be there when
// there is something to decide again.
func (in Input) keepHeld(drafts []draft) {
	for i := range drafts {
		d := &drafts[i]
		held := d.previous != nil && (d.previous.Reason == v1alpha1.ReasonRemovalHeld || d.leaves && d.previous.Phase == v1alpha1.ClusterDetached)
		if held && planned(d.row) && (d.leaves || in.PlanError != nil) {
			keep([]*draft{d}, v1alpha1.ReasonRemovalHeld, heldBefore)
		}
	}
}

// drifted tells whether a row that leaves the plan does so though the AppService was not edited.
func (in Input) drifted(d *draft) bool { return d.row.Generation == in.App.Generation || unmeant(d) }

// unmeant tells whether a row leaves the plan in a way that nobody can have meant: it was found on a member, or its MemberCluster was gone and
// is back, or it was held before. It waits for somebody's word, though it may be the only one, and whatever else is edited.
func unmeant(d *draft) bool {
	if d.previous == nil {
		return false
	}
	found := d.previous.Generation == 0
	return found || d.previous.Phase == v1alpha1.ClusterDetached || d.previous.Reason == v1alpha1.ReasonRemovalHeld
}

// tally counts what decides how many clusters may be left.
type tally struct {
	leaving   []*draft // no longer in the plan, and not being removed yet
	waiting   []*draft // of those, what waits for its turn, or for what arrives elsewhere
	held      []*draft // of those, what waits for somebody's word
	drifting  int32    // of those, and of those being removed, how many leave without an edit
	removing  []string // being removed, from clusters that can be reached
	lost      int      // to be removed from clusters that cannot be reached: they must not keep others waiting
	most      int32    // so many may be removed from at a time
	accepted  int32    // of them by annotation
	complaint string   // on an annotation that cannot be understood
}

func (in Input) tally(drafts []draft) tally {
	var t tally
	var runs int32
	for i := range drafts {
		d := &drafts[i]
		if d.member == nil {
			continue
		}
		if d.row.ObservedGeneration > 0 { // a cluster that has yet to take it on is none that could be spared
			runs++
		}
		switch {
		case d.leaves:
			t.leaving = append(t.leaving, d)
		case d.row.Phase == v1alpha1.ClusterRemoving:
			t.begin(d)
		}
		if in.drifted(d) && (d.leaves || d.row.Phase == v1alpha1.ClusterRemoving && d.member.IsReady()) {
			t.drifting++
		}
	}
	accepted, complaint := in.acceptedRemovals()
	t.most, t.accepted, t.complaint = max(1, runs/5, accepted), accepted, complaint
	return t
}

// begin notes that the removal from a cluster has begun.
func (t *tally) begin(d *draft) {
	if d.member.IsReady() {
		t.removing = append(t.removing, d.row.Name)
	} else {
		t.lost++
	}
}

// admits tells whether the removal from one more cluster may begin. The lost ones take no place from those that can be reached; but
// only so many become Removing, for all may be back at the same time.
func (t *tally) admits(reachable bool) bool {
	busy := len(t.removing)
	if !reachable {
		busy += t.lost
	}
	return busy < int(t.most)
}

// acceptedRemovals is the number in the annotation, or 0 and what is wrong with it.
func (in Input) acceptedRemovals() (accepted int32, complaint string) {
	value, found := in.App.Annotations[v1alpha1.AnnotationAcceptRemovals]
	if !found {
		return 0, ""
	}
	number, err := strconv.ParseInt(value, 10, 32)
	if err != nil || number < 1 {
		return 0, fmt.Sprintf("; annotation %s is %.32q, not a number of one or more", v1alpha1.AnnotationAcceptRemovals, value)
	}
	return int32(number), ""
}

// keep says on rows why they are not being removed yet. What cannot be observed stays Unknown, and a failure that may last is not
// hidden by what may last too.
func keep(drafts []*draft, reason, message string) {
	for _, d := range drafts {
		if held := reason == v1alpha1.ReasonRemovalHeld; held && (d.row.Phase == v1alpha1.ClusterFailed || d.row.Phase == v1alpha1.ClusterUnknown) {
			d.row.Reason = reason // by which it is known to be held
			continue
		} else if d.row.Phase == v1alpha1.ClusterUnknown {
			continue
		}
		if d.row.Phase != v1alpha1.ClusterPending { // of which nothing is known still
			d.row.Phase = v1alpha1.ClusterProgressing
		}
		d.row.Reason, d.row.Message = reason, bounded(message)
	}
}
