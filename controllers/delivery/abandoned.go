package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// abandoned are the AppServices of a name that were let go of while this member could not be reached.
func (r *reconciler) abandoned(ctx context.Context, from client.Reader, key types.NamespacedName) (*v1alpha1.MemberCluster, []v1alpha1.AbandonedAppService, error) {
	mc := &v1alpha1.MemberCluster{}
	if err := from.Get(ctx, client.ObjectKey{Name: r.cluster}, mc); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	return mc, slices.DeleteFunc(slices.Clone(mc.Status.Abandoned), func(a v1alpha1.AbandonedAppService) bool {
		return a.Namespace != key.Namespace || a.Name != key.Name
	}), nil
}

// cleanUp removes what is left of AppServices of a name that were let go of, and then the record of it. It tells whether
// something is left to be waited for.
func (r *reconciler) cleanUp(ctx context.Context, key types.NamespacedName) (waiting bool, err error) {
	if _, known, err := r.abandoned(ctx, r.hub, key); err != nil || len(known) == 0 {
		return false, err
	}
	mc, records, err := r.abandoned(ctx, r.hubLive, key) // what is deleted is deleted by what the hub says now
	if err != nil {
		return false, fmt.Errorf("read what was let go of: %w", err)
	}
	for _, record := range records {
		left, err := r.cleanUpOne(ctx, record)
		if err != nil {
			return false, err
		}
		if left > 0 {
			waiting = true
			continue
		}
		if err := r.strike(ctx, mc, record); err != nil {
			return false, err
		}
	}
	return waiting, nil
}

// cleanUpOne does what the tombstone of one AppService asks for, and returns how many objects are left.
func (r *reconciler) cleanUpOne(ctx context.Context, record v1alpha1.AbandonedAppService) (left int, err error) {
	key := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
	app := &v1alpha1.AppService{}
	if err := r.hubLive.Get(ctx, key, app); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read AppService: %w", err)
	}
	row := app.Status.Cluster(r.cluster)
	if app.UID == record.UID && row != nil {
		if row.Phase == v1alpha1.ClusterRemoving {
			return 1, nil // the row is about to go
		}
		return 0, nil // the objects are the row's
	}
	deletes, err := r.tombstoneStands(ctx, record, app, row)
	if err != nil {
		return 0, err
	}
	objects, err := r.readLive(ctx, key)
	if err != nil {
		return 0, err
	}
	for _, object := range objects.all() {
		if !r.isOf(record.UID, object) {
			continue
		}
		left++
		if deletes && object.GetDeletionTimestamp().IsZero() {
			if err := r.deleteObject(ctx, object); err != nil {
				return left, err
			}
			r.tell(nil, object, v1alpha1.ReasonRemoved, "Remove", "%s %s was removed: AppService %s was to be, while this cluster could not be reached", kindOf(object), object.GetName(), key)
		}
	}
	return left, nil
}

// tombstoneStands reports whether a tombstone is evidence to delete the objects of its AppService, given what the hub has under that name now and
// its row for this member. The tombstone may come from a backup.
//
// An AppService that lives, with the UID of the tombstone, may have been placed here again since: its objects are reported as found, and the planner
// decides. Another AppService of that name inherits the objects if it is placed here, or is about to be.
func (r *reconciler) tombstoneStands(ctx context.Context, record v1alpha1.AbandonedAppService, app *v1alpha1.AppService, row *v1alpha1.ClusterStatus) (bool, error) {
	switch {
	case app.UID == "":
		return true, nil
	case app.Status.IsHubBehind():
		return false, nil
	case !app.DeletionTimestamp.IsZero():
		return true, nil
	case app.UID == record.UID:
		return false, nil
	case row != nil:
		return row.Phase == v1alpha1.ClusterRemoving, nil
	}
	mayCome, err := r.mayBePlaced(ctx, app)
	return !mayCome, err
}

// mayBePlaced reports whether the planner is about to place an AppService on this member, or would if the member was Ready, or cannot tell.
func (r *reconciler) mayBePlaced(ctx context.Context, app *v1alpha1.AppService) (bool, error) {
	var members v1alpha1.MemberClusterList
	if err := r.hub.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list MemberClusters: %w", err)
	}
	plan, err := placement.Decide(app, members.Items)
	if err != nil {
		return true, nil //nolint:nilerr // The planner reports a placement that cannot be understood; until it can, nothing is known.
	}
	decision := plan.Find(r.cluster)
	return decision.Chosen() || decision.Reason == v1alpha1.ReasonClusterNotReady, nil
}

// strike takes a record from the MemberCluster.
func (r *reconciler) strike(ctx context.Context, mc *v1alpha1.MemberCluster, record v1alpha1.AbandonedAppService) error {
	updated := mc.DeepCopy()
	updated.Status.Abandoned = slices.DeleteFunc(updated.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == record.UID })
	if err := r.hubWriter.Status().Patch(ctx, updated, client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("note that AppService %s/%s is gone: %w", record.Namespace, record.Name, err)
	}
	*mc = *updated
	ctrl.LoggerFrom(ctx).Info("Removed what was let go of", "AppService", strings.Join([]string{record.Namespace, record.Name}, "/"), "uid", record.UID)
	return nil
}
