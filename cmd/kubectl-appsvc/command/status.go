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
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// statusFlags are the flags of commands that show the state of an AppService.
type statusFlags struct {
	isWatching, isWaiting, isListingAll bool
	timeout                             time.Duration
	output                              outputFlags
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

func newStatus(o *hubOptions) *cobra.Command {
	flags := &statusFlags{condition: v1alpha1.ConditionReady, output: newOutputFlags("")}
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
		ValidArgsFunction: o.completeApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			return o.runStatus(command.Context(), args[0], flags)
		},
	}
	flags.add(command)
	return command
}

// runStatus shows the state of an AppService, once or until the flags say.
func (o *hubOptions) runStatus(ctx context.Context, name string, flags *statusFlags) error {
	h, err := o.connect()
	if err != nil {
		return err
	}
	printer, err := o.newStatusPrinter(h, flags)
	if err != nil {
		return err
	}
	if flags.isWatching || flags.isWaiting {
		return printer.follow(ctx, name)
	}
	current, err := h.readState(ctx, name)
	if err != nil {
		return err
	}
	if err := printer.print(ctx, current); err != nil {
		return err
	}
	return flags.exitFor(current.app)
}

// appState is an AppService with its entries.
type appState struct {
	app *v1alpha1.AppService
	// missing is the number of AppServiceSlices whose entries are not known.
	missing int
}

func (h hub) readState(ctx context.Context, name string) (appState, error) {
	app, missing, err := h.readKnownEntries(ctx, name)
	return appState{app, missing}, err
}

// statusPrinter prints the state of an AppService.
type statusPrinter struct {
	o       *hubOptions
	h       hub
	flags   *statusFlags
	screen  *screen
	objects printers.ResourcePrinter // nil if the output is text for people
	printed string                   // the resourceVersion of the AppService that was printed last
}

func (o *hubOptions) newStatusPrinter(h hub, flags *statusFlags) (*statusPrinter, error) {
	p := &statusPrinter{o: o, h: h, flags: flags, screen: &screen{o: o}}
	if flags.output.isTable() {
		return p, nil
	}
	var err error
	p.objects, err = flags.output.ToPrinter()
	return p, err
}

// print prints the state once. An object that was printed before is not printed again.
func (p *statusPrinter) print(ctx context.Context, current appState) error {
	switch {
	case p.objects == nil:
		return p.o.write(view.Status(current.app, p.o.viewOptions(ctx, p.h, current, p.flags)))
	case p.printed == current.app.ResourceVersion:
		return nil
	}
	p.printed = current.app.ResourceVersion
	return p.objects.PrintObj(current.app, p.o.streams.Out)
}

// follow shows each change of an AppService. If the flags wait, it ends when the condition is True or
// cannot become True any more, and otherwise with the context.
func (p *statusPrinter) follow(ctx context.Context, name string) error {
	ctx, cancel := ctx, context.CancelFunc(func() {})
	if p.flags.timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.flags.timeout)
	}
	defer cancel()
	var last *appState
	err := p.h.follow(ctx, name, func(current appState) (bool, error) {
		last = &current
		isDone := p.flags.isWaiting && (p.flags.exitFor(current.app) == nil || hasFailed(current.app))
		switch {
		case p.flags.isWatching && p.objects == nil:
			return isDone, p.screen.show(view.Status(current.app, p.o.viewOptions(ctx, p.h, current, p.flags)))
		case p.flags.isWatching || isDone:
			return isDone, p.print(ctx, current)
		}
		return isDone, nil
	}, func(err error) { p.o.note("%s; trying again", describe(err)) })
	switch {
	case last == nil:
		return err
	case err == nil:
		return p.flags.exitFor(last.app)
	case errors.Is(err, context.DeadlineExceeded) && p.flags.isWaiting && !p.flags.isWatching:
		if err := p.print(context.WithoutCancel(ctx), *last); err != nil {
			return err
		}
		return exitError{ExitNegative, fmt.Sprintf("%s is not %s after %s", name, p.flags.condition, p.flags.timeout)}
	case ctx.Err() != nil && p.flags.isWatching: // the user, or the timeout, ended it
		return p.flags.exitFor(last.app)
	}
	return err
}

// hasFailed reports whether the current revision has failed: nothing changes any more until somebody
// does something.
func hasFailed(app *v1alpha1.AppService) bool {
	phase := app.Status.Rollout.Phase
	return app.Status.ObservedGeneration == app.Generation && (phase == v1alpha1.RolloutRolledBack || phase == v1alpha1.RolloutHalted)
}

func (o *hubOptions) viewOptions(ctx context.Context, h hub, current appState, flags *statusFlags) view.Options {
	notes := o.staleness(ctx, h, current.app)
	if current.missing > 0 {
		notes = append(notes, fmt.Sprintf("%d AppServiceSlices are missing, so some clusters are not listed: the operator writes them again", current.missing))
	}
	return view.Options{Now: time.Now(), Width: o.width(), Color: o.hasColor(), All: flags.isListingAll, Notes: notes}
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
	return exitError{code: ExitNegative}
}

// staleness says why the status of an AppService may be older than what runs: the operator has not
// processed the latest edit, or does not run.
func (o *hubOptions) staleness(ctx context.Context, h hub, app *v1alpha1.AppService) []string {
	var notes []string
	if app.Status.ObservedGeneration < app.Generation {
		notes = append(notes, "the operator has not processed the latest edit yet")
	}
	operator := o.readOperator(ctx, h)
	for _, text := range []string{operator.stale, operator.skew} {
		if text != "" {
			notes = append(notes, text)
		}
	}
	return notes
}

// operatorState is what the Lease of the operator says.
type operatorState struct {
	// stale says why what the operator wrote may be old, or is "".
	stale string
	// isKnown is false if the Lease cannot be read, so it is not known whether the operator runs.
	isKnown bool
	// skew says that the operator and the plugin are of different versions, or is "".
	skew string
}

func (o *hubOptions) readOperator(ctx context.Context, h hub) operatorState {
	lease, err := o.readLease(ctx, h)
	stale, isKnown := liveness.Assess(o.secretNamespace, lease, err, time.Now())
	state := operatorState{stale: stale, isKnown: isKnown}
	if err == nil {
		state.skew = versionSkew(o.version, operatorVersion(lease))
	}
	return state
}
