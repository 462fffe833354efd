package hub

import (
	"context"
	"fmt"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// ChangeMember changes the spec of a MemberCluster, and reports whether that was necessary.
func (h Client) ChangeMember(ctx context.Context, name string, change func(*v1alpha1.MemberCluster)) (isChanged bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		member, err := h.ReadMember(ctx, name)
		if err != nil {
			return err
		}
		changed := member.DeepCopy()
		change(changed)
		patch := client.MergeFromWithOptions(member, client.MergeFromWithOptimisticLock{})
		if isChanged, err = IsDifferent(member, changed); err != nil || !isChanged {
			return err
		}
		if err := h.Patch(ctx, changed, patch, PatchOptions); err != nil {
			return fmt.Errorf("change MemberCluster %s: %w", name, err)
		}
		return nil
	})
	return isChanged, err
}

// IsDifferent reports whether an object was changed.
func IsDifferent(before, after client.Object) (bool, error) {
	diff, err := client.MergeFrom(before).Data(after)
	return string(diff) != "{}", err
}
