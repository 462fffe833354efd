package delivery

import (
	"cmp"
	"context"
	"errors"
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
		return true, r.create(ctx, t.app, workload.WithReplicas(want, t.row.Replicas))
	}
	if existing.Spec.Selector != nil {
		if want, err = workload.KeepSelector(want, existing.Spec.Selector); err != nil {
			return false, err
		}
	}
	if want, err = r.leaveReplicas(ctx, t, existing, want); err != nil {
		return false, err
	}
	return r.bringObjectInLine(ctx, t, existing, want)
}

func (r *reconciler) bringServiceInLine(ctx context.Context, t task, want *unstructured.Unstructured) (sent bool, err error) {
	existing := t.objects.service
	switch {
	case want == nil && (existing == nil || !r.isOurs(t.app, existing)):
		return false, nil
	case want == nil:
		return true, r.takeAway(ctx, t, existing)
	case existing == nil:
		return true, r.create(ctx, t.app, want)
	}
	return r.bringObjectInLine(ctx, t, existing, want)
}

// bringObjectInLine sends what an object that exists does not hold: by its UID, so that one that took its place is not met.
func (r *reconciler) bringObjectInLine(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) (sent bool, err error) {
	if behind := ahead(t.app, existing); behind != nil && r.isOurs(t.app, existing) {
		return false, behind // of a part nobody has asked yet
	}
	difference, err := r.comparer.difference(existing, want)
	accepted := generationOf(existing) > t.app.Generation // or it would be an obstacle; it need not be accepted for ever
	if err != nil || difference.Empty() && !accepted {
		return false, err
	}
	if !existing.GetDeletionTimestamp().IsZero() {
		return false, &obstacle{reason: v1alpha1.ReasonRollingOut, passes: true, retry: removalPoll, message: fmt.Sprintf(
			"%s %s is being deleted on the member; it is made again when it is gone", kindOf(existing), existing.GetName())}
	}
	drifted := isDrift(existing, want) && !difference.Empty()
	if !r.isOurs(t.app, existing) || drifted || isPart(existing) { // and the watch of a part may have ended unnoticed
		// What is told of is asked of the member itself: its cache may be behind what was sent a moment ago.
		current, missing, err := r.reread(ctx, existing, want)
		switch {
		case err != nil:
			return true, err
		case current == nil && isPart(existing):
			return true, r.create(ctx, t.app, want)
		case current == nil: // the watch tells of that
			return true, nil
		case missing.Empty() && generationOf(current) <= t.app.Generation:
			return !isPart(existing), nil
		}
		existing, difference = current, missing
		if obstacle := r.obstacleOf(t.app, existing); obstacle != nil {
			return false, obstacle
		}
	}
	stamped := workload.Stamp(want, t.app.Generation)
	stamped.SetUID(existing.GetUID())
	switch owner, _ := r.ownerOf(t.app, existing); {
	case owner == strangers:
		return true, r.adopt(ctx, t, existing, stamped)
	case owner == predecessors:
		return true, r.inherit(ctx, t, existing, stamped)
	case drifted:
		return true, r.putBack(ctx, t, existing, stamped, difference)
	}
	return true, r.change(ctx, existing, stamped)
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

// change applies what is wanted to an object of ours.
func (r *reconciler) change(ctx context.Context, existing client.Object, want *unstructured.Unstructured) error {
	err := r.apply(ctx, want)
	if !apierrors.IsInvalid(err) {
		return err
	}
	again := r.claim
	if _, isService := existing.(*corev1.Service); isService {
		// Server-side apply keeps a port of somebody else's beside ours, for the number is the key of the list; but it bears
		// the name of ours, and names must differ. So theirs have to go first.
		again = r.replace
	}
	// Where that does not help, it was something else.
	if second := again(ctx, existing, want); !apierrors.IsInvalid(second) {
		return second
	}
	return err
}

// replicasOnly is what claim leaves to whoever else holds it: nobody's, they would fall back to their default, one. They are ours again by the
// apply, where they are wanted.
var replicasOnly = fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "replicas"))

// claim applies what is wanted once more, after taking all that nobody holds. A probe by HTTP that is to be one by a command keeps the
// scheme that the API server had filled in, which is nobody's: there are two ways to probe then, and that is refused. So it is with
// every choice that has defaults: the sources of volumes, the strategies of a Deployment. What is taken and not wanted goes, and defaults come back.
func (r *reconciler) claim(ctx context.Context, existing client.Object, want *unstructured.Unstructured) error {
	current, _, err := r.reread(ctx, existing, want)
	if err != nil || current == nil {
		return err
	}
	unheld, err := r.comparer.spec(current)
	if err != nil {
		return err
	}
	entries := slices.Clone(current.GetManagedFields())
	own := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.ManagedBy && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
	})
	if own < 0 {
		return r.apply(ctx, want)
	}
	for _, entry := range entries {
		fields, err := held(entry)
		if err != nil {
			return err
		}
		unheld = unheld.Difference(fields)
	}
	ours, err := held(entries[own])
	if err != nil {
		return err
	}
	if entries[own].FieldsV1, err = fieldsV1(ours.Union(unheld).Difference(replicasOnly)); err != nil {
		return err
	}
	return r.manage(ctx, current, entries, want)
}

// replace puts what is wanted in the place of the lists of an object that exists, which server-side apply would merge: the
// containers of a Deployment, the ports and the selector of a Service. Then it takes it.
func (r *reconciler) replace(ctx context.Context, existing client.Object, want *unstructured.Unstructured) error {
	replaced := existing.DeepCopyObject().(client.Object)
	switch object := replaced.(type) {
	case *appsv1.Deployment:
		var wanted appsv1.DeploymentSpec
		if err := convert(want, &wanted, "spec"); err != nil {
			return err
		}
		object.Spec.Template.Spec = wanted.Template.Spec
	case *corev1.Service:
		var wanted corev1.ServiceSpec
		if err := convert(want, &wanted, "spec"); err != nil {
			return err
		}
		object.Spec.Ports, object.Spec.Selector = keepNodePorts(wanted.Ports, object.Spec.Ports), wanted.Selector
		if wanted.Type == corev1.ServiceTypeNodePort {
			object.Spec.Type = wanted.Type // no other has nodePorts
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		object.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{}
		if err := convert(want, &object.Spec, "spec"); err != nil {
			return err
		}
	case *policyv1.PodDisruptionBudget:
		object.Spec = policyv1.PodDisruptionBudgetSpec{}
		if err := convert(want, &object.Spec, "spec"); err != nil {
			return err
		}
	}
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := r.member.Patch(ctx, replaced, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("replace what %s %s holds: %w", kindOf(existing), existing.GetName(), err)
	}
	return r.take(ctx, replaced, want)
}

// take applies what is wanted so that nobody else holds its fields: one that somebody else holds as well would stay when it is wanted no
// more.
func (r *reconciler) take(ctx context.Context, existing client.Object, want *unstructured.Unstructured) error {
	wanted, err := r.comparer.fields(want)
	if err != nil {
		return err
	}
	managers, err := holders(existing.GetManagedFields(), wanted, want.GetAPIVersion())
	if err != nil {
		return err
	}
	return r.manage(ctx, existing, managers, want)
}

// manage says anew who holds which fields, and then applies what is wanted.
func (r *reconciler) manage(ctx context.Context, existing client.Object, managers []metav1.ManagedFieldsEntry, want *unstructured.Unstructured) error {
	taken := existing.DeepCopyObject().(client.Object)
	taken.SetManagedFields(managers)
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := r.member.Patch(ctx, taken, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("take the fields of %s %s: %w", kindOf(existing), existing.GetName(), err)
	}
	return r.apply(ctx, want)
}

// keepNodePorts gives ports the nodePorts that the member has chosen for them.
func keepNodePorts(wanted, existing []corev1.ServicePort) []corev1.ServicePort {
	for i := range wanted {
		for _, port := range existing {
			if port.Port == wanted[i].Port && port.Protocol == wanted[i].Protocol {
				wanted[i].NodePort = cmp.Or(wanted[i].NodePort, port.NodePort)
			}
		}
	}
	return wanted
}

// create makes an object, and its namespace where that is missing.
func (r *reconciler) create(ctx context.Context, app *v1alpha1.AppService, want *unstructured.Unstructured) error {
	stamped := workload.Stamp(want, app.Generation)
	// An apply with a resource version makes an object, or fails when there is one: a foreign object that the cache,
	// which is selected by label, cannot show is never overwritten.
	stamped.SetResourceVersion("1")
	err := r.apply(ctx, stamped)
	if missesNamespace(err, app.Namespace) {
		if err := r.createNamespace(ctx, app.Namespace); err != nil {
			return err
		}
		err = r.apply(ctx, stamped)
	}
	return err
}

func (r *reconciler) apply(ctx context.Context, object *unstructured.Unstructured) error {
	begun := time.Now()
	err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	measureApply(r.cluster, err, time.Since(begun))
	if err != nil {
		return fmt.Errorf("apply %s: %w", object.GetKind(), err)
	}
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
