package object

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

// Differ compares an object with a desired one by the rules of server-side apply: lists with keys
// are compared by key, and fields that are not applied do not count. It is safe for concurrent use.
type Differ struct {
	types managedfields.TypeConverter
}

// NewDiffer returns a Differ for the kinds of Kubernetes. It is large: one serves all members.
// docs/decisions/objects-are-compared-by-the-rules-of-server-side-apply.md says why.
func NewDiffer() Differ {
	return Differ{types: applyconfigurations.NewTypeConverter(scheme.Scheme)}
}

// difference is how an object differs from its desired state.
type difference struct {
	desired *unstructured.Unstructured
	// missing are the desired fields that the object does not hold.
	missing *fieldpath.Set
	// complete reports that the object holds every desired field, so that the member discards none.
	complete bool
	// onlyVersion is the only version of the object that may be changed; empty if any may be.
	onlyVersion string
}

// missing returns the desired fields that the object does not hold. The object must have its kind
// set.
func (d Differ) missing(object runtime.Object, desired *unstructured.Unstructured) (*fieldpath.Set, error) {
	difference, err := d.compare(object, desired)
	if err != nil {
		return nil, err
	}
	return difference.Added.Union(difference.Modified).Union(difference.Removed), nil
}

// absent returns the desired fields that the object does not have at all. A field with another
// value is not absent.
func (d Differ) absent(object runtime.Object, desired *unstructured.Unstructured) (*fieldpath.Set, error) {
	difference, err := d.compare(object, desired)
	if err != nil {
		return nil, err
	}
	return difference.Removed.Leaves(), nil
}

func (d Differ) compare(object runtime.Object, desired *unstructured.Unstructured) (*typed.Comparison, error) {
	wanted, err := d.types.ObjectToTyped(desired)
	if err != nil {
		return nil, fmt.Errorf("read the desired object: %w", err)
	}
	existing, err := d.types.ObjectToTyped(object, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("read the existing object: %w", err)
	}
	fields, err := wanted.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the desired fields: %w", err)
	}
	difference, err := wanted.Compare(existing.ExtractItems(fields))
	if err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	return difference, nil
}

// identity has the fields that no manager owns.
var identity = fieldpath.NewSet(
	fieldpath.MakePathOrDie("apiVersion"), fieldpath.MakePathOrDie("kind"),
	fieldpath.MakePathOrDie("metadata", "namespace"), fieldpath.MakePathOrDie("metadata", "name"), fieldpath.MakePathOrDie("metadata", "uid"),
)

// fields returns the desired fields that a manager can own.
func (d Differ) fields(desired *unstructured.Unstructured) (*fieldpath.Set, error) {
	wanted, err := d.types.ObjectToTyped(desired)
	if err != nil {
		return nil, fmt.Errorf("read the desired object: %w", err)
	}
	fields, err := wanted.ToFieldSet()
	if err != nil {
		return nil, fmt.Errorf("list the desired fields: %w", err)
	}
	return fields.Difference(identity), nil
}

// spec returns all fields of an object's spec.
func (d Differ) spec(object runtime.Object) (*fieldpath.Set, error) {
	whole, err := d.types.ObjectToTyped(object, typed.AllowDuplicates)
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
