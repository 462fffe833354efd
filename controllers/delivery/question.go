package delivery

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// awaitsAnswer reports whether nothing may be applied before the planner has answered. It asks the
// planner then, by what it reports.
func (r *reconciler) awaitsAnswer(ctx context.Context, t task) (isWaiting bool, result reconcile.Result, err error) {
	if isWaiting, result, err := r.awaitsRevision(ctx, t); isWaiting {
		return true, result, err
	}
	if r.mayCreate(t) {
		return false, reconcile.Result{}, nil
	}
	r.report(t, observation.Observation{
		Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Missing: true,
		Message: "the workload is missing; it is created when all clusters of the AppService have reported what they have, or after half a minute",
	})
	return true, reconcile.Result{}, nil // the entry will say when it may be created
}

// mayCreate reports whether objects may be created on the member. A missing Deployment is created
// if this process has seen or created it since the current look, if the AppService or the entry is
// new since then, or if the planner has answered. Where the first delivery failed, nothing is
// missing: it is tried again, and a restart does not change the entry.
// docs/decisions/a-missing-workload-is-a-question.md says why.
func (r *reconciler) mayCreate(t task) bool {
	look := r.looks.of(t.app.UID).ID
	may := t.objects.deployment != nil || t.memory.seenSince == look ||
		t.entry.Recreate == look || r.looks.isNew(t.app.UID, r.cluster) ||
		t.entry.Phase == v1alpha1.ClusterFailed && t.entry.ObservedGeneration == 0
	if may {
		t.memory.seenSince = look
		r.looks.forgetEntry(t.app.UID, r.cluster)
	}
	return may
}

// awaitsRevision reports whether the Deployment must not be changed yet, because the first look at
// it shows that a restore of the hub has taken back the revision of the entry. The planner decides
// then whether the entry takes over what the cluster runs, or answers in the entry that the
// Deployment is to be changed.
func (r *reconciler) awaitsRevision(ctx context.Context, t task) (isWaiting bool, result reconcile.Result, err error) {
	look := r.looks.of(t.app.UID).ID
	if t.memory.seenSince == look || t.entry.Recreate == look || !isTakenBack(t.app, t.entry, t.objects) {
		return false, reconcile.Result{}, nil
	}
	isConfirmed, err := r.confirmer.isTakenBack(ctx, t)
	if err != nil {
		return true, reconcile.Result{}, err
	}
	if !isConfirmed { // a cache is behind
		return true, reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	r.report(t, observation.Observation{
		Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, IsTakenBack: true,
		Message: "the cluster runs another revision than the hub has recorded, as after a restore of the hub",
	})
	return true, reconcile.Result{}, nil // the entry will say what to do
}

// isTakenBack reports whether the Deployment shows that the revision of the entry was taken back.
func isTakenBack(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, found objects) bool {
	return found.isOwned("Deployment") && lineage.IsTakenBack(app, entry, found.facts["Deployment"].Stamp)
}
