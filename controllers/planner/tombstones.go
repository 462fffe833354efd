package planner

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// addTombstones adds a tombstone of the AppService to MemberClusters, before its entries are
// removed.
// docs/decisions/a-tombstone-is-written-before-the-entry-goes.md says why.
func (w *writer) addTombstones(ctx context.Context, in *rollout.Input, clusters []string) error {
	for _, name := range clusters {
		tombstone := in.TombstoneOf(name)
		err := w.patchTombstones(ctx, in, name, func(tombstones []v1alpha1.AbandonedAppService) []v1alpha1.AbandonedAppService {
			return append(tombstones, tombstone)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// removeTombstones removes the tombstones of the AppService from MemberClusters, before it is
// placed there again: its entry then accounts for the objects on the cluster.
func (w *writer) removeTombstones(ctx context.Context, in *rollout.Input, clusters []string) error {
	for _, name := range clusters {
		err := w.patchTombstones(ctx, in, name, func(tombstones []v1alpha1.AbandonedAppService) []v1alpha1.AbandonedAppService {
			return slices.DeleteFunc(tombstones, func(a v1alpha1.AbandonedAppService) bool { return a.UID == in.App.UID })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// patchTombstones changes the tombstones of a MemberCluster, on the hub and in the input. A missing
// MemberCluster is an error: the next reconciliation no longer has it in its input.
func (w *writer) patchTombstones(
	ctx context.Context,
	in *rollout.Input,
	name string,
	change func([]v1alpha1.AbandonedAppService) []v1alpha1.AbandonedAppService,
) error {
	members := &in.Members
	if in.Members[name] == nil {
		members = &in.Secretless
	}
	current := (*members)[name]
	updated := current.DeepCopy()
	updated.Status.Abandoned = change(updated.Status.Abandoned)
	patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
	if err := w.hub.Status().Patch(ctx, updated, patch); err != nil {
		return fmt.Errorf("write the tombstones of MemberCluster %s: %w", name, err)
	}
	*members = maps.Clone(*members) // all plans share the original
	(*members)[name] = updated
	return nil
}
