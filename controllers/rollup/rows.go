package rollup

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// detachedGrace is how long a row stays Detached before the deletion of its AppService lets go of it. A
// MemberCluster that was deleted by hand is made again well within it.
const detachedGrace = 30 * time.Second

// draft is the row of one cluster, as it is when nothing more begins to be removed.
type draft struct {
	row      v1alpha1.ClusterStatus
	previous *v1alpha1.ClusterStatus // nil for a new one
	seen     *Observation
	member   *v1alpha1.MemberCluster // nil when it is gone
	leaves   bool                    // it is no longer in the plan, and its removal has not begun
	lowered  *placement.Decision     // what the cluster is to run in the end, when that is less than the row says; else nil
	blockers []string                // the clusters that must become ready before its removal begins
}

// rows returns the new rows, sorted by name: one for each cluster of the plan and each that has one already
// and is not done with. It returns the count of removals, too. The notes are what there is to say of clusters that run more than they are to,
// or are not removed yet.
func (in Input) rows() (rows []v1alpha1.ClusterStatus, counted v1alpha1.RemovalsStatus, notes []string) {
	var drafts []draft
	for _, name := range in.names() {
		if d := in.draft(name); d != nil {
			drafts = append(drafts, *d)
		}
	}
	notes = in.lower(drafts)
	counted, removals := in.remove(drafts)
	notes = append(notes, removals...)
	in.holdBehind(drafts)
	for _, d := range drafts {
		d.row.LastTransitionTime = in.since(d.previous, d.row.Phase)
		rows = append(rows, d.row)
	}
	return rows, counted, notes
}

// since is when the row of a phase came to have it. Two transitions of a row never have the same time, though times
// have whole seconds only: that nothing is left is answered to the row that was Removing since then, and no other.
func (in Input) since(previous *v1alpha1.ClusterStatus, phase v1alpha1.ClusterPhase) metav1.Time {
	switch {
	case previous == nil:
		return in.Now
	case previous.Phase == phase:
		return previous.LastTransitionTime
	case previous.LastTransitionTime.Before(&in.Now):
		return in.Now
	}
	return metav1.NewTime(previous.LastTransitionTime.Add(time.Second))
}

// names are those of the rows there are and of the clusters chosen.
func (in Input) names() []string {
	var names []string
	for _, row := range in.App.Status.Clusters {
		names = append(names, row.Name)
	}
	for _, decision := range in.Plan {
		if decision.Chosen() && !in.deleting() && !in.suspended() && in.Members[decision.Cluster] != nil {
			names = append(names, decision.Cluster)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (in Input) deleting() bool { return !in.App.DeletionTimestamp.IsZero() }

// draft returns the draft of one cluster, or nil when it is done with.
func (in Input) draft(name string) *draft {
	d := draft{row: v1alpha1.ClusterStatus{Name: name}, previous: in.App.Status.Cluster(name), seen: in.observation(name), member: in.Members[name]}
	if d.previous != nil {
		d.row = *d.previous
	}
	var row *v1alpha1.ClusterStatus
	switch decision := in.Plan.Find(name); {
	case d.member == nil:
		row = in.detached(d.row, d.previous)
	case in.deleting(), in.removes(d.row):
		if in.deleting() {
			d.row.Transition = v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemoving, Cause: v1alpha1.CauseDeletion}
		}
		row = in.removing(d.row, d.previous, d.seen, d.member)
	default:
		d.leaves = in.PlanError == nil && !decision.Chosen()
		d.row.Transition = in.departure(&d, decision)
		d.row.Arriving = d.row.Arriving || !d.leaves && d.isNew()
		if in.PlanError == nil && decision.Chosen() && !in.suspended() {
			in.assign(&d, decision)
		}
		row = in.running(d.row, d.previous, d.seen, d.member)
	}
	if row == nil {
		return nil
	}
	d.row = *row
	return &d
}

// removes tells whether a row is Removing and is to go on so.
func (in Input) removes(row v1alpha1.ClusterStatus) bool {
	return row.Phase == v1alpha1.ClusterRemoving && (in.deleting() || in.PlanError != nil || !in.Plan.Find(row.Name).Chosen())
}

// observation of a cluster, unless it was made for another AppService of that name.
func (in Input) observation(cluster string) *Observation {
	seen, found := in.Observations[cluster]
	if !found || seen.UID != in.App.UID {
		return nil
	}
	return &seen
}

// detached is the row of a cluster whose MemberCluster or its Secret is gone. What runs there is left alone, so when the
// AppService is deleted, or somebody says so, it is let go: with a tombstone first, where a MemberCluster can keep one for a removal that
// was decided.
func (in Input) detached(row v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus) *v1alpha1.ClusterStatus {
	if in.maySkip(previous) && !in.needsTombstone(previous) {
		return nil
	}
	if previous.Phase != v1alpha1.ClusterDetached {
		row.Message = "the cluster's Secret is gone; its workload is left running" + lastKnown(previous)
	}
	row.Phase, row.Reason = v1alpha1.ClusterDetached, v1alpha1.ReasonClusterDetached
	return &row
}

// removing is the row of a cluster that is no longer in the plan. It ends when delivery has confirmed, in
// answer to this very row, that nothing is left, or when it is let go of. One that leaves the plan keeps its generation.
func (in Input) removing(row v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	if in.deleting() {
		row.Generation = in.App.Generation
	}
	row.Phase, row.Arriving = v1alpha1.ClusterRemoving, false
	switch {
	case in.letsGo(previous, member):
		return nil
	case !member.IsReady():
		row.Reason, row.Message = v1alpha1.ReasonClusterUnreachable, "it is removed when the cluster can be reached; see MemberCluster "+member.Name
	case seen != nil && answers(*seen, previous):
		return nil
	case seen != nil && seen.Phase == v1alpha1.ClusterRemoving:
		row.Reason, row.Message = cmp.Or(seen.Reason, v1alpha1.ReasonRemoving), bounded(seen.Message)
		row.CurrentReplicas, row.ReadyReplicas, row.Addresses = seen.Replicas, seen.ReadyReplicas, seen.Addresses
	case seen == nil && previous.Phase == v1alpha1.ClusterRemoving && previous.Reason != v1alpha1.ReasonClusterUnreachable:
		// Nothing was seen since the start: it is what the row says already.
	default:
		row.Reason, row.Message = v1alpha1.ReasonRemoving, ""
	}
	return &row
}

// answers tells whether an observation confirms that nothing is left, in answer to this very row.
func answers(seen Observation, row *v1alpha1.ClusterStatus) bool {
	return row.Phase == v1alpha1.ClusterRemoving && !seen.GoneSince.IsZero() && seen.GoneSince.Equal(&row.LastTransitionTime)
}

// running is the row of a cluster in the plan. Of a row that it made it makes the same, or what has become of it when it is to run
// another number of replicas. One that is Ready is never arriving.
func (in Input) running(row v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, seen *Observation, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	switch {
	case !member.IsReady():
		return unknown(row, previous, member)
	case seen != nil:
		observed(&row, *seen)
	case previous == nil || previous.Phase == v1alpha1.ClusterPending || previous.Phase == v1alpha1.ClusterRemoving || previous.Phase == v1alpha1.ClusterDetached:
		row.Phase, row.Reason, row.Message = v1alpha1.ClusterPending, v1alpha1.ReasonPending, ""
	case previous.Phase == v1alpha1.ClusterReady && (row.ObservedGeneration < row.Generation || row.Replicas != previous.Replicas || row.Arriving),
		previous.Phase == v1alpha1.ClusterFailed && in.App.Status.IsHubBehind(),
		in.explainsRemoval(previous): // until it is seen, or explained again
		row.Phase, row.Reason, row.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
	}
	row.Arriving = row.Arriving && row.Phase != v1alpha1.ClusterReady
	return &row
}

// explainsRemoval reports whether a row says of its removal why that waits, and nothing of its workload.
func (in Input) explainsRemoval(previous *v1alpha1.ClusterStatus) bool {
	switch previous.Transition.Type {
	case v1alpha1.TransitionRemovalPending, v1alpha1.TransitionRemovalNeedsApproval:
		return previous.Phase == v1alpha1.ClusterProgressing && !in.suspended() && in.PlanError == nil
	}
	return false
}

// observed fills in the observed half of a row. An answer to another generation, or to another number of replicas, says nothing of the
// present ones but the counts.
func observed(row *v1alpha1.ClusterStatus, seen Observation) {
	row.CurrentReplicas, row.ReadyReplicas, row.Addresses = seen.Replicas, seen.ReadyReplicas, seen.Addresses
	row.ObservedGeneration = max(row.ObservedGeneration, seen.Applied)
	older := seen.Found || seen.Generation < row.Generation || seen.Planned != row.Replicas
	early := seen.Phase == v1alpha1.ClusterReady && (row.ObservedGeneration < row.Generation || row.Arriving && !complete(*row))
	if older || early || seen.Phase == v1alpha1.ClusterRemoving {
		row.Phase, row.Reason, row.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, ""
		return
	}
	row.Phase, row.Reason, row.Message = seen.Phase, seen.Reason, bounded(seen.Message)
}

// unknown is the row of a cluster that cannot be observed: it keeps what was known last.
func unknown(row v1alpha1.ClusterStatus, previous *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) *v1alpha1.ClusterStatus {
	if previous == nil || previous.Phase != v1alpha1.ClusterUnknown {
		row.Message = fmt.Sprintf("MemberCluster %s is not Ready%s", member.Name, lastKnown(previous))
	}
	row.Phase, row.Reason = v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable
	return &row
}

// lastKnown says what a row said, for one that can no longer be observed.
func lastKnown(previous *v1alpha1.ClusterStatus) string {
	if previous == nil || previous.Phase == v1alpha1.ClusterPending {
		return "; nothing was seen there yet"
	}
	if previous.Phase == v1alpha1.ClusterUnknown || previous.Phase == v1alpha1.ClusterDetached {
		if i := strings.LastIndex(previous.Message, "; "); i >= 0 {
			return previous.Message[i:] // that row could not be observed either
		}
		return "" // it was dropped: see limitTexts
	}
	return fmt.Sprintf("; last known: %s, %d of %d replicas ready", previous.Phase, previous.ReadyReplicas, previous.Replicas)
}
