package object

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// adopt takes over an object that is unmanaged, or belongs to an earlier AppService.
func (m *Member) adopt(ctx context.Context, step Step) error {
	switch step.takeOver {
	case takeFields:
		return m.takeOwnership(ctx, step.Object, step.Desired)
	case replaceLists:
		return m.replaceLists(ctx, step.Object, step.Desired)
	}
	return m.applyTo(ctx, step.Object, step.Desired)
}

// CheckAdoption returns an error if the member does not let Fleetwright change an object. Nothing is
// changed.
func (m *Member) CheckAdoption(ctx context.Context, existing client.Object) error {
	asked := existing.DeepCopyObject().(client.Object)
	err := m.Client.Patch(ctx, asked, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.FieldOwner(v1alpha1.ManagedBy), client.DryRunAll)
	if err != nil {
		return fmt.Errorf("ask whether %s %s can be adopted: %w", KindOf(existing), existing.GetName(), err)
	}
	return nil
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
		return fmt.Errorf("replace the lists of %s %s: %w", desired.GetKind(), existing.GetName(), err)
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

// withSoleOwner returns the entries of an object's managers after Fleetwright has become the only
// owner of the fields.
func withSoleOwner(entries []metav1.ManagedFieldsEntry, owned *fieldpath.Set, apiVersion string) ([]metav1.ManagedFieldsEntry, error) {
	var all []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if entry.Subresource == "" {
			fields, err := fieldsOf(entry)
			if err != nil {
				return nil, err
			}
			if fields = fields.Difference(owned); fields.Empty() || entry.Manager == v1alpha1.ManagedBy {
				continue
			}
			if entry.FieldsV1, err = fieldsV1(fields); err != nil {
				return nil, err
			}
		}
		all = append(all, entry)
	}
	fields, err := fieldsV1(owned)
	return append(all, metav1.ManagedFieldsEntry{
		Manager: v1alpha1.ManagedBy, Operation: metav1.ManagedFieldsOperationApply, APIVersion: apiVersion,
		Time: new(metav1.Now()), FieldsType: "FieldsV1", FieldsV1: fields,
	}), err
}

// setManagedFields replaces the managed fields of an object, and then applies the desired state.
func (m *Member) setManagedFields(ctx context.Context, existing client.Object, entries []metav1.ManagedFieldsEntry, desired *unstructured.Unstructured) error {
	taken := existing.DeepCopyObject().(client.Object)
	taken.SetManagedFields(entries)
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := m.Client.Patch(ctx, taken, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("take the fields of %s %s: %w", desired.GetKind(), existing.GetName(), err)
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
