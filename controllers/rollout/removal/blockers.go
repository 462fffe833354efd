package removal

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// blockerTimeout is how long removals wait for a surging cluster that is Failed or Unknown, and for
// a candidate that is not Ready.
const blockerTimeout = 10 * time.Minute

// blockers returns the clusters that must become ready before a removal may start: surging clusters
// and, while the plan is below its limit or empty, candidates that are excluded only because they
// are not Ready. A surging cluster that has been Failed or Unknown for blockerTimeout, or that waits
// for its turn in the first rollout, is not a blocker if the plan chooses all matching clusters and
// another cluster is Ready. Otherwise one broken cluster, or a stage without approval, would block
// every removal.
// docs/decisions/surging-is-a-field-of-the-entry.md says why.
func (in Input) blockers(plans []entryplan.Plan) []string {
	if acceptsUnready(in.App) {
		return nil
	}
	var names []string
	anyReady := slices.ContainsFunc(plans, func(e entryplan.Plan) bool { return !e.IsLeaving && e.Entry.Phase == v1alpha1.ClusterReady })
	limited := in.App.Spec.Placement != nil && in.App.Spec.Placement.Limit != nil
	for _, name := range in.shortfall(plans, isSurging).clusters {
		if e := entryplan.Find(plans, name); limited || in.App.DividesReplicas() || !anyReady || !in.hasFailedLong(e) && !in.awaitsTurn(e) {
			names = append(names, name)
		}
	}
	names = append(names, in.pendingCandidates()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// hasFailedLong reports whether a cluster has been Failed or Unknown for at least blockerTimeout.
func (in Input) hasFailedLong(e *entryplan.Plan) bool {
	bad := e.Entry.Phase == v1alpha1.ClusterFailed || e.Entry.Phase == v1alpha1.ClusterUnknown
	return bad && e.Previous != nil && e.Previous.Phase == e.Entry.Phase && in.Now.Sub(e.Previous.LastTransitionTime.Time) >= blockerTimeout
}

// awaitsTurn reports whether a cluster has no revision yet.
func (in Input) awaitsTurn(e *entryplan.Plan) bool { return in.HasRevision && e.Entry.Revision == 0 }

// pendingCandidates returns the clusters that the plan would choose if they were Ready. While the
// plan chooses no cluster, it returns all of them. While the plan chooses fewer than its limit, it
// returns those before their readyDeadline.
func (in Input) pendingCandidates() []string {
	chosen := 0
	for _, decision := range in.Plan {
		if decision.Chosen() {
			chosen++
		}
	}
	p := in.App.Spec.Placement
	switch {
	case chosen == 0:
		return append(in.NotReadyCandidates(false), in.notJoined()...)
	case p != nil && p.Limit != nil && chosen < int(*p.Limit):
		return in.NotReadyCandidates(true)
	}
	return nil
}

// NotReadyCandidates returns the clusters that are excluded only because they are not Ready. If
// withinDeadline is set, it omits those past their readyDeadline.
func (in Input) NotReadyCandidates(withinDeadline bool) []string {
	var names []string
	for _, decision := range in.Plan {
		member := in.Members[decision.Cluster]
		if decision.Reason != v1alpha1.ReasonClusterNotReady || member == nil {
			continue
		}
		if !withinDeadline || in.Now.Time.Before(readyDeadline(member)) {
			names = append(names, decision.Cluster)
		}
	}
	return names
}

// notJoined returns the clusters that match the placement and are not in the fleet: clusters in
// spec.placement.clusterNames that have no MemberCluster yet, and clusters whose Secret is missing.
func (in Input) notJoined() []string {
	var names []string
	for _, decision := range in.Plan {
		if decision.Reason == v1alpha1.ReasonNoSuchCluster || decision.Reason == v1alpha1.ReasonSecretMissing {
			names = append(names, decision.Cluster)
		}
	}
	return names
}

// readyDeadline returns the time until which a MemberCluster that is not Ready is expected to
// become Ready.
func readyDeadline(member *v1alpha1.MemberCluster) time.Time {
	ready := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil { // it has never been Ready
		return time.Time{}
	}
	return ready.LastTransitionTime.Add(blockerTimeout)
}

// acceptsUnready reports whether the annotation accept-unready ends the wait for surging clusters.
func acceptsUnready(app *v1alpha1.AppService) bool {
	return app.Annotations[v1alpha1.AnnotationAcceptUnready] == "true"
}
