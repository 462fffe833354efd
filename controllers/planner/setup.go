package planner

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/queue"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
)

// workers is the number of AppServices that are planned concurrently. A worker mostly waits for the
// response to a status write, and the client of the hub has no rate limit, so more workers cost
// little.
const workers = 16

// Options configure the planner. The zero value is the default.
type Options struct {
	// SliceThreshold is the number of entries above which they move to AppServiceSlices; 0 is
	// [appslice.DefaultThreshold].
	SliceThreshold int
	// Revisions reads older revisions. By default, the planner has a reader of its own, and does not
	// share what it has read with delivery.
	Revisions *reader.Reader
	// Sources are the sources of spec.configuration. Without them, nothing may leave the hub.
	Sources *sources.Sources
	// LastAnswer returns when a member has last answered a request. By default, a member that is Ready
	// answers at any time.
	LastAnswer func(cluster string) time.Time
	// PodSecurityLevel is what pods must comply with if the namespace on the hub does not say it. By
	// default, everything is allowed.
	PodSecurityLevel podsecurity.Level
}

// SetupWithManager adds the planner to the hub's manager. It returns the planner's metrics, which
// only the leader may register. Delivery reports to the same observations.
func SetupWithManager(hub manager.Manager, observations *Observations, options Options) (prometheus.Collector, error) {
	r := newReconciler(hub.GetClient(), hub.GetAPIReader(), hub.GetEventRecorder("fleetwright"), observations, options)
	order := queue.NewOrder[reconcile.Request]()
	return r.telemetry, ctrl.NewControllerManagedBy(hub).Named("appservice").
		For(&v1alpha1.AppService{}, builder.WithPredicates(predicate.Not(isEdit()))).
		Watches(&v1alpha1.AppService{}, enqueueEdits(order), builder.WithPredicates(isEdit())).
		Watches(&v1alpha1.MemberCluster{}, r.enqueueAffected()).
		Watches(&v1alpha1.AppServiceSlice{}, r.enqueueForeignChanges()).
		WatchesMetadata(&corev1.Namespace{}, r.enqueueOfNamespace(), builder.WithPredicates(changesPolicy())).
		WatchesRawSource(source.Func(observations.listen)).
		WatchesRawSource(source.Func(options.Sources.Listen)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: order.WorkQueue}).
		Complete(r)
}

// enqueueAffected returns an event handler of MemberClusters. It drops the snapshot of the fleet,
// and then enqueues the AppServices that the change affects.
func (r *Reconciler) enqueueAffected() handler.EventHandler {
	type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(ctx context.Context, before, after client.Object, q workQueue) {
		r.gatherer.fleet.invalidate()
		change := placement.NewMemberChange(asMember(before), asMember(after))
		if change.IsEmpty() {
			return
		}
		for _, request := range r.affected(ctx, change) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workQueue) {
			if e.IsInInitialList { // the start enqueues every AppService
				r.gatherer.fleet.invalidate()
				return
			}
			enqueue(ctx, nil, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workQueue) { enqueue(ctx, e.ObjectOld, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workQueue) {
			r.observations.forgetUnreachable(e.Object.GetName())
			enqueue(ctx, e.Object, nil, q)
		},
	}
}

// enqueueForeignChanges returns an event handler of AppServiceSlices. It enqueues the AppServices
// of slices that another client changed or deleted.
func (r *Reconciler) enqueueForeignChanges() handler.EventHandler {
	type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	appOf := func(slice *v1alpha1.AppServiceSlice) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: slice.Namespace, Name: slice.AppService.Name}}
	}
	enqueue := func(object client.Object, q workQueue) {
		slice := object.(*v1alpha1.AppServiceSlice)
		r.store.noteSlice(slice)
		if !r.store.versions.isOwnWrite(slice) {
			q.Add(appOf(slice))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workQueue) { enqueue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workQueue) { enqueue(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workQueue) {
			slice := e.Object.(*v1alpha1.AppServiceSlice)
			r.store.noteDeleted(slice, !e.DeleteStateUnknown)
			q.Add(appOf(slice))
		},
	}
}

// enqueueOfNamespace returns an event handler that enqueues the AppServices of a namespace.
func (r *Reconciler) enqueueOfNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) []reconcile.Request {
		var apps v1alpha1.AppServiceList
		if err := r.hub.List(ctx, &apps, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "List AppServices")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(apps.Items))
		for i := range apps.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
		}
		return requests
	})
}

// asMember returns the MemberCluster of an event, or nil if the event has none.
func asMember(object client.Object) *v1alpha1.MemberCluster {
	member, _ := object.(*v1alpha1.MemberCluster)
	return member
}

// affected returns requests for the AppServices that the change of a member affects.
func (r *Reconciler) affected(ctx context.Context, change placement.MemberChange) []reconcile.Request {
	var apps v1alpha1.AppServiceList
	if err := r.hub.List(ctx, &apps, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List AppServices")
		return nil
	}
	var requests []reconcile.Request
	for i := range apps.Items {
		app := &apps.Items[i]
		entry, known, err := entries.Of(ctx, r.hub, app, change.Cluster())
		mayHaveEntry := err != nil || !known || entry != nil
		if change.Affects(app, mayHaveEntry) || r.observations.has(client.ObjectKeyFromObject(app), change.Cluster()) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
		}
	}
	return requests
}
