package delivery

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// comparer tells whether an object already holds what would be applied to it, by the rules of server-side
// apply: lists with keys are compared by key, and fields that are not applied do not count. It is safe for
// concurrent use.
type comparer struct {
	types managedfields.TypeConverter
}

func newComparer() comparer {
	return comparer{types: applyconfigurations.NewTypeConverter(scheme.Scheme)}
}

// difference returns the fields that are wanted and that the object does not hold; none when it holds all. The object must know
// its kind.
func (c comparer) difference(object runtime.Object, want *unstructured.Unstructured) (*fieldpath.Set, error) {
	difference, err := c.compare(object, want)
	if err != nil {
		return nil, err
	}
	return difference.Added.Union(difference.Modified).Union(difference.Removed), nil
}

// absent are those of them that the object has not at all. One that has another value is none of them.
func (c comparer) absent(object runtime.Object, want *unstructured.Unstructured) (*fieldpath.Set, error) {
	difference, err := c.compare(object, want)
	if err != nil {
		return nil, err
	}
	return difference.Removed.Leaves(), nil
}

func (c comparer) compare(object runtime.Object, want *unstructured.Unstructured) (*typed.Comparison, error) {
	wanted, err := c.types.ObjectToTyped(want)
	if err != nil {
		return nil, fmt.Errorf("read what is wanted: %w", err)
	}
	existing, err := c.types.ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("read what exists: %w", err)
	}
	fields, err := wanted.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the fields that are wanted: %w", err)
	}
	difference, err := wanted.Compare(existing.ExtractItems(fields))
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return difference, nil
}

// identity are fields that nobody holds.
var identity = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "namespace"), fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "uid"),
)

// fields are those of what is wanted that a manager can hold.
func (c comparer) fields(want *unstructured.Unstructured) (*fieldpath.Set, error) {
	wanted, err := c.types.ObjectToTyped(want)
	if err != nil {
		return nil, fmt.Errorf("read what is wanted: %w", err)
	}
	fields, err := wanted.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the fields that are wanted: %w", err)
	}
	return fields.Difference(identity), nil
}

// spec are all fields of an object's spec.
func (c comparer) spec(object runtime.Object) (*fieldpath.Set, error) {
	whole, err := c.types.ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("read what exists: %w", err)
	}
	fields, err := whole.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the fields that exist: %w", err)
	}
	spec := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		if name := path[0].FieldName; name != nil && *name == "spec" {
			spec.Insert(path.Copy())
		}
	})
	return spec, nil
}
