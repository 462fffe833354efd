package command

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

func newVersion(o *hub.Options) *cobra.Command {
	var isClientOnly bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin and of the operator",
		Long: `Print the version of the plugin and that of the operator of the hub, and say what to do if they
differ in more than the patch. The version of the operator is a label of its Lease. Every command that
fails, status and doctor say it too.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.Write(fmt.Sprintf("kubectl-appsvc %s %s %s/%s\n", o.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)); err != nil || isClientOnly {
				return err
			}
			return printOperatorVersion(command.Context(), o)
		},
	}
	command.Flags().BoolVar(&isClientOnly, "client", false, "print only the version of the plugin, without a request to the hub")
	return command
}

// printOperatorVersion prints the version of the operator, and whether it is too far from that of the
// plugin. That it is not known is no error.
func printOperatorVersion(ctx context.Context, o *hub.Options) error {
	h, err := o.Connect()
	if err != nil {
		o.Note("The version of the operator is not known: %s", hub.Describe(err))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hub.VersionTimeout)
	defer cancel()
	lease, err := o.ReadLease(ctx, h)
	switch {
	case apierrors.IsNotFound(err):
		o.Note("The version of the operator is not known: there is no Lease %s/%s (see --secret-namespace)", o.SecretNamespace, liveness.LeaseName)
		return nil
	case err != nil:
		o.Note("The version of the operator is not known: %s", hub.Describe(err))
		return nil
	}
	operator := hub.OperatorVersion(lease)
	if err := o.Write("operator       " + output.OrNone(operator) + "\n"); err != nil {
		return err
	}
	if skew := hub.VersionSkew(o.Version, operator); skew != "" {
		return o.Write("! " + skew + "\n")
	}
	return nil
}
