package planner

import (
	"context"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// Observations holds the last observation of each AppService on each cluster, and enqueues an
// AppService shortly after one of its observations has changed. It is kept in memory only: after a
// restart, delivery reports everything again. It is safe for concurrent use.
type Observations struct {
	mu    sync.Mutex
	byApp map[types.NamespacedName]map[string]observation.Observation
	// since is since when byApp has had an observation of the same object, without a break.
	since map[types.NamespacedName]map[string]metav1.Time
	// unreachable is when each cluster was last found unreachable, without an observation since then.
	unreachable map[string]metav1.Time
	// waiting has the AppServices whose plan may depend on a cluster that is found unreachable, and
	// perhaps others.
	waiting map[types.NamespacedName]bool
	queue   workqueue.TypedRateLimitingInterface[reconcile.Request]
	// delay is the time in which the observations of one AppService are gathered.
	delay time.Duration
}

// gatherTime is the delay of a new Observations. Members finish an edit at nearly the same time,
// and one write is enough for all of them.
const gatherTime = 50 * time.Millisecond

// NewObservations returns an empty Observations.
func NewObservations() *Observations {
	return &Observations{
		byApp:       map[types.NamespacedName]map[string]observation.Observation{},
		since:       map[types.NamespacedName]map[string]metav1.Time{},
		unreachable: map[string]metav1.Time{},
		waiting:     map[types.NamespacedName]bool{},
		delay:       gatherTime,
	}
}

// Report replaces the observation of an AppService on a cluster.
func (o *Observations) Report(app types.NamespacedName, cluster string, seen observation.Observation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreachable, cluster)
	clusters := o.byApp[app]
	if clusters == nil {
		clusters = map[string]observation.Observation{}
		o.byApp[app], o.since[app] = clusters, map[string]metav1.Time{}
	}
	previous, found := clusters[cluster]
	if found && previous.Same(seen) {
		return
	}
	if !found || previous.UID != seen.UID {
		o.since[app][cluster] = metav1.Now()
	}
	clusters[cluster] = seen
	switch {
	case seen.Missing:
		o.waiting[app] = true
	case o.waiting[app] && !isAsking(clusters): // until the plan that follows waits again
		delete(o.waiting, app)
	}
	o.enqueue(app)
}

// ReportUnreachable records that a cluster cannot be reached now, as attempts to connect to it have
// shown. Two questions depend on that: whether a missing workload is created, and which revision is
// stable after the status was lost.
func (o *Observations) ReportUnreachable(cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.unreachable[cluster] = metav1.Now()
	for app := range o.waiting {
		if !isAsking(o.byApp[app]) {
			delete(o.waiting, app) // as above
		}
		o.enqueue(app)
	}
}

// awaitUnreachable returns what foundUnreachable returns. The AppService is enqueued when another cluster
// is found unreachable.
func (o *Observations) awaitUnreachable(app types.NamespacedName) map[string]metav1.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[app] = true
	return maps.Clone(o.unreachable)
}

// isAsking reports whether an observation asks whether a missing workload is created.
func isAsking(clusters map[string]observation.Observation) bool {
	for _, seen := range clusters {
		if seen.Missing {
			return true
		}
	}
	return false
}

// foundUnreachable returns when each cluster was last found unreachable, without an observation since
// then.
func (o *Observations) foundUnreachable() map[string]metav1.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.unreachable)
}

// forgetUnreachable drops what is known about a cluster that is no member any more.
func (o *Observations) forgetUnreachable(cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.unreachable, cluster)
}

// ForgetCluster drops all observations of a cluster that can no longer be observed.
func (o *Observations) ForgetCluster(cluster string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for app, clusters := range o.byApp {
		if _, found := clusters[cluster]; found {
			delete(clusters, cluster)
			delete(o.since[app], cluster)
			o.enqueue(app)
		}
	}
}

// sinceOf returns since when there has been an observation of an AppService, by cluster.
func (o *Observations) sinceOf(app types.NamespacedName) map[string]metav1.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.since[app])
}

// of returns the observations of an AppService by cluster.
func (o *Observations) of(app types.NamespacedName) map[string]observation.Observation {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.byApp[app])
}

// has reports whether there is an observation of an AppService on a cluster.
func (o *Observations) has(app types.NamespacedName, cluster string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, found := o.byApp[app][cluster]
	return found
}

// dropUnanswered drops the observations that answer an entry which the AppService no longer has,
// from the store and from seen. The caller must have read seen from the store before it read the
// AppService: then the entry existed, and was removed since. Otherwise an old observation would
// answer the next entry of the cluster. Found objects are kept, because they have no entry.
func (o *Observations) dropUnanswered(app *v1alpha1.AppService, seen map[string]observation.Observation) {
	if !app.Status.HasSortedClusters() {
		return // the next plan sorts the entries, so that they can be found
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	current := o.byApp[client.ObjectKeyFromObject(app)]
	for cluster, old := range seen {
		if old.Found || app.Status.Cluster(cluster) != nil {
			continue
		}
		delete(seen, cluster)
		if newest, found := current[cluster]; found && newest.Same(old) {
			delete(current, cluster)
			delete(o.since[client.ObjectKeyFromObject(app)], cluster)
		}
	}
}

// drop drops the observations of an AppService on some clusters, before a status is written that they
// would answer by mistake. An answer to that status may arrive before the write returns. If the write
// fails, restore adds those again that no newer one has replaced.
func (o *Observations) drop(app types.NamespacedName, clusters []string) (restore func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped, since := map[string]observation.Observation{}, map[string]metav1.Time{}
	for _, cluster := range clusters {
		if seen, found := o.byApp[app][cluster]; found {
			dropped[cluster], since[cluster] = seen, o.since[app][cluster]
			delete(o.byApp[app], cluster)
			delete(o.since[app], cluster)
		}
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		for cluster, seen := range dropped {
			if _, found := o.byApp[app][cluster]; !found && o.byApp[app] != nil {
				o.byApp[app][cluster], o.since[app][cluster] = seen, since[cluster]
			}
		}
	}
}

// forgetApp drops all observations of a deleted AppService.
func (o *Observations) forgetApp(app types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byApp, app)
	delete(o.since, app)
	delete(o.waiting, app)
}

// listen is a source of the planner's controller: it enqueues what is reported from now on.
func (o *Observations) listen(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = queue
	return nil
}

func (o *Observations) enqueue(app types.NamespacedName) {
	if o.queue != nil { // before the start, because the start enqueues every AppService
		o.queue.AddAfter(reconcile.Request{NamespacedName: app}, o.delay)
	}
}
