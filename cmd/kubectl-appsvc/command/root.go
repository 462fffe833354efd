package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// Run runs the plugin with these arguments, and returns its exit code.
func Run(ctx context.Context, version string, args []string, streams genericiooptions.IOStreams) int {
	root, hub := newRoot(version, streams)
	root.SetArgs(append([]string{}, args...)) // cobra takes those of the process instead of nil
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code, message := exitOf(ctx, err)
	if message = strings.TrimSpace(message); message == "" {
		return code
	}
	// The exit code says it too, if the error stream cannot be written.
	_, _ = fmt.Fprintf(streams.ErrOut, "error: %s\n", message)
	if skew := hub.explainSkew(ctx, err); skew != "" {
		hub.note("%s", skew)
	}
	return code
}

// exitOf returns the exit code and the message for an error.
func exitOf(ctx context.Context, err error) (code int, message string) {
	var exit exitError
	switch {
	case errors.As(err, &exit):
		return exit.code, exit.message
	case ctx.Err() != nil:
		return 1, "interrupted"
	}
	return 1, describe(err)
}

// newRoot returns the plugin with all of its commands, and its flags that select the hub.
func newRoot(version string, streams genericiooptions.IOStreams) (*cobra.Command, *hubOptions) {
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
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	hub := &hubOptions{ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag(), streams: streams, version: version}
	hub.AddFlags(root.PersistentFlags())
	root.PersistentFlags().StringVar(&hub.secretNamespace, "secret-namespace", "fleetwright-system", "`namespace` on the hub with the kubeconfig Secrets of members and the Lease of the operator")

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
	inGroup("fleet", newClusters(hub), newJoin(hub), newUnjoin(hub), newCordon(hub), newUncordon(hub), newDrain(hub), newDoctor(hub), newUI(hub))
	inGroup("app", newStatus(hub), newWhy(hub), newDiff(hub), newConvert(hub), newRollout(hub), newRestart(hub), newLogs(hub), newEvents(hub))
	root.AddCommand(newVersion(hub))
	addCompletionCommand(root)
	hub.addFlagCompletions(root)
	return root, hub
}
