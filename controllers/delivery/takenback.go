package delivery

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// holdTakenBack reports whether the Deployment must not be changed yet, because the first look at
// it shows that a restore of the hub has taken back the revision of the entry. The planner decides
// then whether the entry takes over what the cluster runs, or answers in the entry that the
// Deployment is to be changed.
func (r *reconciler) holdTakenBack(ctx context.Context, t task) (isHeld bool, result reconcile.Result, err error) {
	look := r.looks.of(t.app.UID).ID
	if t.memory.seenSince == look || t.entry.Recreate == look || !isTakenBack(t.app, t.entry, t.objects) {
		return false, reconcile.Result{}, nil
	}
	isConfirmed, err := r.reader.confirmTakenBack(ctx, t, r.hubLive, r.cluster)
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
	return found.isOwned("Deployment") && lineage.IsTakenBack(app, entry, lineage.Of(found.deployment))
}

// confirmTakenBack reports whether the hub and the member themselves show that the revision of the entry
// was taken back. The report may halt a rollout, so a cache that lags must not cause it.
func (r objectReader) confirmTakenBack(ctx context.Context, t task, hubLive client.Reader, cluster string) (bool, error) {
	app := &v1alpha1.AppService{}
	if err := hubLive.Get(ctx, client.ObjectKeyFromObject(t.app), app); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read AppService: %w", err)
	}
	entry, _, err := entries.Of(ctx, hubLive, app, cluster)
	if err != nil || entry == nil || app.UID != t.app.UID || entry.Revision != t.entry.Revision {
		return false, err
	}
	found, err := r.fromMember(ctx, app, entry)
	if err != nil {
		return false, err
	}
	return isTakenBack(app, entry, found), nil
}
