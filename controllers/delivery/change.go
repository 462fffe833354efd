package delivery

import (
	"cmp"
	"context"
	"fmt"
	"slices"

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

// change applies what is wanted to an object of ours.
func (r *reconciler) change(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) error {
	if err := r.handOverReplicas(ctx, existing, want); err != nil {
		return err
	}
	err := r.apply(ctx, t, want)
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
	if second := again(ctx, t, existing, want); !apierrors.IsInvalid(second) {
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
func (r *reconciler) claim(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) error {
	current, _, err := r.reread(ctx, existing, want)
	if err != nil || current == nil {
		return err
	}
	unheld, err := r.comparer.spec(current)
	if err != nil {
		return err
	}
	entries := slices.Clone(current.GetManagedFields())
	own := slices.IndexFunc(entries, isOwn)
	if own < 0 {
		return r.apply(ctx, t, want)
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
	return r.manage(ctx, t, current, entries, want)
}

// replace puts what is wanted in the place of the lists of an object that exists, which server-side apply would merge: the
// containers of a Deployment, the ports and the selector of a Service. Then it takes it.
func (r *reconciler) replace(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) error {
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
	return r.take(ctx, t, replaced, want)
}

// take applies what is wanted so that nobody else holds its fields: one that somebody else holds as well would stay when it is wanted no
// more.
func (r *reconciler) take(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured) error {
	wanted, err := r.comparer.fields(want)
	if err != nil {
		return err
	}
	managers, err := holders(existing.GetManagedFields(), wanted, want.GetAPIVersion())
	if err != nil {
		return err
	}
	return r.manage(ctx, t, existing, managers, want)
}

// manage says anew who holds which fields, and then applies what is wanted.
func (r *reconciler) manage(ctx context.Context, t task, existing client.Object, managers []metav1.ManagedFieldsEntry, want *unstructured.Unstructured) error {
	taken := existing.DeepCopyObject().(client.Object)
	taken.SetManagedFields(managers)
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := r.member.Patch(ctx, taken, patch, client.FieldOwner(v1alpha1.ManagedBy)); err != nil {
		return fmt.Errorf("take the fields of %s %s: %w", kindOf(existing), existing.GetName(), err)
	}
	return r.apply(ctx, t, want)
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
