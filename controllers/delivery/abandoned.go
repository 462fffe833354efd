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

// cleanUpOne deletes the objects of an AppService that was let go of, and returns how many are left. While there is a row, they are
// the row's: the record stays as long as that is Removing, for it is about to go, and is of no use where it is placed again.
func (r *reconciler) cleanUpOne(ctx context.Context, record v1alpha1.AbandonedAppService) (left int, err error) {
	key := types.NamespacedName{Namespace: record.Namespace, Name: record.Name}
	app := &v1alpha1.AppService{}
	if err := r.hubLive.Get(ctx, key, app); client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("read AppService: %w", err)
	}
	if row := app.Status.Cluster(r.cluster); app.UID == record.UID && row != nil {
		if row.Phase == v1alpha1.ClusterRemoving {
			return 1, nil
		}
		return 0, nil
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
		if app.UID == record.UID && app.DeletionTimestamp.IsZero() && (app.Spec.Suspend || r.isAhead(app, object)) {
			continue // a hub that was restored may have records of old
		}
		if object.GetDeletionTimestamp().IsZero() {
			if err := r.deleteObject(ctx, object); err != nil {
				return left, err
			}
			r.tell(nil, object, v1alpha1.ReasonRemoved, "Remove", "%s %s was removed: AppService %s was to be, while this cluster could not be reached", kindOf(object), object.GetName(), key)
		}
	}
	return left, nil
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
