package object

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// create creates an object, and its namespace if that is missing.
func (m *Member) create(ctx context.Context, app *v1alpha1.AppService, desired *unstructured.Unstructured) (Result, error) {
	stamped := createOnly(stamp(app, desired))
	err := m.apply(ctx, stamped)
	if isNamespaceMissing(err, app.Namespace) {
		if err := m.createNamespace(ctx, app.Namespace); err != nil {
			return Result{}, err
		}
		err = m.apply(ctx, stamped)
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Action: Created, AppliedHash: hashOf(desired)}, nil
}

// createOnly returns an object whose apply fails if there is an object of that name. The cache is
// selected by label, so it does not show unmanaged objects: an apply must not overwrite one. An
// apply with a resource version creates an object, or conflicts; no object has version 1.
func createOnly(desired *unstructured.Unstructured) *unstructured.Unstructured {
	created := desired.DeepCopy()
	created.SetResourceVersion("1")
	return created
}

// apply sends an object by server-side apply.
func (m *Member) apply(ctx context.Context, desired *unstructured.Unstructured) error {
	begin, kind := time.Now(), desired.GetKind()
	err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	if m.OnApply != nil {
		m.OnApply(err, time.Since(begin))
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", kind, err)
	}
	return nil
}

// dryRun returns what an apply of the object would give.
func (m *Member) dryRun(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	answer := desired.DeepCopy() // the answer takes the place of the object
	err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership, client.DryRunAll)
	return answer, err
}

// stamp returns the object with the stamp of the AppService's present state. The stamp is not
// compared: an edit that changes nothing on a member costs no write, nor does a new version of the
// operator.
func stamp(app *v1alpha1.AppService, desired *unstructured.Unstructured) *unstructured.Unstructured {
	stamped := workload.Stamp(desired, app.Generation)
	annotations := stamped.GetAnnotations()
	maps.Copy(annotations, lineage.For(app).Annotations())
	stamped.SetAnnotations(annotations)
	return stamped
}

// needsStamp reports whether an object has a stamp that the hub cannot account for. Such a stamp
// has been accepted, or the object would be blocked. It is replaced, so that it need not be
// accepted for ever.
func needsStamp(app *v1alpha1.AppService, existing client.Object) bool {
	found := lineage.Of(existing)
	return found.UID == app.UID && !lineage.IsPlanned(app, found)
}

// isNamespaceMissing reports whether an apply failed because the namespace does not exist.
func isNamespaceMissing(err error, namespace string) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == namespace &&
		status.Status().Details.Kind == "namespaces"
}

// createNamespace creates a namespace with Fleetwright's marks. It is never deleted.
func (m *Member) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		Annotations: map[string]string{v1alpha1.AnnotationHub: m.HubID},
	}}
	err := m.Client.Create(ctx, namespace, client.FieldOwner(v1alpha1.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Namespace %s: %w", name, err)
	}
	return nil
}
