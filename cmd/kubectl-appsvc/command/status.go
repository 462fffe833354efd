package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// statusFlags are the flags of commands that show the state of an AppService.
type statusFlags struct {
	isWatching, isWaiting, isListingAll bool
	timeout                             time.Duration
	output                              output.Flags
	// condition must be True for exit code 0, and for the end of the wait.
	condition string
	// reportsProgress is set if a wait prints a line for each step of the rollout.
	reportsProgress bool
}

func (f *statusFlags) add(command *cobra.Command) {
	command.Flags().DurationVar(&f.timeout, "timeout", 0, "the longest `time` to watch or to wait; 0 is no limit")
	command.Flags().BoolVar(&f.isListingAll, "all", false, "list each cluster, also if there are many")
	f.output.AddFlags(command)
}

func newStatus(o *hub.Options) *cobra.Command {
	list := &appListFlags{ListFlags: output.NewListFlags(hub.NewScheme())}
	flags := &statusFlags{condition: v1alpha1.ConditionReady, output: list.Flags}
	list.statusFlags = flags
	command := &cobra.Command{
		Use:   "status [APP...]",
		Short: "Show the state of an AppService on all of its clusters, or list AppServices",
		Long: `Show the state of an AppService: how far its rollout is, and what is wrong on which cluster.
The clusters that need attention come first.

Without APP, or with several, list AppServices with the stages of their rollouts, and the commands
that continue these. The AppServices that need attention come first.

With --wait, the command ends when the AppService is Ready, or when waiting has no use because a user
must intervene: the revision has failed, or the condition Stalled is True.

The exit code for one AppService is 0 if it is Ready in the end, and 3 if it is not, or if the time of
--timeout has ended. That of a list is 0 if the list could be read.`,
		Example: `  # What is going on?
  kubectl appsvc status
  kubectl appsvc status web

  # The AppServices of a team in all namespaces, until you interrupt it
  kubectl appsvc status -A -l team=shop --watch

  # In a script: wait until all clusters are ready
  kubectl appsvc status web --wait --timeout 10m`,
		Args:              hub.Arguments(hub.App.Optional().Repeated()),
		ValidArgsFunction: o.CompleteApps,
		RunE: func(command *cobra.Command, args []string) error {
			if err := hub.CheckTimeout(flags.timeout); err != nil {
				return err
			}
			if len(args) == 1 {
				return runStatus(command.Context(), o, args[0], list)
			}
			return runStatusList(command.Context(), o, args, list)
		},
	}
	flags.add(command)
	command.Flags().BoolVarP(&flags.isWatching, "watch", "w", false, "show each change until you interrupt it")
	command.Flags().BoolVar(&flags.isWaiting, "wait", false, "wait until the condition Ready is True, or a user must intervene")
	list.add(command)
	return command
}

// runStatus shows the state of an AppService, once or until the flags say.
func runStatus(ctx context.Context, o *hub.Options, name string, flags *appListFlags) error {
	switch {
	case flags.selector != "":
		return errors.New("a name and --selector exclude each other: give one of them")
	case flags.isAllNamespaces:
		return errors.New("a name and --all-namespaces exclude each other: use --namespace with the name")
	}
	return showStatus(ctx, o, name, flags.statusFlags)
}

func showStatus(ctx context.Context, o *hub.Options, name string, flags *statusFlags) error {
	h, err := o.Connect()
	if err != nil {
		return err
	}
	printer, err := newStatusPrinter(o, h, flags)
	if err != nil {
		return err
	}
	if flags.isWatching || flags.isWaiting {
		return printer.follow(ctx, name)
	}
	current, err := h.ReadState(ctx, name)
	if err != nil {
		return err
	}
	if err := printer.print(ctx, current); err != nil {
		return err
	}
	return flags.exitFor(current.App)
}

// isOver reports whether a wait is over: the condition of the flags is True, or does not become True
// until a user intervenes.
func (f *statusFlags) isOver(app *v1alpha1.AppService) bool {
	return f.exitFor(app) == nil || hasFailed(app) || view.IsStalled(app)
}

// hasFailed reports whether the current revision has failed, or the one to which the clusters return: nothing
// changes any more until somebody does something.
func hasFailed(app *v1alpha1.AppService) bool {
	state := &app.Status.Rollout
	return app.Status.ObservedGeneration == app.Generation && (state.IsHalted() || state.Phase == v1alpha1.RolloutRolledBack)
}

// exitFor returns nil if the condition of the flags is True for the current spec, and otherwise an
// error that has only an exit code.
func (f *statusFlags) exitFor(app *v1alpha1.AppService) error {
	kind := f.condition
	if kind == v1alpha1.ConditionRolledOut && app.Spec.Rollout == nil {
		kind = v1alpha1.ConditionReady // there are no stages
	}
	condition := meta.FindStatusCondition(app.Status.Conditions, kind)
	if condition != nil && condition.Status == "True" && condition.ObservedGeneration == app.Generation {
		return nil
	}
	return hub.ExitError{Code: hub.ExitNegative}
}
