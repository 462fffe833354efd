package object

import (
	"context"
	"fmt"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// MaxSteps is how many steps an object takes at most: one for each need, and the last.
const MaxSteps = 4

// Member is a member on which steps are done.
type Member struct {
	HubID string
	// Client writes to the member. Nothing is read by it.
	Client client.Client
	// Live reads from the member itself.
	Live client.Reader
	// NamespaceLabels returns the labels that a namespace gets when it is created. It may be nil.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// OnApply is called for each apply, with its error and its duration. It may be nil.
	OnApply func(err error, took time.Duration)
}

// Do does a step. It returns a conflict error if the member has another object than the cache shows.
func (m *Member) Do(ctx context.Context, step Step) (Result, error) {
	result := Result{Step: step}
	var err error
	switch step.Action {
	case NeedLive:
		return m.read(ctx, step)
	case Create:
		err = m.create(ctx, step.Desired)
		result.UID = step.Desired.GetUID()
	case Record:
		result.Generation, err = m.writeRecord(ctx, step.Desired)
	case Adopt:
		err = m.adopt(ctx, step)
	case Correct, Update:
		err = m.applyTo(ctx, step.Object, step.Desired)
		if step.Need != "" && apierrors.IsConflict(err) { // the member has another version
			return m.read(ctx, step)
		}
	}
	if err != nil {
		return Result{}, err
	}
	return result, nil
}

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

// writeRecord applies a Deployment with its record of copies, and returns its new generation: a
// change of its annotations raises it. If the member has another version, the watch brings the next
// try.
func (m *Member) writeRecord(ctx context.Context, desired *unstructured.Unstructured) (generation int64, err error) {
	switch err := m.apply(ctx, desired); {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return desired.GetGeneration(), nil
}

// read reads what a decision needs from the member itself.
func (m *Member) read(ctx context.Context, step Step) (Result, error) {
	live := step.live
	var err error
	switch step.Need {
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

// readObject returns an object as the member itself has it, with its managed fields, which the cache
// drops. It returns nil if the object is gone.
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
