package delivery

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// reportHubBehind reports that the member is ahead of the hub, after a live read has confirmed it.
// It repeats a report that the entry already has without a live read: after a restore, every member
// would be read for every AppService, again and again.
func (r *reconciler) reportHubBehind(ctx context.Context, t task) (reconcile.Result, error) {
	behind, err := r.reader.knownBehind(ctx, t)
	if err == nil && behind == nil {
		behind, err = r.confirmer.behind(ctx, t)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if behind == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Retrying", "reason", "the hub's cache is behind")
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	phase := v1alpha1.ClusterFailed
	if t.entry.Phase == v1alpha1.ClusterRemoving {
		phase = v1alpha1.ClusterRemoving
	}
	r.report(t, observation.Observation{Phase: phase, Reason: v1alpha1.ReasonHubBehind, Message: lineage.BehindMessage(behind), HubBehind: behind})
	return reconcile.Result{RequeueAfter: blockerRetry}, nil
}

// knownBehind returns what the entry has about a hub that is behind, if the objects in the member's
// cache confirm it; otherwise nil.
func (r objectReader) knownBehind(ctx context.Context, t task) (*v1alpha1.HubBehind, error) {
	if t.entry.HubBehind == nil {
		return nil, nil
	}
	all := t.objects.all()
	for _, k := range optionalKinds {
		if !t.objects.lists(k) || t.objects.facts[k.kind] != nil {
			continue
		}
		existing, err := r.watched(ctx, t.app, t.entry, k)
		if err != nil {
			return nil, err
		}
		if existing != nil {
			all = append(all, *existing)
		}
	}
	behind := behindOf(t.app, t.entry, all)
	if behind == nil || behind.Accept != t.entry.HubBehind.Accept {
		return nil, nil
	}
	return behind, nil
}

// withRevisionOf returns the AppService with a status that knows the revision of an entry. An entry
// in an AppServiceSlice may be seen before the status that names its revision.
func withRevisionOf(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) *v1alpha1.AppService {
	if entry == nil || entry.Revision <= lineage.LatestRevision(app) {
		return app
	}
	known := *app // the cache has the other one
	known.Status.Rollout.LatestRevision = entry.Revision
	return &known
}

// behindOf describes those of the objects that are ahead of the hub; nil if there are none.
func behindOf(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, all []object.Existing) *v1alpha1.HubBehind {
	ahead := map[string]lineage.Stamp{}
	for _, existing := range all {
		if existing.Newer {
			ahead[object.KindOf(existing)] = existing.Stamp
		}
	}
	return lineage.Behind(app, entry, ahead)
}
