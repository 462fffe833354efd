package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/queue"
)

// Start dispatches the hub's changes to the members that they concern, until the context ends.
func (d *Deliverer) Start(ctx context.Context) error {
	go object.LoadSchema() // while the members connect
	informer, err := d.hub.GetCache().GetInformer(ctx, &v1alpha1.AppService{})
	if err != nil {
		return fmt.Errorf("watch AppServices: %w", err)
	}
	apps, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(added any, isInInitialList bool) {
			if app, isApp := added.(*v1alpha1.AppService); isApp {
				if !isInInitialList {
					d.looks.noteAdded(app)
				}
				d.dispatch(ctx, &v1alpha1.AppService{}, app)
			}
		},
		UpdateFunc: func(before, after any) {
			d.dispatch(ctx, before.(*v1alpha1.AppService), after.(*v1alpha1.AppService))
		},
		DeleteFunc: func(gone any) {
			if last, isLast := gone.(toolscache.DeletedFinalStateUnknown); isLast {
				gone = last.Obj
			}
			if app, isApp := gone.(*v1alpha1.AppService); isApp {
				d.dispatchDeleted(app)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch AppServices: %w", err)
	}
	sliceInformer, err := d.hub.GetCache().GetInformer(ctx, &v1alpha1.AppServiceSlice{})
	if err != nil {
		return fmt.Errorf("watch AppServiceSlices: %w", err)
	}
	parts, err := sliceInformer.AddEventHandler(d.sliceEvents())
	if err != nil {
		return fmt.Errorf("watch AppServiceSlices: %w", err)
	}
	clusters, err := d.hub.GetCache().GetInformer(ctx, &v1alpha1.MemberCluster{})
	if err != nil {
		return fmt.Errorf("watch MemberClusters: %w", err)
	}
	members, err := clusters.AddEventHandler(d.memberEvents(ctx))
	if err != nil {
		return fmt.Errorf("watch MemberClusters: %w", err)
	}
	<-ctx.Done()
	return errors.Join(informer.RemoveEventHandler(apps), sliceInformer.RemoveEventHandler(parts), clusters.RemoveEventHandler(members))
}

// memberEvents returns the handler of MemberClusters.
func (d *Deliverer) memberEvents(ctx context.Context) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) {
			if mc, isMember := added.(*v1alpha1.MemberCluster); isMember && d.newest(multicluster.ClusterName(mc.Name)) != nil {
				d.dispatchMember(ctx, &v1alpha1.MemberCluster{}, mc)
			}
		},
		UpdateFunc: func(before, after any) {
			d.dispatchMember(ctx, before.(*v1alpha1.MemberCluster), after.(*v1alpha1.MemberCluster))
		},
		DeleteFunc: func(gone any) {
			if last, isLast := gone.(toolscache.DeletedFinalStateUnknown); isLast {
				gone = last.Obj
			}
			if mc, isMember := gone.(*v1alpha1.MemberCluster); isMember {
				unmeasure(mc.Name)
			}
		},
	}
}

// dispatchMember enqueues the tombstones of a member. If its labels changed, it enqueues everything
// that is planned there, because overrides and variables depend on labels.
func (d *Deliverer) dispatchMember(ctx context.Context, before, after *v1alpha1.MemberCluster) {
	name := multicluster.ClusterName(after.Name)
	e := d.newest(name)
	if e == nil {
		return
	}
	for _, app := range after.Status.Abandoned {
		e.add(requestFor(name, types.NamespacedName{Namespace: app.Namespace, Name: app.Name}))
	}
	if maps.Equal(before.Labels, after.Labels) {
		return
	}
	planned, err := d.plannedOn(ctx, after.Name)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Enqueue the plan of a member", "cluster", after.Name) // the cache only fails when it is closed
		return
	}
	for _, app := range planned {
		e.add(requestFor(name, app.key))
	}
}

// plannedApp is an AppService that has an entry for a member.
type plannedApp struct {
	key   types.NamespacedName
	class queue.Class // of the entry
}

// plannedOn returns the AppServices that have an entry for a member.
// docs/decisions/appservices-of-a-member-are-searched-for.md says why.
func (d *Deliverer) plannedOn(ctx context.Context, cluster string) ([]plannedApp, error) {
	var apps v1alpha1.AppServiceList
	if err := d.hub.GetClient().List(ctx, &apps, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list AppServices: %w", err)
	}
	var planned []plannedApp
	for i := range apps.Items {
		entry, _, err := entries.Of(ctx, d.hub.GetClient(), &apps.Items[i], cluster)
		if err != nil {
			return nil, err
		}
		if entry != nil {
			planned = append(planned, plannedApp{client.ObjectKeyFromObject(&apps.Items[i]), classOf(*entry)})
		}
	}
	return planned, nil
}

// dispatch enqueues an AppService on each member whose entry changed. A member whose entry is gone
// is included: the entry may have been lost, as by a restore, and what is still there has to be
// reported. An entry that was Removing goes when the removal is done, which the member's cache may
// show later; the member checks a removal again by itself.
func (d *Deliverer) dispatch(ctx context.Context, before, after *v1alpha1.AppService) {
	same := !d.noteUpdated(before, after) && before.UID == after.UID && before.Generation == after.Generation && before.Annotations[v1alpha1.AnnotationAcceptHub] == after.Annotations[v1alpha1.AnnotationAcceptHub] &&
		before.Status.IsHubBehind() == after.Status.IsHubBehind() && // on any cluster: it stops all clusters
		before.Status.ClustersIn == after.Status.ClustersIn &&
		sameInPlace(before.Status.Configuration, after.Status.Configuration) &&
		before.Status.HasSortedClusters() // otherwise members may not have found their entries
	key := client.ObjectKeyFromObject(after)
	d.dispatchEntries(key, before.Status.Clusters, after.Status.Clusters, same)
	switch {
	case after.Status.ClustersIn != v1alpha1.ClustersInSlices:
	case !same:
		d.dispatchSliced(ctx, after, func(v1alpha1.ClusterStatus) bool { return true })
	case lineage.IsRecorded(after) && !lineage.IsRecorded(before): // the slices may have been seen before this status
		d.dispatchSliced(ctx, after, func(entry v1alpha1.ClusterStatus) bool { return entry.Generation == after.Generation })
	}
}

// noteUpdated records what is new in an AppService, and reports whether it went back to an earlier
// state, as by a restore of the hub. Then each member reports again what it has.
func (d *Deliverer) noteUpdated(before, after *v1alpha1.AppService) (isRewound bool) {
	switch {
	case before.UID == "": // it was added
	case before.UID != after.UID:
		d.looks.noteAdded(after)
	case isOlder(after, before):
		d.looks.noteRewound(after.UID)
		return true
	case before.Status.ClustersIn == after.Status.ClustersIn: // otherwise the entries have moved
		d.looks.noteEntries(after.UID, before.Status.Clusters, after.Status.Clusters)
	}
	return false
}

// isOlder reports whether an object of the hub has an earlier resource version than another one.
func isOlder(object, other client.Object) bool {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	otherVersion, otherErr := strconv.ParseUint(other.GetResourceVersion(), 10, 64)
	return err == nil && otherErr == nil && version < otherVersion
}

// sameInPlace reports whether the sources that are updated in place have the same contents. All
// clusters get another content at once. That of other sources belongs to revisions.
func sameInPlace(before, after []v1alpha1.ConfigurationStatus) bool {
	contents := func(all []v1alpha1.ConfigurationStatus) map[configuration.Ref]string {
		found := map[configuration.Ref]string{}
		for _, source := range all {
			if source.Serial > 0 {
				found[configuration.Ref{Kind: source.Kind, From: source.From}] = fmt.Sprint(source.Snapshot, source.Serial)
			}
		}
		return found
	}
	return maps.Equal(contents(before), contents(after))
}

// dispatchEntries enqueues an AppService on each member whose entry changed, and on each member
// with an entry if the AppService itself is not the same.
func (d *Deliverer) dispatchEntries(app types.NamespacedName, before, after []v1alpha1.ClusterStatus, same bool) {
	previous := make(map[string]v1alpha1.ClusterStatus, len(before))
	for _, entry := range before {
		previous[entry.Name] = entry
	}
	for _, entry := range after {
		if old, found := previous[entry.Name]; !same || !found || !old.SamePlan(entry) {
			d.enqueueEntry(entry, app)
		}
		delete(previous, entry.Name)
	}
	for name, old := range previous {
		if old.Phase != v1alpha1.ClusterRemoving {
			d.enqueue(name, app)
		}
	}
}

// dispatchSliced enqueues an AppService on each member that has such an entry in its slices.
func (d *Deliverer) dispatchSliced(ctx context.Context, app *v1alpha1.AppService, isSuch func(v1alpha1.ClusterStatus) bool) {
	stored, err := entries.ReadSlices(ctx, d.hub.GetClient(), app)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Enqueue the plan of an AppService") // the cache only fails when it is closed
		return
	}
	for _, entry := range appslice.Join(stored) {
		if isSuch(entry) {
			d.enqueueEntry(entry, client.ObjectKeyFromObject(app))
		}
	}
}

// sliceEvents returns the handler of AppServiceSlices.
func (d *Deliverer) sliceEvents() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) {
			if slice, isSlice := added.(*v1alpha1.AppServiceSlice); isSlice {
				d.dispatchNewSlice(slice)
			}
		},
		UpdateFunc: func(old, updated any) {
			before, after := old.(*v1alpha1.AppServiceSlice), updated.(*v1alpha1.AppServiceSlice)
			if before.UID != after.UID || before.AppService != after.AppService { // see dispatchNewSlice
				d.dispatchNewSlice(after)
				return
			}
			if !isOlder(after, before) {
				d.looks.noteEntries(after.AppService.UID, before.Clusters, after.Clusters)
			}
			d.dispatchEntries(appOf(after), before.Clusters, after.Clusters, true)
		},
	}
}

// dispatchNewSlice enqueues an AppService on each member that belongs to a new slice. A member
// without an entry is included: if the slice was deleted by hand, its entry is lost, and what is
// still there has to be reported.
func (d *Deliverer) dispatchNewSlice(slice *v1alpha1.AppServiceSlice) {
	for _, name := range d.engaged() {
		if v1alpha1.SlotOf(name) == slice.Slot {
			d.enqueue(name, appOf(slice))
		}
	}
}

// engaged returns the names of the engaged members.
func (d *Deliverer) engaged() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make([]string, 0, len(d.engagements))
	for name := range d.engagements {
		names = append(names, name.String())
	}
	return names
}

// appOf returns the AppService of a slice.
func appOf(slice *v1alpha1.AppServiceSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.AppService.Name}
}

// dispatchDeleted enqueues an AppService that is gone on the members of its entries, which then
// forget it. An AppService goes without a removal when its namespace or its CRD is deleted. Its
// slices may be gone before it, so any member may have had an entry there.
func (d *Deliverer) dispatchDeleted(app *v1alpha1.AppService) {
	d.looks.forget(app.UID)
	for _, entry := range app.Status.Clusters {
		d.enqueue(entry.Name, client.ObjectKeyFromObject(app))
	}
	if app.Status.ClustersIn == v1alpha1.ClustersInSlices {
		for _, name := range d.engaged() {
			d.enqueue(name, client.ObjectKeyFromObject(app))
		}
	}
}

// enqueue enqueues an AppService that has changed on the hub.
func (d *Deliverer) enqueue(cluster string, app types.NamespacedName) {
	d.enqueueAs(queue.Edited, cluster, app)
}

// enqueueEntry enqueues an AppService on the cluster of an entry that changed.
func (d *Deliverer) enqueueEntry(entry v1alpha1.ClusterStatus, app types.NamespacedName) {
	d.enqueueAs(max(classOf(entry), queue.Edited), entry.Name, app)
}

// classOf returns the class of an entry: it is new if no generation was applied on the cluster yet, and
// edited if an older one was.
func classOf(entry v1alpha1.ClusterStatus) queue.Class {
	switch {
	case entry.ObservedGeneration == 0:
		return queue.New
	case entry.ObservedGeneration != entry.Generation:
		return queue.Edited
	}
	return queue.Other
}

func (d *Deliverer) enqueueAs(class queue.Class, cluster string, app types.NamespacedName) {
	name := multicluster.ClusterName(cluster)
	if e := d.newest(name); e != nil {
		e.addAs(requestFor(name, app), class)
	}
}
