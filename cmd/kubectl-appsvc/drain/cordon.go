package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// NewCordon returns the command cordon.
func NewCordon(o *hub.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "cordon CLUSTER...",
		Short: "Place no new AppServices on a cluster",
		Long: `Set spec.unschedulable of a MemberCluster: no AppService is newly placed there. AppServices that
run there stay and are kept up to date.`,
		Example:           "  kubectl appsvc cordon south",
		Args:              hub.Arguments(hub.Cluster.Repeated()),
		ValidArgsFunction: o.CompleteMembers,
		RunE: func(command *cobra.Command, names []string) error {
			return changeMembers(command.Context(), o, names, "cordoned", func(member *v1alpha1.MemberCluster) {
				member.Spec.Unschedulable = true
			})
		},
	}
}

// NewUncordon returns the command uncordon.
func NewUncordon(o *hub.Options) *cobra.Command {
	return &cobra.Command{
		Use:               "uncordon CLUSTER...",
		Short:             "Place new AppServices on a cluster again",
		Long:              "Undo kubectl appsvc cordon and kubectl appsvc drain. AppServices return that their placement chooses the cluster for.",
		Example:           "  kubectl appsvc uncordon south",
		Args:              hub.Arguments(hub.Cluster.Repeated()),
		ValidArgsFunction: o.CompleteMembers,
		RunE: func(command *cobra.Command, names []string) error {
			return changeMembers(command.Context(), o, names, "uncordoned", func(member *v1alpha1.MemberCluster) {
				member.Spec.Unschedulable = false
				member.Spec.Taints = slices.DeleteFunc(member.Spec.Taints, isDrainTaint)
			})
		},
	}
}

// changeMembers changes the spec of MemberClusters, and prints for each what was done. It tries all of
// them, even if one cannot be changed.
func changeMembers(ctx context.Context, o *hub.Options, names []string, done string, change func(*v1alpha1.MemberCluster)) error {
	h, err := o.Connect()
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range names {
		isChanged, err := h.ChangeMember(ctx, name, change)
		switch {
		case err != nil:
			failed = append(failed, err)
		case isChanged:
			err = o.Write(fmt.Sprintf("membercluster/%s %s\n", name, done))
		default:
			err = o.Write(fmt.Sprintf("membercluster/%s already %s\n", name, done))
		}
		if err != nil && len(failed) == 0 {
			return err
		}
	}
	return errors.Join(failed...)
}

// isDrainTaint reports whether kubectl appsvc drain has set a taint.
func isDrainTaint(taint v1alpha1.Taint) bool { return taint.Key == v1alpha1.TaintDrain }
