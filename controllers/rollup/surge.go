package rollup

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// divided tells whether the clusters run the replicas together.
func (in Input) divided() bool {
	policy := in.App.Spec.ReplicaPolicy
	return policy != nil && policy.Type == v1alpha1.ReplicasDivided
}

// isNew tells whether what the cluster is to run begins from nothing, or from what nobody has looked after. A row that was recovered is not
// new: what it is about was found running.
func (d *draft) isNew() bool {
	return d.previous == nil || d.previous.Phase == v1alpha1.ClusterRemoving || d.previous.Phase == v1alpha1.ClusterDetached
}

// assign gives a row what was decided for its cluster: what is more at once, what is less when all rows are known, by lower. Only a
// division moves replicas from one cluster to another: where each cluster runs all of them, an edit changes all clusters alike, and
// nothing waits.
func (in Input) assign(d *draft, decision placement.Decision) {
	d.row.Generation, d.row.Weight = in.App.Generation, decision.Weight
	if in.mayWait(d, decision) {
		d.lowered = &decision
		d.row.Transition = v1alpha1.ClusterTransition{Type: v1alpha1.TransitionScaleDownPending, Cause: in.scaleDownCause(d)}
		return
	}
	d.row.Transition = v1alpha1.ClusterTransition{}
	had, began := wanted(d.row), d.row.Replicas
	take(&d.row, decision)
	d.row.Arriving = d.row.Arriving || in.divided() && d.previous != nil && d.previous.Generation > 0 && wanted(d.row) > had
	settled := d.previous != nil && d.previous.Generation == in.App.Generation // a later edit says anew what it begins with
	if (d.row.Arriving || settled) && !in.divided() && (in.App.Spec.ExternallyScaled || decision.MaxReplicas > 0) {
		d.row.Replicas = in.begins(d, decision, began)
	}
}

// mayWait reports whether the cluster is to run less, and may have to wait with that. One that is being removed keeps nothing.
func (in Input) mayWait(d *draft, decision placement.Decision) bool {
	if d.previous == nil || d.previous.Phase == v1alpha1.ClusterRemoving {
		return false
	}
	return in.divided() && in.lowers(d.row, decision) || in.empties(d, decision)
}

// begins is with how many replicas an autoscaled workload begins on a cluster: with as many as it has where it leaves, for what
// it serves there comes here. Until that has arrived it stays so, and
// until the next edit.
func (in Input) begins(d *draft, decision placement.Decision, began int32) int32 {
	if d.isNew() {
		began = 0
		for _, row := range in.App.Status.Clusters {
			if planned(row) && !in.Plan.Find(row.Name).Chosen() {
				began = max(began, row.CurrentReplicas)
			}
		}
	}
	if decision.MaxReplicas > 0 {
		began = min(began, decision.MaxReplicas)
	}
	return max(began, decision.Replicas)
}

// lowers tells whether a row is to run less. Bounds of an autoscaler that spec.autoscaling asks for no more are none to be kept.
func (in Input) lowers(row v1alpha1.ClusterStatus, decision placement.Decision) bool {
	if in.App.Spec.Autoscaling == nil {
		return decision.Replicas < row.Replicas
	}
	return decision.MinReplicas < row.MinReplicas || decision.MaxReplicas < row.MaxReplicas ||
		decision.MaxReplicas == 0 && decision.Replicas < row.Replicas
}

// take has a row run what was decided.
func take(row *v1alpha1.ClusterStatus, decision placement.Decision) {
	row.Replicas, row.MinReplicas, row.MaxReplicas = decision.Replicas, decision.MinReplicas, decision.MaxReplicas
}

// wanted is how many replicas must be ready for all of a row to be: where an autoscaler has bounds, the least.
func wanted(row v1alpha1.ClusterStatus) int32 {
	if row.MaxReplicas > 0 {
		return row.MinReplicas
	}
	return row.Replicas
}

// complete tells whether as many replicas are ready as a row wants. A Deployment that is Ready with fewer pods than that has an autoscaler
// of the member's own, which would never let it have as many.
func complete(row v1alpha1.ClusterStatus) bool {
	return row.ReadyReplicas >= wanted(row) || row.MaxReplicas == 0 && row.CurrentReplicas < row.Replicas && row.ReadyReplicas >= row.CurrentReplicas
}

// shortfall is what is not ready yet on clusters of the plan.
type shortfall struct {
	clusters []string // where replicas are to become ready
	shortage int64    // how many replicas are to become ready
	covered  int64    // how many are ready on the clusters that leave, which stay until all others are ready
}

// ready is how many replicas of a row are known to be. What was known before its cluster could no longer be observed, or was let go of, is no
// reason to take anything from others.
func ready(row v1alpha1.ClusterStatus) int32 {
	if row.Phase == v1alpha1.ClusterUnknown || row.Phase == v1alpha1.ClusterPending {
		return 0
	}
	return row.ReadyReplicas
}

// shortfall returns what is not ready yet on the clusters that count. A cluster that is itself to run less counts with what it is to run in
// the end: it does not wait for itself.
func (in Input) shortfall(drafts []draft, counts func(*draft) bool) shortfall {
	var f shortfall
	for i := range drafts {
		d := &drafts[i]
		switch {
		case !planned(d.row):
		case d.leaves:
			f.covered += int64(min(ready(d.row), d.row.Replicas))
		case counts(d):
			final := d.row
			if d.lowered != nil {
				take(&final, *d.lowered)
			}
			wants := wanted(final)
			if missing := wants - min(wants, ready(d.row)); missing > 0 || d.row.Arriving && wants > 0 {
				f.clusters = append(f.clusters, d.row.Name)
				f.shortage += int64(missing)
			}
		}
	}
	return f
}

// isArriving reports whether the cluster has new replicas that are not all ready.
func isArriving(d *draft) bool { return d.row.Arriving }

// waitsForNone tells whether somebody said not to wait for what arrives.
func (in Input) waitsForNone() bool {
	return in.App.Annotations[v1alpha1.AnnotationAcceptUnready] == "true"
}

// arrivalPatience is how long what leaves a cluster waits for one that has failed, or is lost.
const arrivalPatience = 10 * time.Minute

// awaited are the clusters that what leaves others waits for: those where it arrives; and, where the plan has fewer clusters than it shall, those
// that would take it were they Ready. One that has failed for long is waited for no more, where it is but one more of all clusters and others
// are Ready: it would keep every cluster from ever being left.
func (in Input) awaited(drafts []draft) []string {
	if in.waitsForNone() {
		return nil
	}
	var names []string
	anyReady := slices.ContainsFunc(drafts, func(d draft) bool { return !d.leaves && d.row.Phase == v1alpha1.ClusterReady })
	limited := in.App.Spec.Placement != nil && in.App.Spec.Placement.Limit != nil
	for _, name := range in.shortfall(drafts, isArriving).clusters {
		i := slices.IndexFunc(drafts, func(d draft) bool { return d.row.Name == name })
		if limited || in.divided() || !anyReady || !in.hasFailedLong(&drafts[i]) {
			names = append(names, name)
		}
	}
	names = append(names, in.takers()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// hasFailedLong tells whether a row has been Failed or Unknown for longer than is waited for it.
func (in Input) hasFailedLong(d *draft) bool {
	bad := d.row.Phase == v1alpha1.ClusterFailed || d.row.Phase == v1alpha1.ClusterUnknown
	return bad && d.previous != nil && d.previous.Phase == d.row.Phase && in.Now.Sub(d.previous.LastTransitionTime.Time) >= arrivalPatience
}

// takers returns the clusters that would take what leaves others, if they were Ready: while the plan chooses no cluster; and, for a while, while it
// chooses fewer than its limit.
func (in Input) takers() []string {
	chosen := 0
	for _, decision := range in.Plan {
		if decision.Chosen() {
			chosen++
		}
	}
	p := in.App.Spec.Placement
	switch {
	case chosen == 0:
		return append(in.unready(false), in.notJoined()...)
	case p != nil && p.Limit != nil && chosen < int(*p.Limit):
		return in.unready(true)
	}
	return nil
}

// unready are the clusters that it is not placed on only because they are not Ready; those that were a while ago, if lately is set.
func (in Input) unready(lately bool) []string {
	var names []string
	for _, decision := range in.Plan {
		member := in.Members[decision.Cluster]
		if decision.Reason != v1alpha1.ReasonClusterNotReady || member == nil {
			continue
		}
		if !lately || in.Now.Time.Before(patience(member)) {
			names = append(names, decision.Cluster)
		}
	}
	return names
}

// notJoined returns the clusters that the placement fits and that are not in the fleet: spec.placement.clusterNames lists them and they have no
// MemberCluster yet, or their Secret is missing.
func (in Input) notJoined() []string {
	var names []string
	for _, decision := range in.Plan {
		if decision.Reason == v1alpha1.ReasonNoSuchCluster || decision.Reason == v1alpha1.ReasonSecretMissing {
			names = append(names, decision.Cluster)
		}
	}
	return names
}

// patience returns until when a MemberCluster that is not Ready counts as one that will be soon.
func patience(member *v1alpha1.MemberCluster) time.Time {
	ready := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil { // it has never been
		return time.Time{}
	}
	return ready.LastTransitionTime.Add(arrivalPatience)
}

// dropUnready takes from a row whose own replicas are still to become ready those of them that it is not to have in the end, for
// keeping them would keep nothing running.
func (in Input) dropUnready(d *draft) {
	if d.row.Arriving && in.App.Spec.Autoscaling == nil {
		fewer := d.row
		fewer.Replicas = max(d.lowered.Replicas, min(ready(d.row), d.row.Replicas))
		in.replan(d, fewer)
	}
}

// replan makes the row of a draft anew, now that it is known what it is to run.
func (in Input) replan(d *draft, row v1alpha1.ClusterStatus) {
	d.row = *in.running(row, d.previous, d.seen, d.member)
}
