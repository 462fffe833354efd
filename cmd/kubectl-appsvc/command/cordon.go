package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func newCordon(o *hubOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "cordon CLUSTER...",
		Short: "Place no new AppServices on a cluster",
		Long: `Set spec.unschedulable of a MemberCluster: no AppService is newly placed there. AppServices that
run there stay and are kept up to date.`,
		Example:           "  kubectl appsvc cordon south",
		Args:              atLeastOne("the names of the clusters", "CLUSTER..."),
		ValidArgsFunction: o.completeMembers,
		RunE: func(command *cobra.Command, names []string) error {
			return o.changeMembers(command.Context(), names, "cordoned", func(member *v1alpha1.MemberCluster) {
				member.Spec.Unschedulable = true
			})
		},
	}
}

func newUncordon(o *hubOptions) *cobra.Command {
	return &cobra.Command{
		Use:               "uncordon CLUSTER...",
		Short:             "Place new AppServices on a cluster again",
		Long:              "Undo kubectl appsvc cordon and kubectl appsvc drain. AppServices return that their placement chooses the cluster for.",
		Example:           "  kubectl appsvc uncordon south",
		Args:              atLeastOne("the names of the clusters", "CLUSTER..."),
		ValidArgsFunction: o.completeMembers,
		RunE: func(command *cobra.Command, names []string) error {
			return o.changeMembers(command.Context(), names, "uncordoned", func(member *v1alpha1.MemberCluster) {
				member.Spec.Unschedulable = false
				member.Spec.Taints = slices.DeleteFunc(member.Spec.Taints, isDrainTaint)
			})
		},
	}
}

// atLeastOne returns an error that says what is missing, unless there is an argument.
func atLeastOne(what, names string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s are missing: %s %s", what, command.CommandPath(), names)
		}
		return nil
	}
}

// changeMembers changes the spec of MemberClusters, and prints for each what was done. It tries all of
// them, even if one cannot be changed.
func (o *hubOptions) changeMembers(ctx context.Context, names []string, done string, change func(*v1alpha1.MemberCluster)) error {
	h, err := o.connect()
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		isChanged, err := h.changeMember(ctx, name, change)
		switch {
		case err != nil:
			failed = append(failed, err)
		case isChanged:
			err = o.write(fmt.Sprintf("membercluster/%s %s\n", name, done))
		default:
			err = o.write(fmt.Sprintf("membercluster/%s already %s\n", name, done))
		}
		if err != nil && len(failed) == 0 {
			return err
		}
	}
	return errors.Join(failed...)
}

// changeMember changes the spec of a MemberCluster, and reports whether that was necessary.
func (h hub) changeMember(ctx context.Context, name string, change func(*v1alpha1.MemberCluster)) (isChanged bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		member, err := h.readMember(ctx, name)
		if err != nil {
			return err
		}
		changed := member.DeepCopy()
		change(changed)
		patch := client.MergeFromWithOptions(member, client.MergeFromWithOptimisticLock{})
		if isChanged, err = isDifferent(member, changed); err != nil || !isChanged {
			return err
		}
		if err := h.Patch(ctx, changed, patch, patchOptions); err != nil {
			return fmt.Errorf("change MemberCluster %s: %w", name, err)
		}
		return nil
	})
	return isChanged, err
}

// isDifferent reports whether an object was changed.
func isDifferent(before, after client.Object) (bool, error) {
	diff, err := client.MergeFrom(before).Data(after)
	return string(diff) != "{}", err
}

// isDrainTaint reports whether kubectl appsvc drain has set a taint.
func isDrainTaint(taint v1alpha1.Taint) bool { return taint.Key == v1alpha1.TaintDrain }
