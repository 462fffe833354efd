package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/printers"

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
}

func (f *statusFlags) add(command *cobra.Command) {
	command.Flags().BoolVarP(&f.isWatching, "watch", "w", false, "show each change until you interrupt it")
	command.Flags().BoolVar(&f.isWaiting, "wait", false, "wait until the condition "+f.condition+" is True, or the revision has failed")
	command.Flags().DurationVar(&f.timeout, "timeout", 0, "the longest `time` to watch or to wait; 0 is no limit")
	command.Flags().BoolVar(&f.isListingAll, "all", false, "list each cluster, also if there are many")
	f.output.AddFlags(command)
}

func newStatus(o *hub.Options) *cobra.Command {
	flags := &statusFlags{condition: v1alpha1.ConditionReady, output: output.NewFlags(hub.NewScheme())}
	command := &cobra.Command{
		Use:   "status APP",
		Short: "Show the state of an AppService on all of its clusters",
		Long: `Show the state of an AppService: how far its rollout is, and what is wrong on which cluster.
The clusters that need attention come first.

The exit code is 0 if the AppService is Ready in the end, and 3 if it is not.`,
		Example: `  # What is going on?
  kubectl appsvc status web

  # In a script: wait until all clusters are ready
  kubectl appsvc status web --wait --timeout 10m`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			return runStatus(command.Context(), o, args[0], flags)
		},
	}
	flags.add(command)
	return command
}

func newRolloutStatus(o *hub.Options) *cobra.Command {
	flags := &statusFlags{condition: v1alpha1.ConditionRolledOut, output: output.NewFlags(hub.NewScheme())}
	command := &cobra.Command{
		Use:   "status APP",
		Short: "Show how far a rollout is",
		Long: `Show how far a rollout is: the stages, the clusters, and the command that continues it.

The exit code is 0 if the revision of the spec went through all stages, and 3 if it did not.`,
		Example:           "  kubectl appsvc rollout status web --watch",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			return runStatus(command.Context(), o, args[0], flags)
		},
	}
	flags.add(command)
	return command
}

// runStatus shows the state of an AppService, once or until the flags say.
func runStatus(ctx context.Context, o *hub.Options, name string, flags *statusFlags) error {
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

// statusPrinter prints the state of an AppService.
type statusPrinter struct {
	o       *hub.Options
	h       hub.Client
	flags   *statusFlags
	screen  *output.Screen
	objects printers.ResourcePrinter // nil if the output is text for people
	printed string                   // the resourceVersion of the AppService that was printed last
}

func newStatusPrinter(o *hub.Options, h hub.Client, flags *statusFlags) (*statusPrinter, error) {
	p := &statusPrinter{o: o, h: h, flags: flags, screen: &output.Screen{Streams: o.Streams}}
	if flags.output.IsTable() {
		return p, nil
	}
	var err error
	p.objects, err = flags.output.ToPrinter()
	return p, err
}

// print prints the state once. An object that was printed before is not printed again.
func (p *statusPrinter) print(ctx context.Context, current hub.AppState) error {
	switch {
	case p.objects == nil:
		return p.o.Write(view.Status(current.App, viewOptions(ctx, p.o, p.h, current, p.flags)))
	case p.printed == current.App.ResourceVersion:
		return nil
	}
	p.printed = current.App.ResourceVersion
	return p.objects.PrintObj(current.App, p.o.Out)
}

// follow shows each change of an AppService. If the flags wait, it ends when the condition is True or
// cannot become True any more, and otherwise with the context.
func (p *statusPrinter) follow(ctx context.Context, name string) error {
	ctx, cancel := ctx, context.CancelFunc(func() {})
	if p.flags.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.flags.timeout)
	}
	defer cancel()
	var last *hub.AppState
	err := p.h.Follow(ctx, name, func(current hub.AppState) (bool, error) {
		last = &current
		isDone := p.flags.isWaiting && (p.flags.exitFor(current.App) == nil || hasFailed(current.App))
		switch {
		case p.flags.isWatching && p.objects == nil:
			return isDone, p.screen.Show(view.Status(current.App, viewOptions(ctx, p.o, p.h, current, p.flags)))
		case p.flags.isWatching || isDone:
			return isDone, p.print(ctx, current)
		}
		return isDone, nil
	}, func(err error) { p.o.Note("%s; trying again", hub.Describe(err)) })
	switch {
	case last == nil:
		return err
	case err == nil:
		return p.flags.exitFor(last.App)
	case errors.Is(err, context.DeadlineExceeded) && p.flags.isWaiting && !p.flags.isWatching:
		if err := p.print(context.WithoutCancel(ctx), *last); err != nil {
			return err
		}
		return hub.ExitError{Code: hub.ExitNegative, Message: fmt.Sprintf("%s is not %s after %s", name, p.flags.condition, p.flags.timeout)}
	case ctx.Err() != nil && p.flags.isWatching: // the user, or the timeout, ended it
		return p.flags.exitFor(last.App)
	}
	return err
}

// hasFailed reports whether the current revision has failed, or the one to which the clusters return: nothing
// changes any more until somebody does something.
func hasFailed(app *v1alpha1.AppService) bool {
	state := &app.Status.Rollout
	return app.Status.ObservedGeneration == app.Generation && (state.IsHalted() || state.Phase == v1alpha1.RolloutRolledBack)
}

func viewOptions(ctx context.Context, o *hub.Options, h hub.Client, current hub.AppState, flags *statusFlags) view.Options {
	notes := staleness(ctx, o, h, current.App)
	if current.Missing > 0 {
		notes = append(notes, fmt.Sprintf("%d AppServiceSlices are missing, so some clusters are not listed: the operator writes them again", current.Missing))
	}
	return view.Options{Now: time.Now(), Width: o.Width(), Color: o.HasColor(), All: flags.isListingAll, Notes: notes}
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

// staleness says why the status of an AppService may be older than what runs: the operator has not
// processed the latest edit, or does not run.
func staleness(ctx context.Context, o *hub.Options, h hub.Client, app *v1alpha1.AppService) []string {
	var notes []string
	if app.Status.ObservedGeneration < app.Generation {
		notes = append(notes, "the operator has not processed the latest edit yet")
	}
	operator := o.ReadOperator(ctx, h)
	for _, text := range []string{operator.Stale, operator.Skew} {
		if text != "" {
			notes = append(notes, text)
		}
	}
	return notes
}
