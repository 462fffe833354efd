package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// bringInLine sends what the member does not hold yet, and takes away a Service that is no longer wanted.
// It tells whether it sent anything. An obstacle is returned as an error.
func (r *reconciler) bringInLine(ctx context.Context, t task) (sent bool, err error) {
	want, err := workload.Render(t.app, t.row, t.member, r.hubID)
	if workload.IsInvalid(err) {
		return false, &obstacle{reason: v1alpha1.ReasonInvalidOverride, message: err.Error()}
	}
	if err == nil {
		want, err = want.KeepSelector(t.objects.deployment, t.objects.service)
	}
	if errors.Is(err, workload.ErrNoLabels) {
		return false, &obstacle{reason: v1alpha1.ReasonConflict, message: err.Error()}
	}
	if err != nil {
		return false, err
	}
	existing, err := r.existingParts(ctx, t, want)
	if err != nil {
		return false, err
	}
	for _, step := range []func() (bool, error){
		func() (bool, error) { return r.dropParts(ctx, t, want) },
		func() (bool, error) { return r.bringDeploymentInLine(ctx, t, want.Deployment) },
		func() (bool, error) { return r.bringServiceInLine(ctx, t, want.Service) },
		func() (bool, error) { return r.bringPartsInLine(ctx, t, want, existing) },
	} {
		changed, err := step()
		if sent = sent || changed; err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func (r *reconciler) bringDeploymentInLine(ctx context.Context, t task, want *unstructured.Unstructured) (sent bool, err error) {
	existing := t.objects.deployment
	if existing == nil {
		// What an autoscaled one begins with is no part of what is compared later.
		return true, r.create(ctx, t, workload.WithReplicas(want, t.row.Replicas))
	}
	if want, err = r.leaveReplicas(ctx, t, existing, want); err != nil {
		return false, err
	}
	return r.bringObjectInLine(ctx, t, existing, want)
}

func (r *reconciler) bringServiceInLine(ctx context.Context, t task, want *unstructured.Unstructured) (sent bool, err error) {
	existing := t.objects.service
	switch {
	case want == nil:
		t.memory.forgetPruned("Service")
		return r.dropService(ctx, t, existing)
	case existing == nil:
		return true, r.create(ctx, t, want)
	}
	return r.bringObjectInLine(ctx, t, existing, want)
}

// dropService deletes a Service that is not wanted, and reports whether it did. A Service of a previous AppService of this name is
// inherited, so it goes as well.
func (r *reconciler) dropService(ctx context.Context, t task, existing *corev1.Service) (dropped bool, err error) {
	if existing == nil || !r.isInherited(t.app, existing) {
		return false, nil
	}
	if behind := r.ahead(t.app, existing); behind != nil {
		return true, behind
	}
	return true, r.takeAway(ctx, t, existing)
}

// bringObjectInLine sends what an object that exists does not hold: by its UID, so that one that took its place is not met.
func (r *reconciler) bringObjectInLine(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) (sent bool, err error) {
	if behind := r.ahead(t.app, existing); behind != nil {
		return false, behind // of a part nobody has asked yet
	}
	difference, err := r.lacking(t, existing, want)
	if err != nil || difference.Empty() && !needsStamp(t.app, existing) {
		return false, err
	}
	if !existing.GetDeletionTimestamp().IsZero() {
		return false, &obstacle{reason: v1alpha1.ReasonRollingOut, passes: true, retry: removalPoll, message: fmt.Sprintf(
			"%s %s is being deleted on the member; it is made again when it is gone", kindOf(existing), existing.GetName())}
	}
	drifted := !difference.Empty() && (isDrift(existing, want) || t.memory.hasApplied(want))
	if !r.isOurs(t.app, existing) || drifted || isPart(existing) { // and the watch of a part may have ended unnoticed
		// What is told of is asked of the member itself: its cache may be behind what was sent a moment ago.
		current, missing, err := r.reread(ctx, existing, want)
		if err != nil {
			return true, err
		}
		if current == nil || missing.Empty() && !needsStamp(t.app, current) {
			return r.nothingToChange(ctx, t, existing, current != nil, want)
		}
		existing, difference, drifted = current, missing, drifted || isDrift(current, want)
		if obstacle := r.obstacleOf(t.app, existing); obstacle != nil {
			return false, obstacle
		}
	}
	stamped := stamp(t.app, want)
	stamped.SetUID(existing.GetUID())
	switch owner, _ := r.ownerOf(t.app, existing); {
	case owner == strangers:
		return true, r.adopt(ctx, t, existing, stamped)
	case owner == predecessors:
		return true, r.inherit(ctx, t, existing, stamped)
	case drifted:
		return r.correct(ctx, t, existing, stamped, difference)
	}
	return true, r.change(ctx, t, existing, stamped)
}

// nothingToChange is for an object that only the cache has, or that only the cache has otherwise. The watch tells of that; it may not, of a part.
func (r *reconciler) nothingToChange(ctx context.Context, t task, object client.Object, there bool, want *unstructured.Unstructured) (sent bool, err error) {
	switch {
	case !isPart(object):
		return true, nil
	case there:
		return false, nil
	}
	return true, r.create(ctx, t, want)
}

// reread returns an object as the member itself has it, with the managers of its fields, which the cache does not keep; and what it
// lacks; nil for one that is gone.
func (r *reconciler) reread(ctx context.Context, existing client.Object, want *unstructured.Unstructured) (client.Object, *fieldpath.Set, error) {
	current := existing.DeepCopyObject().(client.Object)
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(existing), current); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", kindOf(existing), err)
	}
	current.GetObjectKind().SetGroupVersionKind(existing.GetObjectKind().GroupVersionKind())
	difference, err := r.comparer.difference(current, want)
	return current, difference, err
}

// create makes an object, and its namespace where that is missing.
func (r *reconciler) create(ctx context.Context, t task, want *unstructured.Unstructured) error {
	stamped := stamp(t.app, want)
	// An apply with a resource version makes an object, or fails when there is one: a foreign object that the cache,
	// which is selected by label, cannot show is never overwritten.
	stamped.SetResourceVersion("1")
	err := r.apply(ctx, t, stamped)
	if missesNamespace(err, t.app.Namespace) {
		if err := r.createNamespace(ctx, t.app.Namespace); err != nil {
			return err
		}
		err = r.apply(ctx, t, stamped)
	}
	return err
}

func (r *reconciler) apply(ctx context.Context, t task, object *unstructured.Unstructured) error {
	begun, annotations := time.Now(), object.GetAnnotations() // the answer takes the place of the object
	err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	measureApply(r.cluster, err, time.Since(begun))
	if err != nil {
		return fmt.Errorf("apply %s: %w", object.GetKind(), err)
	}
	t.memory.applied[object.GetKind()] = annotations[v1alpha1.AnnotationHash]
	ctrl.LoggerFrom(ctx).Info("Applied", "kind", object.GetKind(), "generation", generationOf(object))
	return nil
}

// missesNamespace tells whether an apply failed because there is no such namespace.
func missesNamespace(err error, namespace string) bool {
	if !apierrors.IsNotFound(err) {
		return false
	}
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Name == namespace &&
		status.Status().Details.Kind == "namespaces"
}

// createNamespace makes the AppService's namespace, marked as made by us. It is never deleted.
func (r *reconciler) createNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:        name,
		Labels:      map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy},
		Annotations: map[string]string{v1alpha1.AnnotationHub: r.hubID},
	}}
	err := r.member.Create(ctx, namespace, client.FieldOwner(v1alpha1.ManagedBy))
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create Namespace %s: %w", name, err)
	}
	return nil
}
