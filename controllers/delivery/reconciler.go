package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/rollup"
	"github.com/fleetwright/fleetwright/controllers/tracing"
)

// obstacleRetry is when to look again at what only somebody else can change, and what no watch tells of.
const obstacleRetry = 2 * time.Minute

// sentPoll is when to look at what was sent, beside what the watch tells.
const sentPoll = 10 * time.Second

// Reporter takes what was observed.
type Reporter interface {
	// Report takes what was seen of an AppService on a cluster, in place of what was seen before.
	Report(app types.NamespacedName, cluster string, seen rollup.Observation)
	// ForgetCluster drops all that was seen on a cluster that cannot be observed any more.
	ForgetCluster(cluster string)
}

// reconciler delivers to one member.
type reconciler struct {
	hub       client.Reader // cached
	hubLive   client.Reader
	hubWriter client.StatusClient
	hubEvents events.EventRecorder
	hubID     string
	member    client.Client // reads from the member's cache
	live      client.Reader
	// memberEvents returns the member's recorder, which costs something once it is used.
	memberEvents func() events.EventRecorder
	cluster      string
	comparer     comparer

	engagement *engagement
	watches    *watches
	memories   memories
}

// task is one AppService on this member.
type task struct {
	app     *v1alpha1.AppService
	row     *v1alpha1.ClusterStatus
	member  *v1alpha1.MemberCluster // nil when the hub has none
	objects live
	memory  *memory            // nil without an entry
	traced  *tracing.Reconcile // nil without an AppService
}

// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters/status,verbs=patch

// Reconcile brings what the member runs of one AppService in line with its row.
func (r *reconciler) Reconcile(ctx context.Context, request mcreconcile.Request) (reconcile.Result, error) {
	waiting, cleanUpErr := r.cleanUp(ctx, request.NamespacedName) // which must not keep one that is there now from being delivered
	t, err := r.gather(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, errors.Join(cleanUpErr, err)
	}
	result, err := r.deliverTraced(ctx, t)
	err = errors.Join(cleanUpErr, err)
	if waiting && err == nil && result.RequeueAfter == 0 {
		result.RequeueAfter = removalPoll
	}
	return result, err
}

func (r *reconciler) deliver(ctx context.Context, t task) (reconcile.Result, error) {
	intent := decide(t.app, t.row)
	switch intent {
	case leave:
		r.found(t)
		return reconcile.Result{}, nil
	case remove:
		return r.remove(ctx, t)
	}
	if obstacle := r.obstacles(t.app, t.objects); obstacle != nil {
		return r.stopped(ctx, t, obstacle)
	}
	if t.member == nil { // its row is about to be Detached, or the cache is about to bring it
		result, err := r.observe(ctx, t, t.row.ObservedGeneration)
		result.RequeueAfter = cmp.Or(result.RequeueAfter, sentPoll)
		return result, err
	}
	if intent == await {
		return r.observe(ctx, t, t.row.ObservedGeneration)
	}
	return r.maintain(ctx, t)
}

// found reports objects of an AppService, or of one before it, that has no row for this member: its status was lost, as by a restore.
// What is being deleted already, and what the tombstone of another AppService is about, is not reported.
func (r *reconciler) found(t task) {
	if t.app == nil || t.row != nil || !slices.ContainsFunc(t.objects.all(), func(o client.Object) bool {
		owner, _ := r.ownerOf(t.app, o)
		return o.GetDeletionTimestamp().IsZero() && (owner == ours || owner == predecessors && !t.member.IsAbandoned(lineage.Of(o).UID))
	}) {
		return
	}
	r.engagement.report(client.ObjectKeyFromObject(t.app), r.cluster, rollup.Observation{UID: t.app.UID, Found: true, Planned: foundReplicas(t.objects.deployment)})
}

func foundReplicas(deployment *appsv1.Deployment) int32 {
	if deployment == nil {
		return 0
	}
	return ptr.Deref(deployment.Spec.Replicas, 1)
}

// gather reads what is decided on. There may be no AppService, and no row.
func (r *reconciler) gather(ctx context.Context, key types.NamespacedName) (task, error) {
	app := &v1alpha1.AppService{}
	err := r.hub.Get(ctx, key, app)
	if apierrors.IsNotFound(err) {
		r.memories.forget(key)
		return task{}, nil
	}
	if err != nil {
		return task{}, fmt.Errorf("read AppService: %w", err)
	}
	member := &v1alpha1.MemberCluster{}
	if err := r.hub.Get(ctx, client.ObjectKey{Name: r.cluster}, member); apierrors.IsNotFound(err) {
		member = nil
	} else if err != nil {
		return task{}, fmt.Errorf("read MemberCluster: %w", err)
	}
	t := task{app: app, row: app.Status.Cluster(r.cluster), member: member}
	if t.row == nil {
		r.memories.forget(key)
	} else {
		t.memory = r.memories.of(app)
	}
	t.objects, err = read(ctx, r.member, key)
	return t, err
}

// read returns the member's objects of that name, each with its kind.
func read(ctx context.Context, from client.Reader, key types.NamespacedName) (live, error) {
	var objects live
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	switch err := from.Get(ctx, key, deployment); {
	case err == nil:
		setKind(deployment)
		tame(&deployment.Spec)
		objects.deployment = deployment
	case !apierrors.IsNotFound(err):
		return live{}, fmt.Errorf("read Deployment: %w", err)
	}
	switch err := from.Get(ctx, key, service); {
	case err == nil:
		setKind(service)
		objects.service = service
	case !apierrors.IsNotFound(err):
		return live{}, fmt.Errorf("read Service: %w", err)
	}
	return objects, nil
}

// readLive returns what the member itself has of that name, with the parts that may be there.
func (r *reconciler) readLive(ctx context.Context, key types.NamespacedName) (live, error) {
	objects, err := read(ctx, r.live, key)
	if err != nil {
		return live{}, err
	}
	for _, p := range parts {
		if !objects.mayHave(p) {
			continue
		}
		object, err := p.read(ctx, r.live, key, objects.lists(p))
		if err != nil {
			return live{}, err
		}
		if object != nil {
			objects.parts = append(objects.parts, object)
		}
	}
	return objects, nil
}

// maintain applies what the member's objects do not hold yet, and observes them when they hold all.
func (r *reconciler) maintain(ctx context.Context, t task) (reconcile.Result, error) {
	sent, err := r.bringInLine(ctx, t)
	if apierrors.IsConflict(err) {
		sent, err = r.meet(ctx, t)
	}
	switch {
	case err != nil:
		return r.failed(ctx, t, err)
	case sent:
		r.report(t, rollup.Observation{Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Applied: t.app.Generation})
		// The watch brings what came of it; nothing, where an admission webhook undoes it at once.
		return reconcile.Result{RequeueAfter: sentPoll}, nil
	}
	return r.observe(ctx, t, t.app.Generation)
}

// errBehind is met where the member's cache does not show yet what was sent a moment ago. It is about to.
var errBehind = errors.New("the member's cache is behind")

// meet looks at the member itself after a conflict: either an object is there that the cache does not show because it
// is foreign, or has lost the label that it is selected by, or the cache is behind and the watch will bring the next try.
func (r *reconciler) meet(ctx context.Context, t task) (sent bool, err error) {
	objects, err := r.readLive(ctx, client.ObjectKeyFromObject(t.app))
	if err != nil {
		return false, err
	}
	if obstacle := r.obstacles(t.app, objects); obstacle != nil {
		return false, obstacle
	}
	unseen := func(o client.Object) bool {
		return !r.isOurs(t.app, o) || o.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy
	}
	if !slices.ContainsFunc(objects.all(), unseen) && len(objects.parts) == 0 {
		return false, errBehind
	}
	t.objects = objects
	return r.bringInLine(ctx, t)
}

// observe reports what the member runs, which has taken on the given generation.
func (r *reconciler) observe(ctx context.Context, t task, applied int64) (reconcile.Result, error) {
	seen := rollup.Observation{Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Applied: applied}
	if t.objects.deployment == nil || !r.isOurs(t.app, t.objects.deployment) {
		r.report(t, seen)
		return reconcile.Result{}, nil
	}
	seen, err := seen.WithDeployment(t.objects.deployment)
	if err != nil {
		return reconcile.Result{}, err
	}
	seen, again := r.diagnose(ctx, t, seen)
	seen, again = r.withDropped(t, seen, again)
	r.report(t, seen)
	return reconcile.Result{RequeueAfter: again}, nil
}

// report reports an observation in answer to the task's row.
func (r *reconciler) report(t task, seen rollup.Observation) {
	seen.UID, seen.Generation, seen.Message = t.app.UID, t.row.Generation, clean(seen.Message)
	if d := t.objects.deployment; d != nil && r.isOurs(t.app, d) {
		seen = seen.WithCounts(d)
	}
	if service := t.objects.service; service != nil && r.isOurs(t.app, service) {
		seen = seen.WithService(service)
	}
	seen.Planned = t.row.Replicas
	if seen.Phase != t.row.Phase || seen.Reason != t.row.Reason {
		t.traced.Came(string(seen.Phase), seen.Reason)
	}
	r.engagement.report(client.ObjectKeyFromObject(t.app), r.cluster, seen)
}

// stopped reports what stands in the way, and looks again later: what it is may be of a kind that is not watched.
func (r *reconciler) stopped(ctx context.Context, t task, o *obstacle) (reconcile.Result, error) {
	if o.reason == v1alpha1.ReasonHubBehind {
		return r.reportBehind(ctx, t, o)
	}
	phase := v1alpha1.ClusterFailed
	switch {
	case t.row.Phase == v1alpha1.ClusterRemoving:
		phase = v1alpha1.ClusterRemoving
	case o.passes:
		phase = v1alpha1.ClusterProgressing
	}
	r.report(t, rollup.Observation{Phase: phase, Reason: o.reason, Message: o.message})
	return reconcile.Result{RequeueAfter: o.after()}, nil
}
