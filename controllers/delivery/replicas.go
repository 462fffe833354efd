package delivery

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
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// replicasManager holds the number of replicas between the moment when we give it up and that when an autoscaler changes it. A field that
// nobody holds would fall back to its default: one.
const replicasManager = "fleetwright-replicas"

// leaveReplicas returns what is wanted of a Deployment that exists, without the replicas where an autoscaler sets them.
func (r *reconciler) leaveReplicas(ctx context.Context, t task, existing *appsv1.Deployment, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if t.row.MaxReplicas > 0 && ptr.Deref(existing.Spec.Replicas, 1) == 0 {
		return workload.WithReplicas(want, t.row.Replicas), nil // no autoscaler begins with none
	}
	left, err := r.withoutReplicas(ctx, t, existing, want)
	if err != nil || left == nil {
		return want, err
	}
	return left, nil
}

// withoutReplicas returns what is wanted but for the replicas, or nil where no autoscaler sets them. Whether there is one that is not
// ours is asked only when something would be changed.
func (r *reconciler) withoutReplicas(ctx context.Context, t task, existing *appsv1.Deployment, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	switch {
	case t.app.Spec.ExternallyScaled, t.row.MaxReplicas > 0:
		return want, nil // which has none
	case t.app.Spec.Autoscaling != nil:
		return nil, nil // the cluster's share is none
	}
	without, err := workload.WithoutReplicas(want)
	if err != nil {
		return nil, err
	}
	if isDrift(existing, without) && generationOf(existing) >= t.app.Generation {
		return without, nil // given up for this generation: an autoscaler that is away for a moment does not find them changed
	}
	// The replicas go with whatever else is sent, and the cache may be behind what an autoscaler has just set.
	difference, err := r.lacking(t, existing, want)
	if err != nil || difference.Empty() {
		return nil, err
	}
	found, err := r.autoscaler(ctx, existing)
	if apierrors.IsForbidden(err) { // somebody has raised them, or did before: perhaps an autoscaler
		raised := isDrift(existing, want) || isDrift(existing, without)
		found, err = raised && ptr.Deref(existing.Spec.Replicas, 1) > t.row.Replicas, nil
	}
	if err != nil || !found {
		return nil, err
	}
	return without, nil
}

// autoscaler tells whether a HorizontalPodAutoscaler scales the Deployment.
func (r *reconciler) autoscaler(ctx context.Context, deployment *appsv1.Deployment) (bool, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	err := r.live.List(ctx, &scalers, client.InNamespace(deployment.Namespace))
	if err != nil {
		return false, fmt.Errorf("look for an autoscaler: %w", err)
	}
	return slices.ContainsFunc(scalers.Items, func(scaler autoscalingv2.HorizontalPodAutoscaler) bool {
		target := scaler.Spec.ScaleTargetRef
		return target.Kind == "Deployment" && target.Name == deployment.Name
	}), nil
}

// handOverReplicas has another manager hold the replicas that there are, when we do and what is about to be applied has none.
func (r *reconciler) handOverReplicas(ctx context.Context, existing client.Object, want *unstructured.Unstructured) error {
	_, sets, _ := unstructured.NestedFieldNoCopy(want.Object, "spec", "replicas")
	if _, isDeployment := existing.(*appsv1.Deployment); !isDeployment || sets {
		return nil
	}
	current := &appsv1.Deployment{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(existing), current); err != nil {
		return fmt.Errorf("read the replicas: %w", err)
	}
	if current.UID != existing.GetUID() || !slices.ContainsFunc(current.ManagedFields, holdsReplicas) {
		return nil
	}
	held := &unstructured.Unstructured{}
	held.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	held.SetNamespace(current.Namespace)
	held.SetName(current.Name)
	held.SetUID(current.UID)
	held.SetResourceVersion(current.ResourceVersion) // the autoscaler may be about to change them
	_ = unstructured.SetNestedField(held.Object, int64(ptr.Deref(current.Spec.Replicas, 1)), "spec", "replicas")
	if err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(held), client.FieldOwner(replicasManager), client.ForceOwnership); err != nil {
		return fmt.Errorf("hand over the replicas: %w", err)
	}
	return nil
}

// holdsReplicas tells whether an entry says that we hold the replicas.
func holdsReplicas(entry metav1.ManagedFieldsEntry) bool {
	owned, err := held(entry)
	return err == nil && entry.Manager == v1alpha1.ManagedBy && owned.Has(fieldpath.MakePathOrDie("spec", "replicas"))
}
