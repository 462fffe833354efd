package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/queue"
)

// engagement is the time during which one connection to a member is delivered to. Observations are
// reported only while it lasts. It is safe for concurrent use.
type engagement struct {
	ctx      context.Context // the engagement ends with it
	member   cluster.Cluster
	reporter Reporter

	order *queue.Order[mcreconcile.Request] // of the queue

	mu    sync.Mutex
	queue workQueue // nil before the controller has started its sources
	ended bool
}

func newEngagement(ctx context.Context, member cluster.Cluster, reporter Reporter) *engagement {
	return &engagement{ctx: ctx, member: member, reporter: reporter, order: queue.NewOrder[mcreconcile.Request]()}
}

// newQueue returns the queue of the member's controller, which takes one goroutine. The default takes
// five for each member. It has no name, so it has no metrics: they would take another goroutine and
// a timer, and queues with one name overwrite each other's.
func (e *engagement) newQueue(_ string, limiter workqueue.TypedRateLimiter[mcreconcile.Request]) workQueue {
	return e.order.WorkQueue("", limiter)
}

func (e *engagement) begin(q workQueue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = q
}

// add enqueues an AppService.
func (e *engagement) add(request mcreconcile.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue != nil {
		e.queue.Add(request)
	}
}

// addAs enqueues an AppService in a class: what is new or has changed on the hub comes before the rest.
func (e *engagement) addAs(request mcreconcile.Request, class queue.Class) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue != nil {
		e.order.Add(e.queue, request, class)
	}
}

// pending returns how many AppServices are enqueued.
func (e *engagement) pending() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.queue == nil {
		return 0
	}
	return e.queue.Len()
}

func (e *engagement) report(app types.NamespacedName, cluster string, seen observation.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		e.reporter.Report(app, cluster, seen)
	}
}

func (e *engagement) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
}

// join makes an engagement the newest of its member, so that the hub's events reach it, and
// enqueues everything that is planned on the member. The engagement leaves when the context ends.
func (d *Deliverer) join(ctx context.Context, name multicluster.ClusterName, e *engagement) error {
	d.mu.Lock()
	d.engagements[name] = append(d.engagements[name], e)
	d.mu.Unlock()
	end := func() {
		e.end()
		d.leave(context.WithoutCancel(ctx), name, e)
	}
	context.AfterFunc(ctx, end)
	if err := d.enqueuePlanned(ctx, name, e); err != nil {
		end()
		return err
	}
	return nil
}

// leave removes an engagement. If another engagement of the member becomes the newest by that, it
// may have missed events of the hub: everything that is planned on the member is enqueued.
func (d *Deliverer) leave(ctx context.Context, name multicluster.ClusterName, e *engagement) {
	if newest := d.dropEngagement(name, e); newest != nil {
		if err := d.enqueuePlanned(ctx, name, newest); err != nil {
			ctrl.Log.WithName("delivery").Error(err, "Enqueue the plan of a member", "cluster", name)
		}
	}
}

// dropEngagement removes an engagement of a member. It returns the engagement that takes its place
// as the newest, or nil.
func (d *Deliverer) dropEngagement(name multicluster.ClusterName, e *engagement) *engagement {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.engagements[name]
	i := slices.Index(all, e)
	if i < 0 {
		return nil
	}
	left := slices.Delete(slices.Clone(all), i, i+1)
	if len(left) == 0 {
		delete(d.engagements, name)
		d.reporter.ForgetCluster(name.String())
		return nil
	}
	d.engagements[name] = left
	if i < len(left) {
		return nil // a newer one goes on
	}
	return left[len(left)-1]
}

// isEngaged reports whether a member has an engagement with this Cluster.
func (d *Deliverer) isEngaged(name multicluster.ClusterName, member cluster.Cluster) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.engagements[name], func(e *engagement) bool { return e.member == member && e.ctx.Err() == nil })
}

// newest returns the engagement of a member that gets the hub's events, or nil.
func (d *Deliverer) newest(name multicluster.ClusterName) *engagement {
	d.mu.Lock()
	defer d.mu.Unlock()
	if all := d.engagements[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// enqueuePlanned enqueues the AppServices that have an entry for a member, what is not applied there yet
// before the rest, and those that have a tombstone on it.
func (d *Deliverer) enqueuePlanned(ctx context.Context, name multicluster.ClusterName, e *engagement) error {
	planned, err := d.plannedOn(ctx, name.String())
	if err != nil {
		return err
	}
	for _, app := range planned {
		e.addAs(requestFor(name, app.key), app.class)
	}
	mc := &v1alpha1.MemberCluster{}
	if err := d.hub.GetClient().Get(ctx, client.ObjectKey{Name: name.String()}, mc); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read MemberCluster: %w", err)
	}
	for _, app := range mc.Status.Abandoned {
		e.add(requestFor(name, types.NamespacedName{Namespace: app.Namespace, Name: app.Name}))
	}
	return nil
}
