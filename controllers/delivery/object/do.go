package object

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// NamespaceLabels returns the labels that a namespace gets when it is created.
	NamespaceLabels func(ctx context.Context, namespace string) (map[string]string, error)
	// OnApply is called for each apply, with its error and its duration.
	OnApply func(err error, took time.Duration)
}

// Do does a step. It returns a conflict error if the member has another object than the cache
// shows.
func (m *Member) Do(ctx context.Context, step Step) (Result, error) {
	result := Result{Step: step}
	var err error
	switch step.Action {
	case NeedLive:
		return m.read(ctx, step, step.Need)
	case Create:
		err = m.create(ctx, step.Desired)
		result.UID = step.Desired.GetUID()
	case Record:
		result.Generation, err = m.writeRecord(ctx, step.Desired)
	case Adopt:
		err = m.adopt(ctx, step)
	case Correct, Update:
		err = m.applyTo(ctx, step.Object, step.Desired)
		if step.OnConflict != "" && apierrors.IsConflict(err) {
			return m.read(ctx, step, step.OnConflict)
		}
	}
	if err != nil {
		return Result{}, err
	}
	return result, nil
}

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
	m.OnApply(err, time.Since(begin))
	if err != nil {
		return fmt.Errorf("apply %s: %w", kind, err)
	}
	return nil
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
