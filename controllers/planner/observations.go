package planner

import (
	"context"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/controllers/observation"
)

// Observations holds what was last seen of each AppService on each cluster, and has the planner look at an AppService
// again when that changes. It is kept in memory: after a restart everything is observed anew. It is safe
// for concurrent use.
type Observations struct {
	mu    sync.Mutex
	byApp map[types.NamespacedName]map[string]observation.Observation
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// NewObservations returns an empty Observations.
func NewObservations() *Observations {
	return &Observations{byApp: map[types.NamespacedName]map[string]observation.Observation{}}
}

// Report takes what was seen of an AppService on a cluster, in place of what was seen before.
func (o *Observations) Report(app types.NamespacedName, cluster string, seen observation.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clusters := o.byApp[app]
	if clusters == nil {
		clusters = map[string]observation.Observation{}
		o.byApp[app] = clusters
	}
	if previous, found := clusters[cluster]; found && previous.Same(seen) {
		return
	}
	clusters[cluster] = seen
	o.enqueue(app)
}

// ForgetCluster drops all that was seen on a cluster: it cannot be observed any more.
func (o *Observations) ForgetCluster(cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for app, clusters := range o.byApp {
		if _, found := clusters[cluster]; found {
			delete(clusters, cluster)
			o.enqueue(app)
		}
	}
}

// of returns what was seen of an AppService, by cluster.
func (o *Observations) of(app types.NamespacedName) map[string]observation.Observation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.byApp[app])
}

// forget drops what was seen of an AppService on one cluster.
func (o *Observations) forget(app types.NamespacedName, cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byApp[app], cluster)
}

// forgetApp drops all that was seen of an AppService that is no more.
func (o *Observations) forgetApp(app types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byApp, app)
}

// listen is the planner's source: what is reported from now on is put into its queue.
func (o *Observations) listen(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = queue
	return nil
}

func (o *Observations) enqueue(app types.NamespacedName) {
	if o.queue != nil { // before that, the planner has yet to look at everything
		o.queue.Add(reconcile.Request{NamespacedName: app})
	}
}
