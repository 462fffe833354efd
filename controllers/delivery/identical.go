package delivery

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

var templatePath = []string{"spec", "template"}

// templateChange says how adoption would change the pod template of a Deployment, which replaces its pods; "" where it would not. The
// member answers it by a dry run: an apply also changes the order of lists, which the comparison of fields does not see.
func (r *reconciler) templateChange(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured, missing *fieldpath.Set) (string, error) {
	deployment, isDeployment := existing.(*appsv1.Deployment)
	switch {
	case !isDeployment:
		return "", nil
	case touchesTemplate(missing):
		return fields(ofTemplate(missing)) + " differ", nil
	case !missing.Empty() && t.app.Spec.ConflictPolicy == v1alpha1.ConflictAdoptIfIdentical:
		return "", nil // it is refused anyhow, and the member may refuse it as well
	}
	answer := want.DeepCopy()
	err := r.member.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership, client.DryRunAll)
	if err != nil {
		return "", fmt.Errorf("ask what adoption changes of Deployment %s: %w", existing.GetName(), err)
	}
	var after appsv1.DeploymentSpec
	if err := convert(answer, &after, "spec"); err != nil {
		return "", err
	}
	tame(&after)
	if equality.Semantic.DeepEqual(deployment.Spec.Template, after.Template) {
		return "", nil
	}
	return "an apply changes the order of its lists", nil
}

// touchesTemplate reports whether a pod template is among the fields.
func touchesTemplate(fields *fieldpath.Set) bool { return !ofTemplate(fields).Empty() }

// ofTemplate returns those of the fields that are in a pod template.
func ofTemplate(fields *fieldpath.Set) *fieldpath.Set {
	within := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		for i, name := range templatePath {
			if len(path) <= i || path[i].FieldName == nil || *path[i].FieldName != name {
				return
			}
		}
		within.Insert(path.Copy())
	})
	return within
}

// notIdentical says what keeps an object from being adopted by AdoptIfIdentical, and what to do.
func notIdentical(existing client.Object, want *unstructured.Unstructured, missing *fieldpath.Set, template string) string {
	differs, does := template, "replaces its pods"
	if !missing.Empty() {
		differs = fields(missing) + " differ"
	}
	if template == "" {
		does = "changes it"
	}
	said := ", and it is not identical, so spec.conflictPolicy does not let it be adopted: " + differs
	if name, differs := otherName(existing, want); differs {
		return fmt.Sprintf("%s; its container is called %q: set spec.containerName to that", said, name)
	}
	return fmt.Sprintf("%s; make the AppService say the same, or set spec.conflictPolicy to Adopt, which %s", said, does)
}

// otherName returns the name of the only container of a Deployment, where no container of that name is wanted.
func otherName(existing client.Object, want *unstructured.Unstructured) (string, bool) {
	deployment, isDeployment := existing.(*appsv1.Deployment)
	if !isDeployment || len(deployment.Spec.Template.Spec.Containers) != 1 {
		return "", false
	}
	var wanted appsv1.DeploymentSpec
	if err := convert(want, &wanted, "spec"); err != nil {
		return "", false
	}
	name := deployment.Spec.Template.Spec.Containers[0].Name
	for _, container := range wanted.Template.Spec.Containers {
		if container.Name == name {
			return "", false
		}
	}
	return name, true
}

// choosesOthers reports whether a Service chooses other pods than it would if it was adopted.
func choosesOthers(service *corev1.Service, want *unstructured.Unstructured) bool {
	wanted, _, _ := unstructured.NestedStringMap(want.Object, "spec", "selector")
	return !maps.Equal(service.Spec.Selector, wanted)
}

func isDeployment(object client.Object) bool {
	_, is := object.(*appsv1.Deployment)
	return is
}

// convert reads a part of what is wanted into a typed object.
func convert(want *unstructured.Unstructured, into any, path ...string) error {
	part, _, err := unstructured.NestedMap(want.Object, path...)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(part, into)
	}
	if err != nil {
		return fmt.Errorf("read the %s that is wanted: %w", want.GetKind(), err)
	}
	return nil
}
