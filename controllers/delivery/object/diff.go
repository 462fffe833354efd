package object

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// LoadSchema loads the schema that objects are compared by, once. That takes a tenth of a second, which
// would otherwise be part of the first comparison.
func LoadSchema() { converter() }

// converter has the kinds of Kubernetes. It is large: one serves all members.
var converter = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// difference is how an object differs from its desired state.
type difference struct {
	// missing are the desired fields that the object does not hold.
	missing *fieldpath.Set
	// absent are those that it does not have at all, and the lists and structures that server-side apply
	// compares as a whole and of which it has only a part. A field with another value is not absent.
	absent *fieldpath.Set

	existing *typed.TypedValue
}

// kept returns what the object has of fields: nothing of a field that it does not have at all.
func (d difference) kept(fields *fieldpath.Set) any {
	return d.existing.ExtractItems(fields).AsValue().Unstructured()
}

// diff compares an object with a desired one by the rules of server-side apply: lists with keys are
// compared by key, and fields that are not applied do not count. The object must have its kind set.
// docs/decisions/objects-are-compared-by-the-rules-of-server-side-apply.md says why.
func diff(object runtime.Object, desired *unstructured.Unstructured) (difference, error) {
	wanted, fields, err := desiredFields(desired)
	if err != nil {
		return difference{}, err
	}
	existing, err := converter().ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return difference{}, fmt.Errorf("read the existing object: %w", err)
	}
	found, err := wanted.Compare(existing.ExtractItems(fields))
	if err != nil {
		return difference{}, fmt.Errorf("compare: %w", err)
	}
	absent := found.Removed.Leaves()
	found.Modified.Leaves().Iterate(func(path fieldpath.Path) {
		field := fieldpath.NewSet(path)
		if isPart(existing.ExtractItems(field).AsValue().Unstructured(), wanted.ExtractItems(field).AsValue().Unstructured()) {
			absent.Insert(path.Copy())
		}
	})
	return difference{found.Added.Union(found.Modified).Union(found.Removed), absent, existing}, nil
}

// isPart reports whether a value is the whole one, or that without some fields of its structures.
func isPart(part, whole any) bool {
	switch part := part.(type) {
	case map[string]any:
		whole, isMap := whole.(map[string]any)
		for name, value := range part {
			if wanted, found := whole[name]; !found || !isPart(value, wanted) {
				return false
			}
		}
		return isMap
	case []any:
		whole, isList := whole.([]any)
		return isList && slices.EqualFunc(part, whole, isPart)
	}
	return reflect.DeepEqual(part, whole)
}

// identity has the fields that no manager owns.
var identity = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "namespace"), fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "uid"),
)

// ownableFields returns the desired fields that a manager can own.
func ownableFields(desired *unstructured.Unstructured) (*fieldpath.Set, error) {
	_, fields, err := desiredFields(desired)
	if err != nil {
		return nil, err
	}
	return fields.Difference(identity), nil
}

func desiredFields(desired *unstructured.Unstructured) (*typed.TypedValue, *fieldpath.Set, error) {
	wanted, err := converter().ObjectToTyped(desired)
	if err != nil {
		return nil, nil, fmt.Errorf("read the desired object: %w", err)
	}
	fields, err := wanted.ToFieldSet()
	if err != nil {
		return nil, nil, fmt.Errorf("list the desired fields: %w", err)
	}
	return wanted, fields, nil
}

// specFields returns all fields of an object's spec.
func specFields(object runtime.Object) (*fieldpath.Set, error) {
	whole, err := converter().ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("read the existing object: %w", err)
	}
	fields, err := whole.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the existing fields: %w", err)
	}
	spec := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		if name := path[0].FieldName; name != nil && *name == "spec" {
			spec.Insert(path.Copy())
		}
	})
	return spec, nil
}
