package delivery

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// bringInLine sends what the member does not hold yet, and takes away a Service that is no longer wanted.
// It tells whether it sent anything.
func (r *reconciler) bringInLine(ctx context.Context, t task, want workload.Workload) (sent bool, err error) {
	pairs := []struct {
		existing client.Object
		want     *unstructured.Unstructured
	}{
		{orNil(t.objects.deployment), want.Deployment},
		{orNil(t.objects.service), want.Service},
	}
	for _, pair := range pairs {
		changed, err := r.bringObjectInLine(ctx, t, pair.existing, pair.want)
		if err != nil {
			return sent, err
		}
		sent = sent || changed
	}
	return sent, nil
}

// orNil turns a nil pointer into a nil interface.
func orNil[T any, P interface {
	*T
	client.Object
}](object P) client.Object {
	if object == nil {
		return nil
	}
	return object
}

func (r *reconciler) bringObjectInLine(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) (sent bool, err error) {
	switch {
	case want == nil && existing == nil:
		return false, nil
	case want == nil:
		return true, r.takeAway(ctx, t, existing)
	case existing == nil:
		return true, r.create(ctx, t.app, want)
	}
	same, err := r.comparer.holds(existing, want)
	if err != nil || same {
		return false, err
	}
	stamped := workload.Stamp(want, t.app.Generation)
	stamped.SetUID(existing.GetUID()) // not one that took its place
	err = r.apply(ctx, stamped)
	if service, isService := existing.(*corev1.Service); isService && apierrors.IsInvalid(err) {
		err = r.replacePorts(ctx, service, stamped)
	}
	return true, err
}

// replacePorts applies a Service whose ports somebody else has changed. Server-side apply keeps a port of theirs beside ours,
// for the number is the key of the list; but it bears the name of ours, and names must differ. So theirs have to go first.
func (r *reconciler) replacePorts(ctx context.Context, existing *corev1.Service, want *unstructured.Unstructured) error {
	replaced := existing.DeepCopy()
	replaced.Spec.Ports = nil
	ports, _, _ := unstructured.NestedSlice(want.Object, "spec", "ports")
	for _, port := range ports {
		var typed corev1.ServicePort
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(port.(map[string]any), &typed); err != nil {
			return fmt.Errorf("read the ports of the Service: %w", err)
		}
		replaced.Spec.Ports = append(replaced.Spec.Ports, typed)
	}
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := r.member.Patch(ctx, replaced, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("replace the ports of the Service: %w", err)
	}
	return r.apply(ctx, want)
}

// create makes an object, and its namespace where that is missing.
func (r *reconciler) create(ctx context.Context, app *v1alpha1.AppService, want *unstructured.Unstructured) error {
	stamped := workload.Stamp(want, app.Generation)
	// An apply with a resource version makes an object, or fails when there is one: a foreign object that the cache,
	// which is selected by label, cannot show is never overwritten.
	stamped.SetResourceVersion("1")
	err := r.apply(ctx, stamped)
	if missesNamespace(err, app.Namespace) {
		if err := r.createNamespace(ctx, app.Namespace); err != nil {
			return err
		}
		err = r.apply(ctx, stamped)
	}
	return err
}

func (r *reconciler) apply(ctx context.Context, object *unstructured.Unstructured) error {
	err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s: %w", object.GetKind(), err)
	}
	ctrl.LoggerFrom(ctx).Info("Applied", "kind", object.GetKind(), "generation", generationOf(object))
	return nil
}

// missesNamespace tells whether an apply failed because there is no such namespace.
func missesNamespace(err error, namespace string) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == namespace &&
		status.Status().Details.Kind == "namespaces"
}

// createNamespace makes the AppService's namespace, marked as made by us. It is never deleted.
func (r *reconciler) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		Annotations: map[string]string{v1alpha1.AnnotationHub: r.hubID},
	}}
	err := r.member.Create(ctx, namespace, client.FieldOwner(v1alpha1.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Namespace %s: %w", name, err)
	}
	return nil
}
