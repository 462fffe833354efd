package object

import (
	"context"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Delete deletes an object by its UID, so that an object that took its place stays. The caller must
// have verified the deletion with the hub. The pods of a Deployment are deleted before it. No other
// object has dependents to wait for, and the wait never ends where the member's garbage collector
// does not run. If the object is gone already, the error is NotFound.
func (m *Member) Delete(ctx context.Context, object client.Object) error {
	return m.deleteOnly(ctx, object, client.Preconditions{UID: new(object.GetUID())})
}

// DeleteVersion deletes an object like [Member.Delete], but only this version of it. If the object
// has changed since the cache has seen it, the error is a conflict, or NotFound.
func (m *Member) DeleteVersion(ctx context.Context, object client.Object) error {
	return m.deleteOnly(ctx, object, client.Preconditions{UID: new(object.GetUID()), ResourceVersion: new(object.GetResourceVersion())})
}

func (m *Member) deleteOnly(ctx context.Context, object client.Object, only client.Preconditions) error {
	propagation := metav1.DeletePropagationBackground
	if KindOf(object) == "Deployment" {
		propagation = metav1.DeletePropagationForeground
	}
	err := m.Client.Delete(ctx, object, only, client.PropagationPolicy(propagation))
	if err != nil {
		return fmt.Errorf("delete %s: %w", KindOf(object), err)
	}
	return nil
}

// Release leaves an object running and removes Fleetwright's marks, so that it is unmanaged. The
// caller must have verified the release with the hub. Fields that Fleetwright set stay as they are,
// without an owner.
func (m *Member) Release(ctx context.Context, object client.Object) error {
	released := object.DeepCopyObject().(client.Object)
	labels, annotations := maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())
	for _, label := range []string{v1alpha1.LabelManagedBy, v1alpha1.LabelAppService} {
		delete(labels, label)
	}
	for _, annotation := range []string{
		v1alpha1.AnnotationHub, v1alpha1.AnnotationUID, v1alpha1.AnnotationGeneration, v1alpha1.AnnotationSpecHash,
		v1alpha1.AnnotationCreated, v1alpha1.AnnotationHash, v1alpha1.AnnotationRevision, v1alpha1.AnnotationPlacement,
		v1alpha1.AnnotationOwnedKinds, v1alpha1.AnnotationCopies,
	} {
		delete(annotations, annotation)
	}
	released.SetLabels(labels)
	released.SetAnnotations(annotations)
	released.SetManagedFields(otherManagers(object.GetManagedFields()))
	if len(released.GetManagedFields()) == 0 {
		released.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // no entries at all would leave them as they are
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := m.Client.Patch(ctx, released, patch, client.FieldOwner(v1alpha1.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the marks of %s: %w", KindOf(object), err)
	}
	return nil
}
