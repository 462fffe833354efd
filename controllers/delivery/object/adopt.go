package object

import (
	"fmt"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// adoptionPoll is when to check again whether a Service can be adopted, beside the events of the
// watch.
const adoptionPoll = 10 * time.Second

// adopt takes over an unmanaged object, as the conflict policy allows. It restarts no pods, unless
// the pod template differs and the policy is Adopt.
func (d *decision) adopt() (Step, error) {
	found, err := diff(d.current.Object, d.withoutIdentity())
	if err != nil {
		return Step{}, err
	}
	missing := found.missing
	if d.needsAnswer(missing) {
		return d.dryRun("ask what adoption changes of Deployment " + d.current.GetName()), nil
	}
	template, err := d.templateChange(missing)
	if err != nil {
		return Step{}, err
	}
	if (template != "" || !missing.Empty()) && d.adoptsIdentical() {
		return d.blocked(d.current.Conflict(d.current.OwnedBy + d.notIdentical(missing, template))), nil
	}
	if service, isService := d.current.Object.(*corev1.Service); isService && selectsOthers(service, d.desired) && !d.HasRolledOut {
		// Its traffic goes to the pods that it selects now until the pods of the Deployment are
		// ready.
		return d.blocked(&Blocker{Reason: v1alpha1.ReasonRollingOut, Transient: true, Retry: adoptionPoll, Message: "waiting for the Deployment to roll out; the Service is adopted afterwards"}), nil
	}
	step := d.applyStep(Adopt)
	step.Restart, step.takeOver = template, replaceLists
	if missing.Empty() || d.desired.GetKind() == "Deployment" && !touchesTemplate(missing) {
		step.takeOver = takeFields // fields that are not desired stay with their owners
	}
	return step, nil
}

func (d *decision) adoptsIdentical() bool {
	return d.App.Spec.ConflictPolicy == v1alpha1.ConflictAdoptIfIdentical
}

// withoutIdentity returns the desired object without what an unmanaged one cannot have: the marks,
// and the selector of Fleetwright. A Service must already select the pods of an adopted Deployment.
func (d *decision) withoutIdentity() *unstructured.Unstructured {
	bare := d.desired.DeepCopy()
	bare.SetUID("")
	bare.SetLabels(nil)
	bare.SetAnnotations(nil)
	if bare.GetKind() != "Service" || !d.KeepsSelector {
		unstructured.RemoveNestedField(bare.Object, "spec", "selector")
	}
	return bare
}

// selectsOthers reports whether a Service selects other pods than it will when it is adopted.
func selectsOthers(service *corev1.Service, desired *unstructured.Unstructured) bool {
	selector, _, _ := unstructured.NestedStringMap(desired.Object, "spec", "selector")
	return !maps.Equal(service.Spec.Selector, selector)
}

// needsAnswer reports whether only the member can say how adoption would change the pod template of
// a Deployment: an apply also changes the order of lists, which the comparison of fields does not
// see.
func (d *decision) needsAnswer(missing *fieldpath.Set) bool {
	// If fields differ, AdoptIfIdentical refuses the object anyhow, and the member may refuse it
	// too.
	isDecided := touchesTemplate(missing) || !missing.Empty() && d.adoptsIdentical()
	return d.desired.GetKind() == "Deployment" && !isDecided && !d.isAnswered()
}

// templateChange returns how adoption would change the pod template of a Deployment, which replaces
// its pods, or nothing.
func (d *decision) templateChange(missing *fieldpath.Set) (string, error) {
	deployment, isDeployment := d.current.Object.(*appsv1.Deployment)
	switch {
	case !isDeployment:
		return "", nil
	case touchesTemplate(missing):
		return differing(withinTemplate(missing)), nil
	case d.Live.Refusal != nil:
		return "", fmt.Errorf("ask what adoption changes of Deployment %s: %w", deployment.Name, d.Live.Refusal)
	case d.Live.Answer == nil:
		return "", nil // it is refused anyhow
	}
	var after appsv1.DeploymentSpec
	if err := convert(d.Live.Answer, &after, "spec"); err != nil {
		return "", err
	}
	SanitizeQuantities(&after)
	if equality.Semantic.DeepEqual(deployment.Spec.Template, after.Template) {
		return "", nil
	}
	return "an apply changes the order of its lists", nil
}

// notIdentical returns what keeps an object from being adopted by AdoptIfIdentical, and what to do.
func (d *decision) notIdentical(missing *fieldpath.Set, template string) string {
	differs, does := template, "replaces its pods"
	if !missing.Empty() {
		differs = differing(missing)
	}
	if template == "" {
		does = "changes it"
	}
	message := "; it is not identical, so spec.conflictPolicy AdoptIfIdentical does not adopt it: " + differs
	if name, differs := otherContainerName(d.current.Object, d.desired); differs {
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
