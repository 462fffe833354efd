package planner

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// remember has MemberClusters keep on record that the AppService was let go of there, before the rows that say so go.
func (r *Reconciler) remember(ctx context.Context, in rollout.Input, clusters []string) error {
	record := v1alpha1.AbandonedAppService{Namespace: in.App.Namespace, Name: in.App.Name, UID: in.App.UID}
	for _, name := range clusters {
		err := r.patchAbandoned(ctx, in, name, func(records []v1alpha1.AbandonedAppService) []v1alpha1.AbandonedAppService {
			return append(records, record)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// forget takes the AppService off the record of MemberClusters, before it is placed there again: what is there is its row's.
func (r *Reconciler) forget(ctx context.Context, in rollout.Input, clusters []string) error {
	for _, name := range clusters {
		err := r.patchAbandoned(ctx, in, name, func(records []v1alpha1.AbandonedAppService) []v1alpha1.AbandonedAppService {
			return slices.DeleteFunc(records, func(a v1alpha1.AbandonedAppService) bool { return a.UID == in.App.UID })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// patchAbandoned changes what a MemberCluster has on record, on the hub and in the input. One that is gone is an error: the next look
// does not find it any more.
func (r *Reconciler) patchAbandoned(ctx context.Context, in rollout.Input, name string, change func([]v1alpha1.AbandonedAppService) []v1alpha1.AbandonedAppService) error {
	members := in.Members
	if members[name] == nil {
		members = in.Secretless
	}
	updated := members[name].DeepCopy()
	updated.Status.Abandoned = change(updated.Status.Abandoned)
	patch := client.MergeFromWithOptions(members[name], client.MergeFromWithOptimisticLock{})
	if err := r.hub.Status().Patch(ctx, updated, patch); err != nil {
		return fmt.Errorf("write on MemberCluster %s what was let go of: %w", name, err)
	}
	members[name] = updated
	return nil
}
