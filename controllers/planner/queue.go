package planner

import (
	"context"
	"maps"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/queue"
)

// enqueueEdits returns an event handler that enqueues AppServices before everything else, new ones
// before edited ones.
func enqueueEdits(order *queue.Order[reconcile.Request]) handler.EventHandler {
	type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	enqueue := func(app client.Object, to workQueue) {
		class := queue.Edited
		if app.(*v1alpha1.AppService).Status.ObservedGeneration <= 0 {
			class = queue.New
		}
		order.Add(to, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(app)}, class)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, to workQueue) { enqueue(e.Object, to) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, to workQueue) { enqueue(e.ObjectNew, to) },
	}
}

// isEdit passes the events of AppServices that need a plan, and changes of their annotations, by
// which users approve something. Every other event of an AppService is caused by the planner's own
// write.
func isEdit() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return needsPlan(e.Object) },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return needsPlan(e.ObjectNew) || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
	}
}

// needsPlan reports whether the status of an AppService describes an older generation, or the
// finalizer is missing. A deletion raises the generation, too.
func needsPlan(object client.Object) bool {
	app := object.(*v1alpha1.AppService)
	return revise.IsEdited(app) || !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer)
}
