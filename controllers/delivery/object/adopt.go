package object

import (
	"context"
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// adoptionPoll is when to check again whether a Service can be adopted, beside the events of the
// watch.
const adoptionPoll = 10 * time.Second

// adopt takes over an unmanaged object, as the conflict policy allows. It restarts no pods, unless
// the pod template differs and the policy is Adopt.
func (m *Member) adopt(ctx context.Context, facts Facts, existing Existing, desired *unstructured.Unstructured) (Result, error) {
	missing, err := m.Differ.missing(existing.Object, withoutIdentity(facts, desired))
	if err != nil {
		return Result{}, err
	}
	template, err := m.templateChange(ctx, facts, existing.Object, desired, missing)
	if err != nil {
		return Result{}, err
	}
	if (template != "" || !missing.Empty()) && facts.App.Spec.ConflictPolicy == v1alpha1.ConflictAdoptIfIdentical {
		return blocked(existing.Conflict(existing.OwnedBy + notIdentical(existing.Object, desired, missing, template)))
	}
	if service, isService := existing.Object.(*corev1.Service); isService && selectsOthers(service, desired) && !facts.HasRolledOut() {
		// Its traffic goes to the pods that it selects now until the pods of the Deployment are
		// ready.
		return blocked(&Blocker{Reason: v1alpha1.ReasonRollingOut, Transient: true, Retry: adoptionPoll, Message: "waiting for the Deployment to roll out; the Service is adopted afterwards"})
	}
	if err := facts.Verify(ctx); err != nil {
		return Result{}, err
	}
	if err := facts.BeforeAdopt(ctx, existing.Object); err != nil {
		return Result{}, err
	}
	if template != "" {
		facts.OnRestart(existing.Object, template)
	}
	result := Result{Action: Adopted, Object: existing.Object, AppliedHash: hashOf(desired)}
	if missing.Empty() || isDeployment(existing.Object) && !touchesTemplate(missing) {
		// Fields that are not desired stay with their owners.
		return result, m.takeOwnership(ctx, existing.Object, desired)
	}
	return result, m.replaceLists(ctx, existing.Object, desired)
}

// inherit takes over the object of an earlier AppService of this name, which the hub no longer
// has. The hub is read live, so that an operator whose cache is behind does not return the object to
// the earlier AppService.
// docs/decisions/objects-of-a-previous-appservice-are-inherited.md says why.
func (m *Member) inherit(ctx context.Context, facts Facts, existing Existing, desired *unstructured.Unstructured) (Result, error) {
	if err := facts.Verify(ctx); err != nil {
		return Result{}, err
	}
	if err := facts.BeforeAdopt(ctx, existing.Object); err != nil {
		return Result{}, err
	}
	result, err := m.applyTo(ctx, existing.Object, desired, Adopted)
	result.PreviousUID = types.UID(existing.GetAnnotations()[v1alpha1.AnnotationUID])
	return result, err
}

// withoutIdentity returns the desired object without what an unmanaged one cannot have: the marks,
// and the selector of Fleetwright. A Service must already select the pods of an adopted Deployment.
func withoutIdentity(facts Facts, desired *unstructured.Unstructured) *unstructured.Unstructured {
	bare := desired.DeepCopy()
	bare.SetUID("")
	bare.SetLabels(nil)
	bare.SetAnnotations(nil)
	if desired.GetKind() != "Service" || !workload.HasOwnSelector(facts.Deployment) {
		unstructured.RemoveNestedField(bare.Object, "spec", "selector")
	}
	return bare
}

// selectsOthers reports whether a Service selects other pods than it will when it is adopted.
func selectsOthers(service *corev1.Service, desired *unstructured.Unstructured) bool {
	selector, _, _ := unstructured.NestedStringMap(desired.Object, "spec", "selector")
	return !maps.Equal(service.Spec.Selector, selector)
}

// notIdentical returns what keeps an object from being adopted by AdoptIfIdentical, and what to do.
func notIdentical(existing client.Object, desired *unstructured.Unstructured, missing *fieldpath.Set, template string) string {
	differs, does := template, "replaces its pods"
	if !missing.Empty() {
		differs = differing(missing)
	}
	if template == "" {
		does = "changes it"
	}
	message := "; it is not identical, so spec.conflictPolicy AdoptIfIdentical does not adopt it: " + differs
	if name, differs := otherContainerName(existing, desired); differs {
		return fmt.Sprintf("%s; its container is named %q: set spec.containerName to that name", message, name)
	}
	return fmt.Sprintf("%s; change the AppService to match, or set spec.conflictPolicy to Adopt, which %s", message, does)
}

// otherContainerName returns the name of the only container of a Deployment, if no container of
// that name is desired.
func otherContainerName(existing client.Object, desired *unstructured.Unstructured) (string, bool) {
	deployment, isDeployment := existing.(*appsv1.Deployment)
	if !isDeployment || len(deployment.Spec.Template.Spec.Containers) != 1 {
		return "", false
	}
	var spec appsv1.DeploymentSpec
	if err := convert(desired, &spec, "spec"); err != nil {
		return "", false
	}
	name := deployment.Spec.Template.Spec.Containers[0].Name
	for _, container := range spec.Template.Spec.Containers {
		if container.Name == name {
			return "", false
		}
	}
	return name, true
}
