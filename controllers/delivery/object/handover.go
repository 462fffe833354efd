package object

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// handOverReplicas gives the present replicas another owner, if Fleetwright owns them and the
// desired state has none.
// docs/decisions/replicas-are-handed-over.md says why.
func (m *Member) handOverReplicas(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	_, sets, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	if desired.GetKind() != "Deployment" || sets {
		return nil
	}
	current := &appsv1.Deployment{}
	if err := m.Live.Get(ctx, client.ObjectKeyFromObject(existing), current); err != nil {
		return fmt.Errorf("read the replicas: %w", err)
	}
	if current.UID != existing.GetUID() || !slices.ContainsFunc(current.ManagedFields, ownsReplicas) {
		return nil
	}
	kept := &unstructured.Unstructured{}
	kept.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	kept.SetNamespace(current.Namespace)
	kept.SetName(current.Name)
	kept.SetUID(current.UID)
	kept.SetResourceVersion(current.ResourceVersion) // the autoscaler may be about to change them
	_ = unstructured.SetNestedField(kept.Object, int64(ptr.Deref(current.Spec.Replicas, 1)), "spec", "replicas")
	if err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(kept), client.FieldOwner(ReplicasManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("hand over the replicas: %w", err)
	}
	return nil
}

// ownsReplicas reports whether an entry says that Fleetwright owns the replicas.
func ownsReplicas(entry metav1.ManagedFieldsEntry) bool {
	owned, err := fieldsOf(entry)
	return err == nil && entry.Manager == v1alpha1.ManagedBy && owned.Has(replicasPath)
}
