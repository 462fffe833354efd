package delivery

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/tracing"
)

// deliverTraced delivers a task, as a span of the trace of its edit.
func (r *reconciler) deliverTraced(ctx context.Context, t task) (reconcile.Result, error) {
	if t.app == nil {
		return r.deliver(ctx, t)
	}
	settled := t.entry != nil && t.entry.Phase == v1alpha1.ClusterReady && t.entry.Generation == t.app.Generation
	ctx, t.traced = tracing.Start(ctx, tracing.Work{Name: "deliver", App: t.app, Cluster: r.cluster, Settled: settled})
	result, err := r.deliver(ctx, t)
	t.traced.End(err)
	return result, err
}
