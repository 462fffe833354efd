package object

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// replicasOnly has spec.replicas, which pruneUnowned leaves to its other owners: without an owner,
// the API server would reset it to 1. If it is desired, the apply takes it back.
var replicasOnly = fieldpath.NewSet(replicasPath)

// pruneUnowned applies the desired state again after it has taken over all fields without an owner,
// so that those that are not desired are removed. An HTTP probe that becomes a command keeps the
// scheme that the API server had filled in, which no manager owns: then the probe has two handlers,
// which is invalid. The same is true of every choice with defaults: the sources of volumes, the
// strategies of a Deployment.
// docs/decisions/an-invalid-apply-takes-over-unowned-fields.md says why.
func (m *Member) pruneUnowned(ctx context.Context, existing client.Object, desired *unstructured.Unstructured) error {
	current, err := m.readObject(ctx, existing)
	if err != nil || current == nil {
		return err
	}
	unowned, err := specFields(current)
	if err != nil {
		return err
	}
	entries := slices.Clone(current.GetManagedFields())
	own := slices.IndexFunc(entries, isOwn)
	if own < 0 {
		return m.apply(ctx, desired)
	}
	for _, entry := range entries {
		fields, err := fieldsOf(entry)
		if err != nil {
			return err
		}
		unowned = unowned.Difference(fields)
	}
	owned, err := fieldsOf(entries[own])
	if err != nil {
		return err
	}
	if entries[own].FieldsV1, err = fieldsV1(owned.Union(unowned).Difference(replicasOnly)); err != nil {
		return err
	}
	return m.setManagedFields(ctx, current, entries, desired)
}
