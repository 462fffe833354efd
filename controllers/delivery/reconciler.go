package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/tracing"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

const (
	// blockerRetry is when to check again for a blocker that only a person can remove, and that no
	// watch reports.
	blockerRetry = 2 * time.Minute
	// appliedPoll is when to check again what was applied, beside the events of the watch.
	appliedPoll = 10 * time.Second
)

// Reporter receives observations.
type Reporter interface {
	// Report replaces the observation of an AppService on a cluster.
	Report(app types.NamespacedName, cluster string, seen observation.Observation)
	// ForgetCluster drops the observations of a cluster that cannot be observed any more.
	ForgetCluster(cluster string)
}

// reconciler delivers to one member.
type reconciler struct {
	hub     client.Reader // cached
	hubID   string
	cluster string

	reader     objectReader
	confirmer  confirmer
	revisions  *reader.Reader
	objects    *object.Member
	remover    remover
	copies     *copies.Ensurer
	announcer  announcer
	tombstones tombstones
	engagement *engagement
	looks      *looks
	memories   memories
}

// task is one AppService on this member.
type task struct {
	app *v1alpha1.AppService
	// spec is what the cluster is to run. It differs from that of app if the cluster keeps an older
	// revision. It is nil without an AppService.
	spec *v1alpha1.AppServiceSpec
	// podSecurity is what the pod template of the spec must comply with, or nil.
	podSecurity *v1alpha1.PodSecurity
	entry       *v1alpha1.ClusterStatus
	member      *v1alpha1.MemberCluster // nil if the hub has none
	objects     objects
	memory      *memory // nil without an entry
	// copies are the copies of ConfigMaps and Secrets that the member needs, and copyNames has their
	// names for the pod template. Both are empty if nothing travels with the AppService.
	copies    []workload.Copy
	copyNames workload.Copies
	traced    *tracing.Reconcile // nil without an AppService
}

// Reconcile makes the member run what the entry of one AppService says.
func (r *reconciler) Reconcile(ctx context.Context, request mcreconcile.Request) (reconcile.Result, error) {
	// A tombstone must not delay the AppService that has the name now.
	waiting, tombstoneErr := r.tombstones.process(ctx, request.NamespacedName)
	t, err := r.gather(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, errors.Join(tombstoneErr, err)
	}
	result, err := r.deliverTraced(ctx, t)
	err = errors.Join(tombstoneErr, err)
	if waiting && err == nil && result.RequeueAfter == 0 {
		result.RequeueAfter = removalPoll
	}
	return result, err
}

// gather reads what is decided on. There may be no AppService, and no entry. While it is not known
// whether there is an entry, the result is the same as without an AppService. It does not copy the
// AppService and the MemberCluster of the cache, because an AppService may have a thousand entries.
// They must not be modified.
// docs/decisions/cached-objects-are-read-without-a-copy.md says why.
func (r *reconciler) gather(ctx context.Context, key types.NamespacedName) (task, error) {
	app := &v1alpha1.AppService{}
	err := r.hub.Get(ctx, key, app, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		r.memories.forget(key)
		return task{}, nil
	}
	if err != nil {
		return task{}, fmt.Errorf("read AppService: %w", err)
	}
	member := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: r.cluster}, member, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		member = nil
	} else if err != nil {
		return task{}, fmt.Errorf("read MemberCluster: %w", err)
	}
	entry, known, err := entries.Of(ctx, r.hub, app, r.cluster)
	if err != nil || !known { // the planner writes a missing slice again
		return task{}, err
	}
	app = withRevisionOf(app, entry)
	t := task{app: app, spec: &app.Spec, entry: entry, member: member}
	if t.entry == nil {
		r.memories.forget(key)
	} else {
		t.memory = r.memories.of(app)
	}
	t.objects, err = r.reader.fromCache(ctx, app, entry)
	if t.memory != nil && t.objects.deployment != nil {
		t.memory.records.countObserved(t.objects.deployment)
	}
	return t, err
}

// deliver decides, acts and reports.
func (r *reconciler) deliver(ctx context.Context, t task) (reconcile.Result, error) {
	intent := decide(t.app, t.entry)
	switch intent {
	case leave:
		r.reportUnplanned(t)
		return reconcile.Result{}, nil
	case remove:
		return r.remove(ctx, t)
	}
	var snapshots []configuration.Named
	if intent == maintain {
		desired, err := r.revisions.DesiredFor(ctx, t.app, t.entry)
		if err != nil {
			return r.handleError(ctx, t, err)
		}
		t.spec, t.podSecurity, snapshots = &desired.Spec, desired.PodSecurity, desired.Configuration
	}
	if blocker := t.objects.blocker(t.spec); blocker != nil {
		return r.reportBlocked(ctx, t, blocker)
	}
	if t.member == nil { // the entry is about to be Detached, or the cache is about to have the MemberCluster
		result, err := r.observe(ctx, t, t.entry.ObservedGeneration)
		result.RequeueAfter = cmp.Or(result.RequeueAfter, appliedPoll)
		return result, err
	}
	if intent == observeOnly {
		return r.observe(ctx, t, t.entry.ObservedGeneration)
	}
	t, err := withConfiguration(t, snapshots)
	if err != nil {
		return r.handleError(ctx, t, err)
	}
	if isWaiting, result, err := r.awaitsAnswer(ctx, t); isWaiting {
		return result, err
	}
	changed, err := r.renderAndMaintain(ctx, t)
	if apierrors.IsConflict(err) {
		changed, err = r.resolveConflict(ctx, t)
	}
	return r.reportMaintained(ctx, t, changed, err)
}

// renderAndMaintain renders the desired objects for what the member has, and makes it hold them.
func (r *reconciler) renderAndMaintain(ctx context.Context, t task) (changed bool, err error) {
	desired, err := render(t, r.hubID)
	if err != nil {
		return false, err
	}
	unwanted, err := r.reader.addOptional(ctx, t, desired)
	if err != nil {
		return false, err
	}
	return r.maintain(ctx, t, desired, unwanted)
}

// reportMaintained reports what came of maintaining the objects. If nothing was left to change, it
// observes the member.
func (r *reconciler) reportMaintained(ctx context.Context, t task, changed bool, err error) (reconcile.Result, error) {
	switch {
	case err != nil:
		return r.handleError(ctx, t, err)
	case changed:
		r.report(t, observation.Observation{Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Applied: t.app.Generation})
		// The watch brings the outcome, unless an admission webhook has undone the change at once.
		return reconcile.Result{RequeueAfter: appliedPoll}, nil
	}
	result, err := r.observe(ctx, t, t.app.Generation)
	if wait := t.memory.copies.UntilDeletion(time.Now()); err == nil && wait > 0 {
		result.RequeueAfter = cmp.Or(min(result.RequeueAfter, wait), wait)
	}
	return result, err
}

// errStale is returned when the member's cache does not show yet what was applied a moment ago.
var errStale = errors.New("the member's cache is behind")

// resolveConflict reads the member itself after a conflict. Either it has an object that the cache
// does not show, because the object is unmanaged or has lost its label, or the cache is behind and
// the watch brings the next try.
func (r *reconciler) resolveConflict(ctx context.Context, t task) (changed bool, err error) {
	t.objects, err = r.reader.fromMember(ctx, t.app, t.entry)
	if err != nil {
		return false, err
	}
	if blocker := t.objects.blocker(t.spec); blocker != nil {
		return false, blocker
	}
	hidden := t.objects.hasOptional()
	for _, existing := range t.objects.all() {
		hidden = hidden || !existing.IsOwned() || existing.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy
	}
	if !hidden {
		return false, errStale
	}
	for _, known := range t.memory.objects {
		known.createTime = time.Time{}
	}
	return r.renderAndMaintain(ctx, t)
}
