package planner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

var (
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")
	crdKind       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// crdName is the name of the CRD of AppServices.
var crdName = "appservices." + v1alpha1.GroupVersion.Group

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=appservices.fleetwright.dev,verbs=get

// deletedNamespaceOrCRD returns the namespace or the CRD whose deletion also deletes the
// AppService, or nil if the AppService itself was deleted. Only the latter is evidence that the
// members are to delete the workload. It reads from the API server, and a failed read is an error,
// never evidence. The result must not be modified.
//
// AppServices share these reads. A namespace is marked as being deleted before its AppServices are,
// so the read that judges a deletion must start after the deletion was seen: an earlier one may show
// a namespace that was not being deleted yet. When the status has the plan of the deletion, such a
// read was made. Later reads only find a namespace or a CRD that is deleted meanwhile, so they may
// be maxSharedAge old.
// docs/decisions/a-namespace-deletion-is-no-intent.md says why.
func (r *Reconciler) deletedNamespaceOrCRD(ctx context.Context, in rollout.Input) (*metav1.PartialObjectMetadata, error) {
	app := in.App
	if !app.IsDeleting() || len(app.Status.Clusters) == 0 && !in.IsStatusLost() {
		return nil, nil
	}
	after := time.Now()
	if !revise.IsEdited(app) {
		after = after.Add(-maxSharedAge)
	}
	for _, scope := range []objectName{{namespaceKind, app.Namespace}, {crdKind, crdName}} {
		object, err := r.sharedReads.get(ctx, scope, after)
		if err != nil {
			return nil, fmt.Errorf("check whether the AppService is deleted with its namespace or its CRD: %w", err)
		}
		if !object.DeletionTimestamp.IsZero() {
			return object, nil
		}
	}
	return nil, nil
}

// releaseWithNamespaceOrCRD removes the finalizer of an AppService that is deleted with its
// namespace or its CRD. The members keep what they run. Removals that were in progress continue:
// their MemberClusters get a tombstone, from which delivery completes them.
func (r *Reconciler) releaseWithNamespaceOrCRD(ctx context.Context, app *v1alpha1.AppService, in rollout.Input, deleted *metav1.PartialObjectMetadata) error {
	r.throttle.forget(app.UID)
	r.store.forget(app)
	r.telemetry.forget(app.UID)
	if !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer) {
		return nil // other finalizers remain
	}
	in.App = app // without entries that only ask whether a cluster has objects
	if err := r.writer.addTombstones(ctx, &in, in.TombstonesOfTermination()); err != nil {
		return err
	}
	if _, err := r.writer.setFinalizer(ctx, app, controllerutil.RemoveFinalizer); err != nil {
		return client.IgnoreNotFound(err)
	}
	kept := 0
	for i := range app.Status.Clusters {
		if app.Status.Clusters[i].Phase != v1alpha1.ClusterRemoving {
			kept++
		}
	}
	ctrl.LoggerFrom(ctx).Info("Released the AppService; the members keep the workload", "deletedWith", deleted.Kind, "clusters", kept)
	r.announcer.announceRelease(app, deleted, kept)
	return nil
}
