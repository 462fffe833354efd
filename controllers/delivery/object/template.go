package object

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

var templatePath = []string{"spec", "template"}

// templateChange returns how adoption would change the pod template of a Deployment, which replaces
// its pods, or nothing. The member answers it by a dry run: an apply also changes the order of
// lists, which the comparison of fields does not see.
func (m *Member) templateChange(ctx context.Context, facts Facts, existing client.Object, desired *unstructured.Unstructured, missing *fieldpath.Set) (string, error) {
	deployment, isDeployment := existing.(*appsv1.Deployment)
	switch {
	case !isDeployment:
		return "", nil
	case touchesTemplate(missing):
		return differing(withinTemplate(missing)), nil
	case !missing.Empty() && facts.App.Spec.ConflictPolicy == v1alpha1.ConflictAdoptIfIdentical:
		return "", nil // it is refused anyhow, and the member may refuse it as well
	}
	answer, err := m.dryRun(ctx, desired)
	if err != nil {
		return "", fmt.Errorf("ask what adoption changes of Deployment %s: %w", existing.GetName(), err)
	}
	var after appsv1.DeploymentSpec
	if err := convert(answer, &after, "spec"); err != nil {
		return "", err
	}
	SanitizeQuantities(&after)
	if equality.Semantic.DeepEqual(deployment.Spec.Template, after.Template) {
		return "", nil
	}
	return "an apply changes the order of its lists", nil
}

// touchesTemplate reports whether a pod template is among the fields.
func touchesTemplate(fields *fieldpath.Set) bool { return !withinTemplate(fields).Empty() }

// withinTemplate returns those of the fields that are in a pod template.
func withinTemplate(fields *fieldpath.Set) *fieldpath.Set {
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

// convert reads a part of a desired object into a typed value.
func convert(desired *unstructured.Unstructured, into any, path ...string) error {
	part, _, err := unstructured.NestedMap(desired.Object, path...)
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(part, into)
	}
	if err != nil {
		return fmt.Errorf("read the desired %s: %w", desired.GetKind(), err)
	}
	return nil
}
