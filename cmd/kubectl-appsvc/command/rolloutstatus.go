package command

import (
	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

func newRolloutStatus(o *hub.Options) *cobra.Command {
	flags := &statusFlags{condition: v1alpha1.ConditionRolledOut, output: output.NewFlags(hub.NewScheme())}
	command := &cobra.Command{
		Use:   "status APP",
		Short: "Wait for the end of a rollout, and show how far it is",
		Long: `Wait for the end of a rollout, as kubectl rollout status does. Each step is a line on the error
stream: a stage that begins, updates a cluster, soaks or waits for approval, with the command that
continues it. In the end, the state is printed: the stages, the clusters, and what is wrong there.

With --watch=false, the state is printed once, and the command does not wait.

The exit code is 0 if the revision of the spec went through all stages. It is 3 if the revision failed
or was rolled back, if nothing happens any more until somebody corrects something, if the time of
--timeout has ended, and, with --watch=false, if the rollout is not over. Without spec.rollout, the
rollout is over when the AppService is Ready.`,
		Example: `  # Wait for the end of a rollout
  kubectl appsvc rollout status web

  # In a script
  kubectl appsvc rollout status web --timeout 2h

  # How far is it?
  kubectl appsvc rollout status web --watch=false`,
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			if err := hub.CheckTimeout(flags.timeout); err != nil {
				return err
			}
			flags.reportsProgress = flags.isWaiting
			return showStatus(command.Context(), o, args[0], flags)
		},
	}
	flags.add(command)
	command.Flags().BoolVarP(&flags.isWaiting, "watch", "w", true, "wait for the end of the rollout; =false prints the state once")
	return command
}
