package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// remove deletes the AppService's objects from the member, or releases them as its deletion policy
// says. Objects of other owners stay, and do not count. A removal is confirmed only by a read of
// the member itself, because the cache may not show yet what was created a moment ago.
// docs/decisions/a-removal-costs-five-requests.md says why.
func (r *reconciler) remove(ctx context.Context, t task) (reconcile.Result, error) {
	removal := t.memory.removalOf(t.entry)
	if removal.usesCache(t) {
		if blocker := removalBlocker(t); blocker != nil {
			return r.reportBlocked(ctx, t, blocker)
		}
		err := r.deleteOwned(ctx, t, removal, r.objects.DeleteVersion)
		if !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			removal.noteDeployment(t.objects)
			return r.reportRemoving(ctx, t, err)
		}
		// The cache is behind.
	}
	var err error
	if t.objects, err = r.reader.fromMemberWithout(ctx, t.app, t.entry, removal.hasNoOptional); err != nil {
		return r.handleError(ctx, t, err)
	}
	if blocker := removalBlocker(t); blocker != nil {
		return r.reportBlocked(ctx, t, blocker)
	}
	if t.app.OrphansWorkloads() {
		err = r.releaseOwned(ctx, &t)
	} else {
		err = r.deleteOwned(ctx, t, removal, func(ctx context.Context, o client.Object) error {
			return client.IgnoreNotFound(r.objects.Delete(ctx, o))
		})
	}
	if err != nil || len(t.objects.owned()) > 0 {
		return r.reportRemoving(ctx, t, err)
	}
	r.memories.forget(client.ObjectKeyFromObject(t.app))
	r.report(t, observation.Observation{Phase: v1alpha1.ClusterRemoving, GoneSince: t.entry.LastTransitionTime})
	return reconcile.Result{RequeueAfter: removalPoll}, nil // until the planner has removed the entry
}

// reportRemoving reports what is left, or why it could not be removed.
func (r *reconciler) reportRemoving(ctx context.Context, t task, err error) (reconcile.Result, error) {
	if err != nil {
		return r.handleError(ctx, t, err)
	}
	message := "waiting for the member to finish deleting: " + kindsOf(t.objects.owned())
	r.report(t, observation.Observation{Phase: v1alpha1.ClusterRemoving, Message: message})
	return reconcile.Result{RequeueAfter: removalPoll}, nil
}

// deleteOwned deletes the AppService's objects, each after a live read of the hub. Objects that are
// being deleted, or whose version was deleted a moment ago, are left alone.
func (r *reconciler) deleteOwned(ctx context.Context, t task, done *removal, del func(context.Context, client.Object) error) error {
	todo := slices.DeleteFunc(t.objects.owned(), func(e object.Existing) bool { return e.IsBeingDeleted() || done.hasDeleted(e) })
	verification := r.remover.verification(t)
	for i, existing := range todo {
		err := verification.renew(ctx)
		if err == nil {
			err = del(ctx, existing.Object)
		}
		if err != nil {
			r.remover.announceDeleted(ctx, t, todo[:i])
			return err
		}
		done.deleted[object.KindOf(existing)] = existing.GetResourceVersion()
	}
	r.remover.announceDeleted(ctx, t, todo)
	return nil
}

// releaseOwned releases the AppService's objects, and reads again what is left of them.
func (r *reconciler) releaseOwned(ctx context.Context, t *task) error {
	owned := t.objects.owned()
	if len(owned) == 0 {
		return nil
	}
	for _, existing := range owned {
		if err := r.remover.release(ctx, *t, existing); err != nil {
			return err
		}
	}
	var err error
	if t.objects, err = r.reader.fromMember(ctx, t.app, t.entry); err == nil && len(t.objects.owned()) > 0 {
		err = fmt.Errorf("another manager restores Fleetwright's labels and annotations on %s: stop it, so that the objects can be released", kindsOf(owned))
	}
	return err // the queue backs off
}

// kindsOf names the kinds of objects.
func kindsOf(all []object.Existing) string {
	var kinds []string
	for _, existing := range all {
		kinds = append(kinds, object.KindOf(existing))
	}
	return strings.Join(kinds, ", ")
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
	verifier  *verifier
	cluster   string
	objects   *object.Member
	announcer announcer
}

// deleteService deletes the Service of the AppService or of an earlier one of its name. It reports
// whether there was one.
func (r remover) deleteService(ctx context.Context, t task) (deleted bool, err error) {
	t.memory.forgetPruned("Service")
	service := t.objects.facts["Service"]
	if service == nil || !service.IsManagedByThisHub() {
		return false, nil
	}
	return true, r.delete(ctx, t, *service)
}

// delete deletes an object that the AppService does not want any more.
func (r remover) delete(ctx context.Context, t task, existing object.Existing) error {
	if existing.Newer {
		return existing.Blocker(t.app.Spec.ConflictPolicy)
	}
	if existing.IsBeingDeleted() {
		return nil
	}
	if err := r.verifyWithHub(ctx, t); err != nil {
		return err
	}
	if err := r.objects.Delete(ctx, existing.Object); err != nil { // if it is gone, the cache does not show that yet
		return client.IgnoreNotFound(err)
	}
	r.announceDeleted(ctx, t, []object.Existing{existing})
	return nil
}

// announceDeleted announces objects that were deleted, in one event. If the AppService itself is
// deleted, nobody wonders where they are, and its clusters are named in an event on the hub.
func (r remover) announceDeleted(ctx context.Context, t task, deleted []object.Existing) {
	if len(deleted) == 0 {
		return
	}
	ctrl.LoggerFrom(ctx).Info("Deleted", "kinds", kindsOf(deleted), "generation", t.app.Generation)
	if t.app.IsDeleting() {
		return
	}
	r.announcer.announce(nil, deleted[0].Object, v1alpha1.ReasonRemoved, "Remove", "deleted as AppService %s requires: %s",
		client.ObjectKeyFromObject(t.app), kindsOf(deleted))
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

// verifyWithHub returns nil if a live read of the hub confirms what a task does.
func (r remover) verifyWithHub(ctx context.Context, t task) error {
	_, err := r.readHub(ctx, t)
	return err
}

// verification returns the evidence for what a task deletes.
func (r remover) verification(t task) *verification {
	return &verification{read: func(ctx context.Context) (time.Time, error) { return r.readHub(ctx, t) }}
}

// readHub reads the AppService live: it must be the same one, of the same generation, and ask the
// same of this member. No cluster may be ahead of the hub. It returns when the read began.
func (r remover) readHub(ctx context.Context, t task) (readTime time.Time, err error) {
	var sliced *v1alpha1.AppService
	confirms := func(entry *v1alpha1.ClusterStatus) bool { return entry != nil && entry.SamePlan(*t.entry) }
	readTime, err = r.verifier.verify(ctx, client.ObjectKeyFromObject(t.app), func(app *v1alpha1.AppService) bool {
		if app.UID != t.app.UID || app.Generation != t.app.Generation || app.Status.IsHubBehind() ||
			app.Status.ClustersIn != t.app.Status.ClustersIn {
			return false
		}
		if app.Status.HasSlices() {
			sliced = app
			return true
		}
		return confirms(app.Status.Cluster(r.cluster))
	})
	if err != nil || sliced == nil {
		return readTime, err
	}
	entry, _, err := entries.Of(ctx, r.verifier.hubLive, sliced, r.cluster)
	if err != nil {
		return time.Time{}, fmt.Errorf("verify with the hub: %w", err)
	}
	if !confirms(entry) {
		return time.Time{}, errNotVerified
	}
	return readTime, nil
}
