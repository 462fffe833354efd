package planner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

var (
	namespaceKind = corev1.SchemeGroupVersion.WithKind("Namespace")
	crdKind       = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}
)

// crdName is that of the CRD of AppServices.
var crdName = "appservices." + v1alpha1.GroupVersion.Group

// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=appservices.fleetwright.dev,verbs=get

// sweptBy returns what takes a deleted AppService away with all else that it holds, its namespace or its CRD, or nil when somebody
// deleted the AppService itself. Only that is evidence that the members are to lose it. It reads the hub itself; what it cannot
// read it concludes nothing from.
func (r *Reconciler) sweptBy(ctx context.Context, in rollout.Input) (*metav1.PartialObjectMetadata, error) {
	app := in.App
	if app.DeletionTimestamp.IsZero() || len(app.Status.Clusters) == 0 && !in.IsStatusLost() {
		return nil, nil
	}
	for _, holder := range []struct {
		kind schema.GroupVersionKind
		name string
	}{{namespaceKind, app.Namespace}, {crdKind, crdName}} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(holder.kind)
		if err := r.live.Get(ctx, client.ObjectKey{Name: holder.name}, object); err != nil {
			return nil, fmt.Errorf("read whether %s %s is being deleted: %w", holder.kind.Kind, holder.name, err)
		}
		if !object.DeletionTimestamp.IsZero() {
			object.SetGroupVersionKind(holder.kind)
			return object, nil
		}
	}
	return nil, nil
}

// letGo releases an AppService that goes with its namespace or its CRD, and takes nothing from the members, except from those that it was
// being removed from before: their MemberClusters get a tombstone, by which delivery ends that removal. Nothing new can be made in
// a namespace that goes, so the event is about what goes.
func (r *Reconciler) letGo(ctx context.Context, app *v1alpha1.AppService, in rollout.Input, swept *metav1.PartialObjectMetadata) error {
	if !controllerutil.ContainsFinalizer(app, v1alpha1.Finalizer) {
		return nil // it waits for others
	}
	if err := r.remember(ctx, in, in.TombstonesOfTermination()); err != nil {
		return err
	}
	if err := r.setFinalizer(ctx, app, controllerutil.RemoveFinalizer); err != nil {
		return client.IgnoreNotFound(err)
	}
	r.pace.forget(app.UID)
	kept := 0
	for _, row := range app.Status.Clusters {
		if row.Phase != v1alpha1.ClusterRemoving {
			kept++
		}
	}
	ctrl.LoggerFrom(ctx).Info("Let go of the AppService: the members keep what they run", "with", swept.Kind, "clusters", kept)
	r.events.Eventf(swept, app, corev1.EventTypeWarning, v1alpha1.ReasonNamespaceOrCRDDeleted, "NamespaceOrCRDDeleted",
		"AppService %s/%s goes with %s %s; %d clusters keep what they run of it", app.Namespace, app.Name, swept.Kind, swept.Name, kept)
	return nil
}
