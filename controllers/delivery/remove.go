package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// removalPoll is how often a removal is looked at, beside what the watch tells.
const removalPoll = 10 * time.Second

// errNotMeant is returned where a live read of the hub does not bear out a removal. The cache is about to follow.
var errNotMeant = errors.New("the hub no longer asks for this")

// remove takes the AppService's objects away from the member, or lets them go where it orphans them. It looks at the member
// itself, not at its cache, which may not show yet what was made a moment ago; what is foreign is left, and does not count.
func (r *reconciler) remove(ctx context.Context, t task) (reconcile.Result, error) {
	objects, err := r.readLive(ctx, client.ObjectKeyFromObject(t.app))
	if err != nil {
		return r.failed(ctx, t, err)
	}
	t.objects = objects
	if obstacle := r.keepsFromRemoval(t); obstacle != nil {
		return r.stopped(ctx, t, obstacle)
	}
	act := r.takeAway
	if t.app.Spec.DeletionPolicy == v1alpha1.DeletionOrphan {
		act = r.release
	}
	var left []string
	for _, object := range r.ours(t) {
		left = append(left, kindOf(object))
		if err := act(ctx, t, object); err != nil {
			return r.failed(ctx, t, err)
		}
	}
	if len(left) > 0 && t.app.Spec.DeletionPolicy == v1alpha1.DeletionOrphan {
		if t.objects, err = r.readLive(ctx, client.ObjectKeyFromObject(t.app)); err == nil && len(r.ours(t)) > 0 {
			err = fmt.Errorf("somebody has put our marks back on: %s", strings.Join(left, ", "))
		}
		if err != nil {
			return r.failed(ctx, t, err) // the queue backs off
		}
		left = nil
	}
	if len(left) > 0 {
		message := "waiting for the member to finish deleting: " + strings.Join(left, ", ")
		r.report(t, observation.Observation{Phase: v1alpha1.ClusterRemoving, Message: message})
		return reconcile.Result{RequeueAfter: removalPoll}, nil
	}
	r.memories.forget(client.ObjectKeyFromObject(t.app))
	r.report(t, observation.Observation{Phase: v1alpha1.ClusterRemoving, GoneSince: t.row.LastTransitionTime})
	return reconcile.Result{RequeueAfter: removalPoll}, nil // until the planner has taken the row away
}

// ours are the objects of the task that are this AppService's.
func (r *reconciler) ours(t task) []client.Object {
	return slices.DeleteFunc(t.objects.all(), func(o client.Object) bool { return !r.isOurs(t.app, o) })
}

// keepsFromRemoval is why nothing may be removed: the hub's identity has changed, or the hub is behind.
func (r *reconciler) keepsFromRemoval(t task) *obstacle {
	for _, object := range t.objects.all() {
		owner, whose := r.ownerOf(t.app, object)
		if owner == anotherHubs && object.GetAnnotations()[v1alpha1.AnnotationUID] == string(t.app.UID) {
			return conflict(object, whose)
		}
		if obstacle := r.ahead(t.app, object); obstacle != nil {
			return obstacle
		}
	}
	return nil
}

// takeAway deletes one object of the AppService, when a live read of the hub bears that out.
func (r *reconciler) takeAway(ctx context.Context, t task, object client.Object) error {
	if !object.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if err := r.confirm(ctx, t); err != nil {
		return err
	}
	if err := r.deleteObject(ctx, object); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleted", "kind", kindOf(object), "generation", t.app.Generation)
	r.tell(nil, object, v1alpha1.ReasonRemoved, "Remove", "%s %s was removed, as AppService %s says", kindOf(object), object.GetName(), client.ObjectKeyFromObject(t.app))
	return nil
}

// deleteObject deletes an object by its UID. The pods of a Deployment go first. No other object has dependents to wait for, and waiting never ends
// where the member's garbage collector does not run.
func (r *reconciler) deleteObject(ctx context.Context, object client.Object) error {
	uid, propagation := object.GetUID(), metav1.DeletePropagationBackground
	if _, isDeployment := object.(*appsv1.Deployment); isDeployment {
		propagation = metav1.DeletePropagationForeground
	}
	err := r.member.Delete(ctx, object, client.Preconditions{UID: &uid}, client.PropagationPolicy(propagation))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", kindOf(object), err)
	}
	return nil
}

// confirm reads the AppService live: it must be the same one, of the same generation, and ask the same of this member. No cluster may be
// ahead of the hub.
func (r *reconciler) confirm(ctx context.Context, t task) error {
	app := &v1alpha1.AppService{}
	if err := r.hubLive.Get(ctx, client.ObjectKeyFromObject(t.app), app); err != nil {
		return fmt.Errorf("confirm it with the hub: %w", err)
	}
	row := app.Status.Cluster(r.cluster)
	if app.UID != t.app.UID || app.Generation != t.app.Generation || row == nil || !row.SamePlan(*t.row) || app.Status.IsHubBehind() {
		return errNotMeant
	}
	return nil
}
