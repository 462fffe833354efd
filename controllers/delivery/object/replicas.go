package object

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

var replicasPath = fieldpath.MakePathOrDie("spec", "replicas")

// compare returns how an object differs from its desired state. The desired state of a Deployment
// has no spec.replicas if an autoscaler sets them.
func (m *Member) compare(ctx context.Context, facts Facts, desired *unstructured.Unstructured) (difference, error) {
	existing, isDeployment := facts.Existing.Object.(*appsv1.Deployment)
	switch {
	case !isDeployment:
	case facts.Entry.MaxReplicas > 0 && ptr.Deref(existing.Spec.Replicas, 1) == 0:
		desired = workload.WithReplicas(desired, facts.Entry.Replicas) // an autoscaler does not start from 0
	case facts.App.Spec.ExternallyScaled, facts.Entry.MaxReplicas > 0: // the desired state has no replicas
	case facts.App.Spec.Autoscaling != nil: // the share of the cluster is 0
	default:
		return m.compareReplicas(ctx, facts, existing, desired)
	}
	return m.difference(facts, desired)
}

// compareReplicas compares a Deployment with a desired state that has replicas, which an autoscaler
// that is not Fleetwright's may set.
func (m *Member) compareReplicas(ctx context.Context, facts Facts, existing *appsv1.Deployment, desired *unstructured.Unstructured) (difference, error) {
	without, err := workload.WithoutReplicas(desired)
	if err != nil {
		return difference{}, err
	}
	if isDrift(existing, without) && lineage.Of(existing).Generation >= facts.App.Generation {
		return m.difference(facts, without) // given up for this generation: an autoscaler that is gone for a moment loses nothing
	}
	found, err := m.difference(facts, desired)
	if err != nil || found.missing.Empty() {
		return found, err
	}
	// Any change sends the replicas too, and the cache may be behind what an autoscaler has just
	// set. An update that leaves the replicas as they are in the cache excludes that by the
	// version.
	isUpdate := facts.Existing.IsOwned() && !isDrift(existing, desired) && facts.AppliedHash != hashOf(desired)
	if isUpdate && !found.missing.Has(replicasPath) && !facts.cacheIsBehind {
		found.onlyVersion = existing.ResourceVersion
		return found, nil
	}
	scaled, err := m.hasAutoscaler(ctx, existing)
	if apierrors.IsForbidden(err) { // another manager has raised the replicas now or before: perhaps an autoscaler
		raised := isDrift(existing, desired) || isDrift(existing, without)
		scaled, err = raised && ptr.Deref(existing.Spec.Replicas, 1) > facts.Entry.Replicas, nil
	}
	if err != nil || !scaled {
		return found, err
	}
	return m.difference(facts, without)
}

// hasAutoscaler reports whether a HorizontalPodAutoscaler scales the Deployment.
func (m *Member) hasAutoscaler(ctx context.Context, deployment *appsv1.Deployment) (bool, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := m.Live.List(ctx, &scalers, client.InNamespace(deployment.Namespace)); err != nil {
		return false, fmt.Errorf("list HorizontalPodAutoscalers: %w", err)
	}
	return slices.ContainsFunc(scalers.Items, func(scaler autoscalingv2.HorizontalPodAutoscaler) bool {
		target := scaler.Spec.ScaleTargetRef
		return target.Kind == "Deployment" && target.Name == deployment.Name
	}), nil
}

// handOverReplicas gives the present replicas another owner, if Fleetwright owns them and the
// desired state has none.
// docs/decisions/replicas-are-handed-over.md says why.
func (m *Member) handOverReplicas(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	_, sets, _ := unstructured.NestedFieldNoCopy(desired.Object, "spec", "replicas")
	if !isDeployment(existing) || sets {
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
