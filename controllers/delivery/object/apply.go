package object

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// applyTo applies the desired state to an object that is owned or inherited.
func (m *Member) applyTo(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	if err := m.handOverReplicas(ctx, existing, desired); err != nil {
		return err
	}
	err := m.apply(ctx, desired)
	if !apierrors.IsInvalid(err) {
		return err
	}
	retry := m.pruneUnowned
	if _, isService := existing.(*corev1.Service); isService {
		// Server-side apply keeps a port of another manager beside the desired one, because the
		// number is the key of the list. But both have the same name, and names must differ. So the
		// port of the other manager is removed first.
		retry = m.replaceLists
	}
	if second := retry(ctx, existing, desired); !apierrors.IsInvalid(second) {
		return second
	}
	return err // which had another cause
}

// apply sends an object by server-side apply. The answer takes its place.
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

// replicasOnly has spec.replicas, which pruneUnowned leaves to its other owners: without an owner,
// the API server would reset it to 1. If it is desired, the apply takes it back.
var replicasOnly = fieldpath.NewSet(replicasPath)

// pruneUnowned applies the desired state again after it has taken over all fields without an owner,
// so that those that are not desired are removed. An HTTP probe that becomes a command keeps the
// scheme that the API server had filled in, which no manager owns: then the probe has two handlers,
// which is invalid. The same is true of every choice with defaults: the sources of volumes, the
// strategies of a Deployment.
// docs/decisions/an-invalid-apply-takes-over-unowned-fields.md says why.
func (m *Member) pruneUnowned(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	current, err := m.readObject(ctx, existing)
	if err != nil || current == nil {
		return err
	}
	unowned, err := specFields(current)
	if err != nil {
		return err
	}
	entries := slices.Clone(current.GetManagedFields())
	own := slices.IndexFunc(entries, isOwn)
	if own < 0 {
		return m.apply(ctx, desired)
	}
	for _, entry := range entries {
		fields, err := fieldsOf(entry)
		if err != nil {
			return err
		}
		unowned = unowned.Difference(fields)
	}
	owned, err := fieldsOf(entries[own])
	if err != nil {
		return err
	}
	if entries[own].FieldsV1, err = fieldsV1(owned.Union(unowned).Difference(replicasOnly)); err != nil {
		return err
	}
	return m.setManagedFields(ctx, current, entries, desired)
}

// replaceLists replaces the lists of an object that server-side apply would merge: the containers
// of a Deployment, the ports and the selector of a Service. Then it takes ownership.
func (m *Member) replaceLists(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	replaced, err := withDesiredLists(existing, desired)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := m.Client.Patch(ctx, replaced, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("replace the lists of %s %s: %w", KindOf(existing), existing.GetName(), err)
	}
	return m.takeOwnership(ctx, replaced, desired)
}

// withDesiredLists returns a copy of an object with the desired lists. It returns an error for a
// kind that it does not know.
func withDesiredLists(existing client.Object, desired *unstructured.Unstructured) (client.Object, error) {
	replaced := existing.DeepCopyObject().(client.Object)
	switch object := replaced.(type) {
	case *appsv1.Deployment:
		var spec appsv1.DeploymentSpec
		if err := convert(desired, &spec, "spec"); err != nil {
			return nil, err
		}
		object.Spec.Template.Spec = spec.Template.Spec
	case *corev1.Service:
		var spec corev1.ServiceSpec
		if err := convert(desired, &spec, "spec"); err != nil {
			return nil, err
		}
		object.Spec.Ports, object.Spec.Selector = keepNodePorts(spec.Ports, object.Spec.Ports), spec.Selector
		if spec.Type == corev1.ServiceTypeNodePort {
			object.Spec.Type = spec.Type // no other has nodePorts
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		object.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{}
		if err := convert(desired, &object.Spec, "spec"); err != nil {
			return nil, err
		}
	case *policyv1.PodDisruptionBudget:
		object.Spec = policyv1.PodDisruptionBudgetSpec{}
		if err := convert(desired, &object.Spec, "spec"); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("replace the lists of %s %s: the kind is unknown", desired.GetKind(), existing.GetName())
	}
	return replaced, nil
}

// takeOwnership applies the desired state so that no other manager owns its fields. A field that
// another manager owns as well would stay when it is not desired any more.
func (m *Member) takeOwnership(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	fields, err := ownableFields(desired)
	if err != nil {
		return err
	}
	entries, err := withSoleOwner(existing.GetManagedFields(), fields, desired.GetAPIVersion())
	if err != nil {
		return err
	}
	return m.setManagedFields(ctx, existing, entries, desired)
}

// setManagedFields replaces the managed fields of an object, and then applies the desired state.
func (m *Member) setManagedFields(ctx context.Context, existing client.Object, entries []metav1.ManagedFieldsEntry, desired *unstructured.Unstructured) error {
	taken := existing.DeepCopyObject().(client.Object)
	taken.SetManagedFields(entries)
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := m.Client.Patch(ctx, taken, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("take the fields of %s %s: %w", KindOf(existing), existing.GetName(), err)
	}
	return m.apply(ctx, desired)
}

// keepNodePorts gives ports the nodePorts that the member has chosen for them.
func keepNodePorts(desired, existing []corev1.ServicePort) []corev1.ServicePort {
	for i := range desired {
		for _, port := range existing {
			if port.Port == desired[i].Port && port.Protocol == desired[i].Protocol {
				desired[i].NodePort = cmp.Or(desired[i].NodePort, port.NodePort)
			}
		}
	}
	return desired
}
