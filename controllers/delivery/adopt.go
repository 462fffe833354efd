package delivery

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// adoptionPoll is when to look again whether a Service can be adopted, beside what the watch tells.
const adoptionPoll = 10 * time.Second

// adopt takes over an object that is nobody's, as the conflict policy says. It reads the hub live first, because adoption cannot be
// undone. It restarts no pods, unless the pod template differs and the policy is Adopt; an event says so before.
func (r *reconciler) adopt(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) error {
	missing, err := r.comparer.difference(existing, essence(t, want))
	if err != nil {
		return err
	}
	template, err := r.templateChange(ctx, t, existing, want, missing)
	if err != nil {
		return err
	}
	if (template != "" || !missing.Empty()) && t.app.Spec.ConflictPolicy == v1alpha1.ConflictAdoptIfIdentical {
		_, whose := r.ownerOf(t.app, existing)
		return conflict(existing, whose+notIdentical(existing, want, missing, template))
	}
	if service, isService := existing.(*corev1.Service); isService && choosesOthers(service, want) && !r.rolledOut(t) {
		// Its traffic goes on to the pods that it chooses now until ours can take it.
		return &obstacle{reason: v1alpha1.ReasonRollingOut, passes: true, retry: adoptionPoll, message: "the Service is adopted when the Deployment has rolled out"}
	}
	if err := r.confirm(ctx, t); err != nil {
		return err
	}
	if template != "" {
		r.tell(t.app, existing, v1alpha1.ReasonAdoptionRestartsPods, "Adopt", "taking over %s %s replaces its pods, because its pod template changes: %s",
			kindOf(existing), existing.GetName(), template)
	}
	if missing.Empty() || isDeployment(existing) && !touchesTemplate(missing) {
		err = r.take(ctx, t, existing, want) // what is wanted no more, or never was, stays with whom it belongs to
	} else {
		err = r.replace(ctx, t, existing, want)
	}
	if err == nil {
		r.tell(t.app, existing, v1alpha1.ReasonAdopted, "Adopt", "%s %s was taken over for AppService %s", kindOf(existing), existing.GetName(), client.ObjectKeyFromObject(t.app))
	}
	return err
}

// inherit takes over what an AppService of this name left, of which the hub knows no more. The hub is asked live, so that
// an operator whose cache is behind does not give it back to the one before.
func (r *reconciler) inherit(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) error {
	if err := r.confirm(ctx, t); err != nil {
		return err
	}
	if err := r.change(ctx, t, existing, want); err != nil {
		return err
	}
	r.tell(t.app, existing, v1alpha1.ReasonAdopted, "Adopt", "%s %s was taken over from the AppService with UID %s",
		kindOf(existing), existing.GetName(), existing.GetAnnotations()[v1alpha1.AnnotationUID])
	return nil
}

// rolledOut tells whether the Deployment is ours, and all of it available.
func (r *reconciler) rolledOut(t task) bool {
	if t.objects.deployment == nil || !r.isOurs(t.app, t.objects.deployment) {
		return false
	}
	seen, err := observation.Observation{}.WithDeployment(t.objects.deployment)
	return err == nil && seen.Phase == v1alpha1.ClusterReady
}

// essence is what is wanted, but for what an object that is not ours cannot have: the marks, and a selector of ours. A Service has
// to choose the pods of an adopted Deployment already.
func essence(t task, want *unstructured.Unstructured) *unstructured.Unstructured {
	bare := want.DeepCopy()
	bare.SetUID("")
	bare.SetLabels(nil)
	bare.SetAnnotations(nil)
	if want.GetKind() != "Service" || !workload.HasOwnSelector(t.objects.deployment) {
		unstructured.RemoveNestedField(bare.Object, "spec", "selector")
	}
	return bare
}

// release leaves an object running and takes off our marks, so that it is nobody's. Fields that we set stay as they are, and
// belong to nobody.
func (r *reconciler) release(ctx context.Context, t task, object client.Object) error {
	if err := r.confirm(ctx, t); err != nil {
		return err
	}
	released := object.DeepCopyObject().(client.Object)
	labels, annotations := maps.Clone(object.GetLabels()), maps.Clone(object.GetAnnotations())
	for _, label := range []string{v1alpha1.LabelManagedBy, v1alpha1.LabelAppService} {
		delete(labels, label)
	}
	for _, annotation := range []string{v1alpha1.AnnotationHub, v1alpha1.AnnotationUID, v1alpha1.AnnotationGeneration, v1alpha1.AnnotationSpecHash, v1alpha1.AnnotationCreated, v1alpha1.AnnotationHash, v1alpha1.AnnotationOwnedKinds} {
		delete(annotations, annotation)
	}
	released.SetLabels(labels)
	released.SetAnnotations(annotations)
	released.SetManagedFields(withoutOurs(object.GetManagedFields()))
	if len(released.GetManagedFields()) == 0 {
		released.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // no entries at all would leave them as they are
	}
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := r.member.Patch(ctx, released, patch, client.FieldOwner(v1alpha1.ManagedBy)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("take the marks off %s: %w", kindOf(object), err)
	}
	r.tell(t.app, object, v1alpha1.ReasonOrphaned, "Orphan", "%s %s is left running, as deletionPolicy says", kindOf(object), object.GetName())
	return nil
}
