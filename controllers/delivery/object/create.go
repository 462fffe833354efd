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
func (m *Member) create(ctx context.Context, desired *unstructured.Unstructured) error {
	err := m.apply(ctx, desired)
	if !isNamespaceMissing(err, desired.GetNamespace()) {
		return err
	}
	if err := m.createNamespace(ctx, desired.GetNamespace()); err != nil {
		return err
	}
	return m.apply(ctx, desired)
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

// createNamespace creates a namespace with Fleetwright's marks, and with labels of the namespace on
// the hub. They are not updated later, because others on the member may set their own. A namespace
// is never deleted.
func (m *Member) createNamespace(ctx context.Context, name string) error {
	fromHub, err := m.NamespaceLabels(ctx, name)
	if err != nil {
		return err
	}
	labels := map[string]string{}
	maps.Copy(labels, fromHub)
	labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      labels,
		Annotations: map[string]string{v1alpha1.AnnotationHub: m.HubID},
	}}
	err = m.Client.Create(ctx, namespace, client.FieldOwner(v1alpha1.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Namespace %s: %w", name, err)
	}
	return nil
}
