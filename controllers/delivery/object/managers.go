package object

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// ReplicasManager owns spec.replicas from when Fleetwright gives it up until an autoscaler changes
// it. A field without an owner would fall back to its default: 1.
const ReplicasManager = "fleetwright-replicas"

// managersOf names the managers of the fields, other than Fleetwright.
func managersOf(existing client.Object, changed *fieldpath.Set) string {
	var managers []string
	for _, entry := range otherManagers(existing.GetManagedFields()) {
		if owned, err := fieldsOf(entry); err == nil && !owned.Intersection(changed).Empty() && !slices.Contains(managers, entry.Manager) {
			managers = append(managers, entry.Manager)
		}
	}
	if len(managers) == 0 {
		return "an unknown manager" // which has removed the fields
	}
	return strings.Join(managers, ", ")
}

// otherManagers returns the entries of other managers.
func otherManagers(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.ManagedBy || e.Manager == ReplicasManager
	})
}

// isOwn reports whether an entry is the one of Fleetwright's applies.
func isOwn(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == v1alpha1.ManagedBy && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// fieldsOf returns the fields that the manager of an entry owns.
func fieldsOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return fields, nil
	}
	if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("read the fields of manager %q: %w", entry.Manager, err)
	}
	return fields, nil
}

func fieldsV1(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := set.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write the fields of a manager: %w", err)
	}
	return metav1.NewFieldsV1(string(raw)), nil
}

// maxFields is how many fields are named.
const maxFields = 3

// differing says that the fields of a set differ.
func differing(fields *fieldpath.Set) string {
	if fields.Leaves().Size() == 1 {
		return FieldNames(fields) + " differs"
	}
	return FieldNames(fields) + " differ"
}

// FieldNames names the fields of a set, the first few of many.
func FieldNames(set *fieldpath.Set) string {
	var paths []string
	set.Leaves().Iterate(func(path fieldpath.Path) {
		paths = append(paths, strings.TrimPrefix(path.String(), "."))
	})
	if len(paths) > maxFields {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:maxFields], ", "), len(paths)-maxFields)
	}
	return strings.Join(paths, ", ")
}
