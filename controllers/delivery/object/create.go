package object

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// create creates an object, and its namespace if that is missing.
func (m *Member) create(ctx context.Context, facts Facts, desired *unstructured.Unstructured) (Result, error) {
	stamped := createOnly(stamp(facts, desired))
	err := m.apply(ctx, stamped)
	if isNamespaceMissing(err, facts.App.Namespace) {
		if err := m.createNamespace(ctx, facts.App.Namespace); err != nil {
			return Result{}, err
		}
		err = m.apply(ctx, stamped)
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Action: Created, AppliedHash: hashOf(desired), UID: stamped.GetUID()}, nil
}

// createOnly returns an object whose apply fails if there is an object of that name. The cache is
// selected by label, so it does not show unmanaged objects: an apply must not overwrite one. An
// apply with a resource version creates an object, or conflicts; no object has version 1.
// docs/decisions/a-create-never-merges.md says why.
func createOnly(desired *unstructured.Unstructured) *unstructured.Unstructured {
	created := desired.DeepCopy()
	created.SetResourceVersion("1")
	return created
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

// createNamespace creates a namespace with Fleetwright's marks, and with labels of the namespace on the
// hub. They are not updated later, because others on the member may set their own. A namespace is never
// deleted.
func (m *Member) createNamespace(ctx context.Context, name string) error {
	labels := map[string]string{}
	if m.NamespaceLabels != nil {
		fromHub, err := m.NamespaceLabels(ctx, name)
		if err != nil {
			return err
		}
		maps.Copy(labels, fromHub)
	}
	labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      labels,
		Annotations: map[string]string{v1alpha1.AnnotationHub: m.HubID},
	}}
	err := m.Client.Create(ctx, namespace, client.FieldOwner(v1alpha1.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Namespace %s: %w", name, err)
	}
	return nil
}
