package fleet

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// SetupWithManager adds the planner to the hub's manager. The observations are those that delivery reports to.
func SetupWithManager(hub manager.Manager, observations *Observations) error {
	r := newReconciler(hub.GetClient(), hub.GetAPIReader(), hub.GetEventRecorder("fleetwright"), observations)
	return ctrl.NewControllerManagedBy(hub).Named("appservice").
		For(&v1alpha1.AppService{}).
		Watches(&v1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(matters())).
		WatchesRawSource(source.Func(observations.listen)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// all requests every AppService: any of them may be placed on a member that changed.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var apps v1alpha1.AppServiceList
	if err := r.hub.List(ctx, &apps, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List AppServices")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(apps.Items))
	for i := range apps.Items {
		key := types.NamespacedName{Namespace: apps.Items[i].Namespace, Name: apps.Items[i].Name}
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// matters passes the changes of a member that may change a plan or a row.
func matters() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.MemberCluster), e.ObjectNew.(*v1alpha1.MemberCluster)
		return before.UID != after.UID ||
			before.IsReady() != after.IsReady() ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!maps.Equal(before.Labels, after.Labels) ||
			!slices.Equal(before.Status.Abandoned, after.Status.Abandoned) ||
			!equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec)
	}}
}
