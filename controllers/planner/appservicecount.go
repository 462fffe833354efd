package planner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Changes are counted after countDelay. While more of them follow within countQuiet, the count waits, up
// to maxCountDelay. So changes of many AppServices cost one count, and one write for each MemberCluster.
const (
	countDelay, countQuiet = time.Second, time.Second / 2
	maxCountDelay          = 5 * time.Second
)

// countRequest is the only request of the counter, because one pass counts for every MemberCluster.
var countRequest = reconcile.Request{NamespacedName: types.NamespacedName{Name: "memberclusters"}}

// counter writes status.appServices of MemberClusters.
//
// One pass over all entries of status.clusters serves every MemberCluster. A request for each
// MemberCluster would read the AppServices of each one separately, and a field index of the cluster
// names would keep two strings in memory for each entry.
type counter struct {
	hub client.Client

	mu sync.Mutex
	// first and last are the times of the changes that are not counted yet; first is zero without one.
	first, last time.Time
}

// SetupCounterWithManager adds a controller to the hub's manager that writes status.appServices of
// MemberClusters: the number of AppServices with an entry for the cluster in status.clusters.
func SetupCounterWithManager(hub manager.Manager) error {
	c := &counter{hub: hub.GetClient()}
	return ctrl.NewControllerManagedBy(hub).Named("appservice-count").
		Watches(&v1alpha1.AppService{}, c.enqueue(), builder.WithPredicates(entriesChanged())).
		Watches(&v1alpha1.AppServiceSlice{}, c.enqueue(), builder.WithPredicates(entriesChanged())).
		Watches(&v1alpha1.MemberCluster{}, c.enqueue(), builder.WithPredicates(countChanged())).
		Complete(c)
}

// Reconcile counts the AppServices of each MemberCluster and writes the numbers that changed. It
// reads the cache's own objects without copying them, and does not modify them.
func (c *counter) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if !c.takeChanges(time.Now()) {
		return reconcile.Result{RequeueAfter: countDelay}, nil
	}
	var apps v1alpha1.AppServiceList
	var parts v1alpha1.AppServiceSliceList
	var members v1alpha1.MemberClusterList
	if err := errors.Join(
		c.hub.List(ctx, &apps, client.UnsafeDisableDeepCopy),
		c.hub.List(ctx, &parts, client.UnsafeDisableDeepCopy),
		c.hub.List(ctx, &members, client.UnsafeDisableDeepCopy),
	); err != nil {
		return reconcile.Result{}, fmt.Errorf("list AppServices, AppServiceSlices and MemberClusters: %w", err)
	}
	counts := countByCluster(apps.Items, parts.Items)
	var errs []error
	for i := range members.Items {
		if member := &members.Items[i]; member.Status.AppServices != counts[member.Name] {
			errs = append(errs, c.write(ctx, member, counts[member.Name]))
		}
	}
	if errors.Is(ctx.Err(), context.Canceled) { // this process ends
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, errors.Join(errs...)
}

// countByCluster returns the number of AppServices with an entry for each cluster, by cluster name.
func countByCluster(apps []v1alpha1.AppService, parts []v1alpha1.AppServiceSlice) map[string]int32 {
	counts := map[string]int32{}
	visitEntries(apps, parts, func(_ types.NamespacedName, entries []v1alpha1.ClusterStatus) {
		for i := range entries {
			counts[entries[i].Name]++
		}
	})
	return counts
}

// visitEntries calls visit with all entries of each AppService: once with those of its status, and
// once with those of each of its slices.
func visitEntries(apps []v1alpha1.AppService, parts []v1alpha1.AppServiceSlice, visit func(types.NamespacedName, []v1alpha1.ClusterStatus)) {
	sliced := map[types.UID]bool{}
	for i := range apps {
		visit(client.ObjectKeyFromObject(&apps[i]), apps[i].Status.Clusters)
		sliced[apps[i].UID] = apps[i].Status.HasSlices()
	}
	for i := range parts {
		if part := &parts[i]; sliced[part.AppService.UID] && part.Name == v1alpha1.SliceName(part.AppService.Name, part.Slot) {
			visit(types.NamespacedName{Namespace: part.Namespace, Name: part.AppService.Name}, part.Clusters)
		}
	}
}

// write writes only the number. It needs no optimistic lock, because no other client writes this
// field and the number belongs to the name of the cluster.
func (c *counter) write(ctx context.Context, member *v1alpha1.MemberCluster, count int32) error {
	updated := member.DeepCopy()
	updated.Status.AppServices = count
	if err := c.hub.Status().Patch(ctx, updated, client.MergeFrom(member)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the number of AppServices of MemberCluster %s: %w", member.Name, err)
	}
	return nil
}

// enqueue returns an event handler that requests one count after countDelay.
func (c *counter) enqueue() handler.EventHandler {
	type workQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	later := func(q workQueue) {
		c.note(time.Now())
		q.AddAfter(countRequest, countDelay)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, _ event.CreateEvent, q workQueue) { later(q) },
		UpdateFunc: func(_ context.Context, _ event.UpdateEvent, q workQueue) { later(q) },
		DeleteFunc: func(_ context.Context, _ event.DeleteEvent, q workQueue) { later(q) },
	}
}

// note records a change.
func (c *counter) note(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = now
	if c.first.IsZero() {
		c.first = now
	}
}

// takeChanges reports whether it is time to count. If it is, the changes until now are no longer waiting.
func (c *counter) takeChanges(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.last) < countQuiet && now.Sub(c.first) < maxCountDelay {
		return false
	}
	c.first = time.Time{}
	return true
}

// entriesChanged passes the events of AppServices and of their slices that gain or drop an entry,
// or a place of entries. Entries are sorted by name.
func entriesChanged() predicate.Predicate {
	entriesOf := func(object client.Object) ([]v1alpha1.ClusterStatus, v1alpha1.ClustersIn) {
		if slice, isSlice := object.(*v1alpha1.AppServiceSlice); isSlice {
			return slice.Clusters, ""
		}
		app := object.(*v1alpha1.AppService)
		return app.Status.Clusters, app.Status.ClustersIn
	}
	hasEntries := func(object client.Object) bool {
		entries, in := entriesOf(object)
		return len(entries) > 0 || in != ""
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return hasEntries(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return hasEntries(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, inBefore := entriesOf(e.ObjectOld)
			after, inAfter := entriesOf(e.ObjectNew)
			sameName := func(a, b v1alpha1.ClusterStatus) bool { return a.Name == b.Name }
			return inBefore != inAfter || !slices.EqualFunc(before, after, sameName)
		},
	}
}

// countChanged passes new MemberClusters and changes of the number itself. A pass that read an old
// number from the cache is then followed by one that reads the written number.
func countChanged() predicate.Predicate {
	return predicate.Funcs{
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.MemberCluster), e.ObjectNew.(*v1alpha1.MemberCluster)
			return before.UID != after.UID || before.Status.AppServices != after.Status.AppServices
		},
	}
}
