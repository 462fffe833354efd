package object

import (
	"context"
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// read reads what a decision needs from the member itself.
func (m *Member) read(ctx context.Context, step Step, need Need) (Result, error) {
	live := step.live
	var err error
	switch need {
	case NeedObject:
		live.Object, err = m.readObject(ctx, step.Object)
		live.IsGone = live.Object == nil
	case NeedAutoscalers:
		live.Scaling, err = m.readScaling(ctx, step.Object)
	case NeedDryRun:
		live.Answer, live.Refusal, err = m.dryRun(ctx, step)
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Step: step, Live: &live}, nil
}

// readObject returns an object as the member itself has it, with its managed fields, which the
// cache drops. It returns nil if the object is gone.
func (m *Member) readObject(ctx context.Context, existing client.Object) (client.Object, error) {
	current := existing.DeepCopyObject().(client.Object)
	if err := m.Live.Get(ctx, client.ObjectKeyFromObject(existing), current); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", KindOf(existing), err)
	}
	current.GetObjectKind().SetGroupVersionKind(existing.GetObjectKind().GroupVersionKind())
	return current, nil
}

// readScaling returns whether a HorizontalPodAutoscaler scales a Deployment.
func (m *Member) readScaling(ctx context.Context, deployment client.Object) (Scaling, error) {
	var scalers autoscalingv2.HorizontalPodAutoscalerList
	if err := m.Live.List(ctx, &scalers, client.InNamespace(deployment.GetNamespace())); apierrors.IsForbidden(err) {
		return ScalingForbidden, nil
	} else if err != nil {
		return "", fmt.Errorf("list HorizontalPodAutoscalers: %w", err)
	}
	return scalingBy(scalers.Items, deployment), nil
}

// scalingBy returns whether one of the autoscalers scales a Deployment.
func scalingBy(scalers []autoscalingv2.HorizontalPodAutoscaler, deployment client.Object) Scaling {
	isScaled := slices.ContainsFunc(scalers, func(scaler autoscalingv2.HorizontalPodAutoscaler) bool {
		target := scaler.Spec.ScaleTargetRef
		return target.Kind == "Deployment" && target.Name == deployment.GetName()
	})
	if isScaled {
		return Scaled
	}
	return NotScaled
}

// dryRun returns what an apply would give, or why the member refuses it.
func (m *Member) dryRun(ctx context.Context, step Step) (answer *unstructured.Unstructured, refusal, err error) {
	answer = step.Desired // the answer takes its place
	err = m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership, client.DryRunAll)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil, err, nil
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", step.question, err)
	}
	return answer, nil, nil
}
