package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/doctor"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/drain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/rollout"
)

// Run runs the plugin with these arguments, and returns its exit code.
func Run(ctx context.Context, version string, args []string, of genericiooptions.IOStreams) int {
	root, o := newRoot(version, of)
	root.SetArgs(append([]string{}, args...)) // cobra takes those of the process instead of nil
	err := root.ExecuteContext(ctx)
	code, message := exitOf(ctx, err)
	if unwritten := o.WriteError(); unwritten != nil && message == "" {
		code, message = max(code, 1), fmt.Sprintf("the output cannot be written: %v", unwritten)
		if code == hub.ExitNegative {
			code = 1
		}
	}
	if message = strings.TrimSpace(message); message == "" {
		return code
	}
	// The exit code says it too, if the error stream cannot be written.
	o.Note("error: %s", message)
	if err == nil {
		return code
	}
	if skew := o.ExplainSkew(ctx, err); skew != "" {
		o.Note("%s", skew)
	}
	return code
}

// exitOf returns the exit code and the message for an error.
func exitOf(ctx context.Context, err error) (code int, message string) {
	var exit hub.ExitError
	switch {
	case err == nil:
		return 0, ""
	case errors.As(err, &exit):
		return exit.Code, exit.Message
	case ctx.Err() != nil:
		return 1, "interrupted"
	}
	return 1, hub.Describe(err)
}

// newRoot returns the plugin with all of its commands, and its flags that select the hub.
func newRoot(version string, of genericiooptions.IOStreams) (*cobra.Command, *hub.Options) {
	root := &cobra.Command{
		Use:   "kubectl-appsvc",
		Short: "Run applications on many clusters, and see why they do or do not run",
		Long: `The commands read and change AppServices and MemberClusters on the hub, with your own
permissions and your own kubeconfig. Use --context if the current context is not the hub.`,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl appsvc"},
	}
	o := &hub.Options{ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag(), Streams: output.NewStreams(of), Version: version}
	root.SetIn(o.In)
	root.SetOut(o.Out)
	root.SetErr(o.ErrOut)
	o.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&o.SecretNamespace, "secret-namespace", "fleetwright-system", "`namespace` on the hub with the kubeconfig Secrets of members and the Lease of the operator")

	root.AddGroup(
		&cobra.Group{ID: "fleet", Title: "The clusters of the fleet:"},
		&cobra.Group{ID: "app", Title: "An AppService on all of its clusters:"},
	)
	inGroup := func(group string, commands ...*cobra.Command) {
		for _, command := range commands {
			command.GroupID = group
			root.AddCommand(command)
		}
	}
	inGroup("fleet", newClusters(o), join.New(o), join.NewUnjoin(o), drain.NewCordon(o), drain.NewUncordon(o), drain.New(o), doctor.New(o), newUI(o))
	inGroup("app", newStatus(o), newWhy(o), newDiff(o), newConvert(o), rollout.New(o, newRolloutStatus(o)), rollout.NewRestart(o), newLogs(o), newEvents(o))
	root.AddCommand(newVersion(o), newOptions(root.PersistentFlags()))
	root.SetHelpCommand(newHelp())
	root.InitDefaultHelpCmd()
	addCompletionCommand(root)
	addFlagCompletions(o, root)
	root.SetFlagErrorFunc(explainFlagError)
	requireCommands(root)
	useShortUsage(root)
	return root, o
}
