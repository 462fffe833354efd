package delivery

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollup"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// obstacleRetry is when to look again at what only somebody else can change, and what no watch tells of.
const obstacleRetry = 2 * time.Minute

// Reporter takes what was observed.
type Reporter interface {
	// Report takes what was seen of an AppService on a cluster, in place of what was seen before.
	Report(app types.NamespacedName, cluster string, seen rollup.Observation)
	// ForgetCluster drops all that was seen on a cluster that cannot be observed any more.
	ForgetCluster(cluster string)
}

// reconciler delivers to one member.
type reconciler struct {
	hub      client.Reader // cached
	hubLive  client.Reader
	hubID    string
	member   client.Client // reads from the member's cache
	live     client.Reader
	cluster  string
	comparer comparer

	engagement *engagement
}

// task is one AppService on this member.
type task struct {
	app     *v1alpha1.AppService
	row     *v1alpha1.ClusterStatus
	objects live
}

// Reconcile brings what the member runs of one AppService in line with its row.
func (r *reconciler) Reconcile(ctx context.Context, request mcreconcile.Request) (reconcile.Result, error) {
	t, err := r.gather(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	intent := decide(t.app, t.row)
	switch intent {
	case leave:
		return reconcile.Result{}, nil
	case remove:
		return r.remove(ctx, t)
	}
	if obstacle := r.obstacles(t.app, t.objects); obstacle != nil {
		return r.stopped(t, obstacle)
	}
	if intent == await {
		return reconcile.Result{}, r.observe(t, t.row.ObservedGeneration)
	}
	return r.maintain(ctx, t)
}

// gather reads what is decided on. There may be no AppService, and no row.
func (r *reconciler) gather(ctx context.Context, key types.NamespacedName) (task, error) {
	app := &v1alpha1.AppService{}
	err := r.hub.Get(ctx, key, app)
	if apierrors.IsNotFound(err) {
		return task{}, nil
	}
	if err != nil {
		return task{}, fmt.Errorf("read AppService: %w", err)
	}
	objects, err := read(ctx, r.member, key)
	return task{app: app, row: app.Status.Cluster(r.cluster), objects: objects}, err
}

// read returns the member's objects of that name, each with its kind.
func read(ctx context.Context, from client.Reader, key types.NamespacedName) (live, error) {
	var objects live
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	switch err := from.Get(ctx, key, deployment); {
	case err == nil:
		deployment.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
		objects.deployment = deployment
	case !apierrors.IsNotFound(err):
		return live{}, fmt.Errorf("read Deployment: %w", err)
	}
	switch err := from.Get(ctx, key, service); {
	case err == nil:
		service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
		objects.service = service
	case !apierrors.IsNotFound(err):
		return live{}, fmt.Errorf("read Service: %w", err)
	}
	return objects, nil
}

// maintain applies what the member's objects do not hold yet, and observes them when they hold all.
func (r *reconciler) maintain(ctx context.Context, t task) (reconcile.Result, error) {
	want, err := workload.Render(t.app, t.row, r.hubID)
	if err != nil {
		return reconcile.Result{}, err
	}
	sent, err := r.bringInLine(ctx, t, want)
	switch {
	case err != nil:
		return r.failed(ctx, t, err)
	case sent:
		r.report(t, rollup.Observation{Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Applied: t.app.Generation})
		return reconcile.Result{}, nil // the watch brings what came of it
	}
	return reconcile.Result{}, r.observe(t, t.app.Generation)
}

// observe reports what the member runs, which has taken on the given generation.
func (r *reconciler) observe(t task, applied int64) error {
	seen := rollup.Observation{Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRollingOut, Applied: applied}
	if t.objects.deployment == nil {
		r.report(t, seen)
		return nil
	}
	seen, err := seen.WithDeployment(t.objects.deployment)
	if err != nil {
		return err
	}
	r.report(t, seen)
	return nil
}

// report reports an observation in answer to the task's row.
func (r *reconciler) report(t task, seen rollup.Observation) {
	seen.UID, seen.Generation, seen.Message = t.app.UID, t.row.Generation, clean(seen.Message)
	if d := t.objects.deployment; d != nil && r.foreign(t.app, d) == "" {
		seen.Replicas, seen.ReadyReplicas = d.Status.Replicas, d.Status.ReadyReplicas
	}
	r.engagement.report(client.ObjectKeyFromObject(t.app), r.cluster, seen)
}

// stopped reports what stands in the way, and looks again later: what it is may be of a kind that is not watched.
func (r *reconciler) stopped(t task, o *obstacle) (reconcile.Result, error) {
	phase := v1alpha1.ClusterFailed
	if t.row.Phase == v1alpha1.ClusterRemoving {
		phase = v1alpha1.ClusterRemoving
	}
	r.report(t, rollup.Observation{Phase: phase, Reason: o.reason, Message: o.message})
	return reconcile.Result{RequeueAfter: obstacleRetry}, nil
}
