package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var templatePath = []string{"spec", "template"}

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
