package planner

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/equality"
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

// workers is the number of AppServices that are planned concurrently. A worker mostly waits for the
// response to a status write, and the client of the hub has no rate limit, so more workers cost
// little.
const workers = 16

// SetupWithManager adds the planner to the hub's manager. It returns the planner's metrics, which
// only the leader may register. Delivery reports to the same observations.
func SetupWithManager(hub manager.Manager, observations *Observations) (prometheus.Collector, error) {
	r := newReconciler(hub.GetClient(), hub.GetAPIReader(), hub.GetEventRecorder("fleetwright"), observations)
	queue := newEditQueue()
	return r.telemetry, ctrl.NewControllerManagedBy(hub).Named("appservice").
		For(&v1alpha1.AppService{}, builder.WithPredicates(predicate.Not(isEdit()))).
		Watches(&v1alpha1.AppService{}, queue.enqueueEdits(), builder.WithPredicates(isEdit())).
		Watches(&v1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.allAppServices), builder.WithPredicates(affectsPlan())).
		Watches(&v1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(r.dividedByCapacity), builder.WithPredicates(allocatableChanged())).
		WatchesRawSource(source.Func(observations.listen)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: queue.newWorkQueue}).
		Complete(r)
}

// allAppServices returns a request for every AppService, because a changed member may affect any
// plan.
func (r *Reconciler) allAppServices(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(*v1alpha1.AppService) bool { return true })
}

// dividedByCapacity returns requests for the AppServices whose shares follow the members' capacity.
func (r *Reconciler) dividedByCapacity(ctx context.Context, _ client.Object) []reconcile.Request {
	return r.requests(ctx, func(app *v1alpha1.AppService) bool {
		policy := app.Spec.ReplicaPolicy
		return policy != nil && policy.Weights == v1alpha1.WeightsAllocatable
	})
}

// requests returns requests for the AppServices that match.
func (r *Reconciler) requests(ctx context.Context, matches func(*v1alpha1.AppService) bool) []reconcile.Request {
	var apps v1alpha1.AppServiceList
	if err := r.hub.List(ctx, &apps, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List AppServices")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(apps.Items))
	for i := range apps.Items {
		if matches(&apps.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
		}
	}
	return requests
}

// allocatableChanged passes changes of a member's allocatable resources.
func allocatableChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.MemberCluster), e.ObjectNew.(*v1alpha1.MemberCluster)
			return !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
		},
	}
}

// affectsPlan passes the changes of a member that may change a plan or an entry.
func affectsPlan() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*v1alpha1.MemberCluster), e.ObjectNew.(*v1alpha1.MemberCluster)
		return before.UID != after.UID ||
			before.IsReady() != after.IsReady() ||
			before.HasSecret() != after.HasSecret() ||
			before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
			!maps.Equal(before.Labels, after.Labels) ||
			!slices.Equal(before.Status.Abandoned, after.Status.Abandoned) ||
			!equality.Semantic.DeepEqual(before.Spec, after.Spec)
	}}
}
