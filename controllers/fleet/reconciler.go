package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollup"
)

// recheck is how often an AppService is looked at that waits for nothing but time.
const recheck = 10 * time.Second

// Reconciler plans AppServices.
type Reconciler struct {
	hub          client.Client
	observations *Observations
	pace         pace
}

// +kubebuilder:rbac:groups=fleetwright.dev,resources=appservices,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=appservices/status,verbs=patch
// +kubebuilder:rbac:groups=fleetwright.dev,resources=appservices/finalizers,verbs=update

// Reconcile brings the status of one AppService up to date.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	app := &v1alpha1.AppService{}
	if err := r.hub.Get(ctx, request.NamespacedName, app); err != nil {
		r.observations.forgetApp(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if app.DeletionTimestamp.IsZero() && !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer) {
		return reconcile.Result{}, r.setFinalizer(ctx, app, controllerutil.AddFinalizer)
	}
	status, err := r.status(ctx, app, metav1.Now().Rfc3339Copy())
	if err != nil {
		return reconcile.Result{}, err
	}
	if !app.DeletionTimestamp.IsZero() && len(status.Clusters) == 0 {
		return reconcile.Result{}, r.release(ctx, app)
	}
	return r.write(ctx, app, status, time.Now())
}

// status gathers what the status depends on, and has it computed.
func (r *Reconciler) status(ctx context.Context, app *v1alpha1.AppService, now metav1.Time) (v1alpha1.AppServiceStatus, error) {
	var members v1alpha1.MemberClusterList
	if err := r.hub.List(ctx, &members); err != nil {
		return v1alpha1.AppServiceStatus{}, fmt.Errorf("list MemberClusters: %w", err)
	}
	byName := make(map[string]*v1alpha1.MemberCluster, len(members.Items))
	for i := range members.Items {
		byName[members.Items[i].Name] = &members.Items[i]
	}
	plan, planError := placement.Decide(app, members.Items)
	return rollup.Status(rollup.Input{
		App:          app,
		Plan:         plan,
		PlanError:    planError,
		Members:      byName,
		Observations: r.observations.of(client.ObjectKeyFromObject(app)),
		Now:          now,
	}), nil
}

// write writes the status where it says something new, and not too often. Whoever else has written in the
// meantime is noticed by the resource version: then the cache is about to bring it.
func (r *Reconciler) write(ctx context.Context, app *v1alpha1.AppService, status v1alpha1.AppServiceStatus, now time.Time) (reconcile.Result, error) {
	if equality.Semantic.DeepEqual(app.Status, status) {
		return reconcile.Result{RequeueAfter: recheckAfter(app, status)}, nil
	}
	if wait := r.pace.wait(app.UID, now); wait > 0 && samePlan(app.Status, status) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	updated := app.DeepCopy()
	updated.Status = status
	err := r.hub.Status().Patch(ctx, updated, client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: 100 * time.Millisecond}, nil
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("write the status: %w", err)
	}
	r.pace.wrote(app.UID, now)
	return reconcile.Result{RequeueAfter: recheckAfter(app, status)}, nil
}

// recheckAfter is when to look again at a status that time alone may change; 0 for never. It is a Detached row
// that the deletion of its AppService lets go of after a while.
func recheckAfter(app *v1alpha1.AppService, status v1alpha1.AppServiceStatus) time.Duration {
	detached := func(row v1alpha1.ClusterStatus) bool { return row.Phase == v1alpha1.ClusterDetached }
	if !app.DeletionTimestamp.IsZero() && slices.ContainsFunc(status.Clusters, detached) {
		return recheck
	}
	return 0
}

// samePlan tells whether two statuses ask the same of every cluster.
func samePlan(a, b v1alpha1.AppServiceStatus) bool {
	return slices.EqualFunc(a.Clusters, b.Clusters, func(a, b v1alpha1.ClusterStatus) bool { return a.SamePlan(b) })
}

// release lets go of an AppService that no cluster runs any more.
func (r *Reconciler) release(ctx context.Context, app *v1alpha1.AppService) error {
	r.pace.forget(app.UID)
	return r.setFinalizer(ctx, app, controllerutil.RemoveFinalizer)
}

// setFinalizer adds or removes our finalizer, and touches nothing else.
func (r *Reconciler) setFinalizer(ctx context.Context, app *v1alpha1.AppService, change func(client.Object, string) bool) error {
	updated := app.DeepCopy()
	if !change(updated, v1alpha1.Finalizer) {
		return nil
	}
	patch := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
	if err := r.hub.Patch(ctx, updated, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the finalizer: %w", err)
	}
	return nil
}
