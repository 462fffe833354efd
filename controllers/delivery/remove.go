package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// removalPoll is when to check again on a removal, beside the events of the watch.
const removalPoll = object.DeletionPoll

// errNotVerified is returned when a live read of the hub does not confirm a change that cannot be
// undone. The cache is about to follow.
var errNotVerified = errors.New("a live read of the hub does not confirm the change")

// remove deletes the AppService's objects from the member, or releases them as its deletion policy
// says. It reads the member itself, because the cache may not show yet what was created a moment
// ago. Objects of other owners stay, and do not count.
func (r *reconciler) remove(ctx context.Context, t task) (reconcile.Result, error) {
	var err error
	if t.objects, err = r.reader.fromMember(ctx, t.app); err != nil {
		return r.handleError(ctx, t, err)
	}
	if blocker := removalBlocker(t); blocker != nil {
		return r.reportBlocked(ctx, t, blocker)
	}
	act, orphans := r.remover.delete, t.app.Spec.DeletionPolicy == v1alpha1.DeletionOrphan
	if orphans {
		act = r.remover.release
	}
	var left []string
	for _, existing := range t.objects.owned() {
		left = append(left, object.KindOf(existing))
		if err := act(ctx, t, existing); err != nil {
			return r.handleError(ctx, t, err)
		}
	}
	if len(left) > 0 && orphans {
		if t.objects, err = r.reader.fromMember(ctx, t.app); err == nil && len(t.objects.owned()) > 0 {
			err = fmt.Errorf("another manager restores Fleetwright's labels and annotations on %s: stop it, so that the objects can be released", strings.Join(left, ", "))
		}
		if err != nil {
			return r.handleError(ctx, t, err) // the queue backs off
		}
		left = nil
	}
	if len(left) > 0 {
		message := "waiting for the member to finish deleting: " + strings.Join(left, ", ")
		r.report(t, observation.Observation{Phase: v1alpha1.ClusterRemoving, Message: message})
		return reconcile.Result{RequeueAfter: removalPoll}, nil
	}
	r.memories.forget(client.ObjectKeyFromObject(t.app))
	r.report(t, observation.Observation{Phase: v1alpha1.ClusterRemoving, GoneSince: t.entry.LastTransitionTime})
	return reconcile.Result{RequeueAfter: removalPoll}, nil // until the planner has removed the entry
}

// removalBlocker returns why nothing may be removed: the hub's identity has changed, or the hub is
// behind.
func removalBlocker(t task) *object.Blocker {
	for _, existing := range t.objects.all() {
		if existing.Owner == object.ForeignHub && existing.GetAnnotations()[v1alpha1.AnnotationUID] == string(t.app.UID) {
			return existing.Conflict(existing.OwnedBy)
		}
		if existing.Newer {
			return existing.Blocker(t.app.Spec.ConflictPolicy)
		}
	}
	return nil
}

// remover deletes and releases objects of one member, after a live read of the hub.
type remover struct {
	hubLive   client.Reader
	cluster   string
	objects   *object.Member
	announcer announcer
}

// deleteUnwanted deletes an object that the AppService does not want any more.
func (r remover) deleteUnwanted(ctx context.Context, t task, existing object.Existing) error {
	if existing.Newer {
		return existing.Blocker(t.app.Spec.ConflictPolicy)
	}
	return r.delete(ctx, t, existing)
}

// delete deletes an object of the AppService.
func (r remover) delete(ctx context.Context, t task, existing object.Existing) error {
	if existing.IsBeingDeleted() {
		return nil
	}
	if err := r.verifyWithHub(ctx, t); err != nil {
		return err
	}
	if err := r.objects.Delete(ctx, existing.Object); err != nil {
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Deleted", "kind", object.KindOf(existing), "generation", t.app.Generation)
	r.announcer.announce(nil, existing.Object, v1alpha1.ReasonRemoved, "Remove", "%s %s was deleted, as AppService %s requires",
		object.KindOf(existing), existing.GetName(), client.ObjectKeyFromObject(t.app))
	return nil
}

// release leaves an object of the AppService running without Fleetwright's marks.
func (r remover) release(ctx context.Context, t task, existing object.Existing) error {
	if err := r.verifyWithHub(ctx, t); err != nil {
		return err
	}
	if err := r.objects.Release(ctx, existing.Object); err != nil {
		return err
	}
	r.announcer.announce(t.app, existing.Object, v1alpha1.ReasonOrphaned, "Orphan", "%s %s keeps running without Fleetwright, because spec.deletionPolicy is Orphan",
		object.KindOf(existing), existing.GetName())
	return nil
}

// verifyWithHub reads the AppService live: it must be the same one, of the same generation, and ask
// the same of this member. No cluster may be ahead of the hub.
func (r remover) verifyWithHub(ctx context.Context, t task) error {
	app := &v1alpha1.AppService{}
	if err := r.hubLive.Get(ctx, client.ObjectKeyFromObject(t.app), app); err != nil {
		return fmt.Errorf("verify with the hub: %w", err)
	}
	entry, _, err := entries.Of(ctx, r.hubLive, app, r.cluster)
	if err != nil {
		return fmt.Errorf("verify with the hub: %w", err)
	}
	if app.UID != t.app.UID || app.Generation != t.app.Generation || entry == nil || !entry.SamePlan(*t.entry) || app.Status.IsHubBehind() {
		return errNotVerified
	}
	return nil
}
