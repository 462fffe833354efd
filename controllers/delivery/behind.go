package delivery

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// stamp returns the object as it is sent for an AppService. The stamp is no part of what is compared: an edit that changes nothing on a
// member, and a new version of the operator, cost no write.
func stamp(app *v1alpha1.AppService, want *unstructured.Unstructured) *unstructured.Unstructured {
	stamped := workload.Stamp(want, app.Generation)
	annotations := stamped.GetAnnotations()
	maps.Copy(annotations, lineage.For(app).Annotations())
	stamped.SetAnnotations(annotations)
	return stamped
}

// needsStamp reports whether an object has a stamp that the hub cannot account for. Such a stamp has been accepted, or it would be an
// obstacle. It is replaced, so that it need not be accepted for ever.
func needsStamp(app *v1alpha1.AppService, existing client.Object) bool {
	found := lineage.Of(existing)
	return found.UID == app.UID && !lineage.IsPlanned(app, found)
}

// isAhead reports whether an object comes from a state of this hub that the hub has lost.
func (r *reconciler) isAhead(app *v1alpha1.AppService, object client.Object) bool {
	owner, _ := r.ownerOf(app, object)
	return (owner == ours || owner == predecessors) && lineage.IsAhead(app, lineage.Of(object))
}

// ahead returns the obstacle of an object that is ahead of the hub, or nil.
func (r *reconciler) ahead(app *v1alpha1.AppService, object client.Object) *obstacle {
	if !r.isAhead(app, object) {
		return nil
	}
	return &obstacle{reason: v1alpha1.ReasonHubBehind, message: kindOf(object) + " is ahead of the hub"}
}

// reportBehind reports that the member is ahead of the hub, once a live read has confirmed it. It repeats a report that the entry
// holds already without a live read: after a restore, every member would be read for every AppService, again and again.
func (r *reconciler) reportBehind(ctx context.Context, t task, o *obstacle) (reconcile.Result, error) {
	behind, err := r.knownAhead(ctx, t)
	if err == nil && behind == nil {
		behind, err = r.readAhead(ctx, t)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if behind == nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Trying again", "why", "the hub's cache is behind")
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	phase := v1alpha1.ClusterFailed
	if t.row.Phase == v1alpha1.ClusterRemoving {
		phase = v1alpha1.ClusterRemoving
	}
	r.report(t, observation.Observation{Phase: phase, Reason: o.reason, Message: lineage.BehindMessage(behind), HubBehind: behind})
	return reconcile.Result{RequeueAfter: o.after()}, nil
}

// knownAhead returns what the entry holds about a hub that is behind, if the objects in the member's cache bear it out; otherwise nil.
func (r *reconciler) knownAhead(ctx context.Context, t task) (*v1alpha1.HubBehind, error) {
	if t.row.HubBehind == nil {
		return nil, nil
	}
	objects, err := r.cachedParts(ctx, t)
	if err != nil {
		return nil, err
	}
	behind := r.behindOf(t.app, append(objects, t.objects.all()...))
	if behind == nil || behind.Accept != t.row.HubBehind.Accept {
		return nil, nil
	}
	return behind, nil
}

// behindOf describes those of the objects that are ahead of the hub; nil when there are none.
func (r *reconciler) behindOf(app *v1alpha1.AppService, objects []client.Object) *v1alpha1.HubBehind {
	ahead := map[string]lineage.Stamp{}
	for _, object := range objects {
		if r.isAhead(app, object) {
			ahead[kindOf(object)] = lineage.Of(object)
		}
	}
	return lineage.Behind(app, ahead)
}

// readAhead returns what the member has that the hub cannot account for, or nil. It reads both of them live: the report stops the AppService on all
// clusters until somebody accepts it, so a cache that lags must not cause it.
func (r *reconciler) readAhead(ctx context.Context, t task) (*v1alpha1.HubBehind, error) {
	app := &v1alpha1.AppService{}
	if err := r.hubLive.Get(ctx, client.ObjectKeyFromObject(t.app), app); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read AppService: %w", err)
	}
	objects, err := r.readLive(ctx, client.ObjectKeyFromObject(t.app))
	if err != nil || app.UID != t.app.UID {
		return nil, err
	}
	return r.behindOf(app, objects.all()), nil
}
