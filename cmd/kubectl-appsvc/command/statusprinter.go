package command

import (
	"context"
	"fmt"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// statusPrinter prints the state of an AppService.
type statusPrinter struct {
	o       *hub.Options
	h       hub.Client
	flags   *statusFlags
	screen  *output.Screen
	objects printers.ResourcePrinter // nil if the output is text for people
	// printed is the object that was printed last, and progress the line of its rollout.
	printed  *v1alpha1.AppService
	progress string
	// isShown is set if a watch has shown a state as text.
	isShown bool
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
	if p.objects == nil {
		text, _ := p.render(ctx, current)
		return p.o.Write(text)
	}
	if p.printed != nil && isSame(p.printed, current.App) {
		return nil
	}
	p.printed = current.App
	return p.objects.PrintObj(current.App, p.o.Out)
}

// isSame reports whether two reads of an object differ in nothing that somebody wants to see.
func isSame(a, b *v1alpha1.AppService) bool {
	a, b = a.DeepCopy(), b.DeepCopy()
	for _, app := range []*v1alpha1.AppService{a, b} {
		app.ResourceVersion, app.ManagedFields = "", nil
	}
	return apiequality.Semantic.DeepEqual(a, b)
}

// follow shows each change of an AppService. If the flags wait, it ends when the wait is over, and
// otherwise with the context.
func (p *statusPrinter) follow(ctx context.Context, name string) error {
	following, hasRead, cancel := hub.WithTimeout(ctx, p.flags.timeout)
	defer cancel()
	var last *hub.AppState
	err := p.h.Follow(following, name, func(current hub.AppState) (bool, error) {
		hasRead()
		last = &current
		return p.show(following, current)
	}, func(err error) { p.o.Note("%s; trying again", hub.Describe(err)) })
	switch {
	case err == nil:
		return p.endOfWait(last.App)
	case ctx.Err() == nil && following.Err() != nil:
		return p.endOfTime(ctx, name, last)
	case ctx.Err() != nil && p.flags.isWatching && last != nil: // the user ended it
		return p.flags.exitFor(last.App)
	}
	return err
}

// show shows a state as the flags say, and reports whether the wait is over.
func (p *statusPrinter) show(ctx context.Context, current hub.AppState) (bool, error) {
	isDone := p.flags.isWaiting && p.flags.isOver(current.App)
	if line := view.Progress(current.App); p.flags.reportsProgress && line != p.progress {
		p.progress = line
		p.o.Note("%s", line)
	}
	switch {
	case p.flags.isWatching && p.objects == nil:
		text, state := p.render(ctx, current)
		if ctx.Err() != nil { // the text may say so
			return false, ctx.Err()
		}
		p.isShown = true
		return isDone, p.screen.Show(text, state)
	case p.flags.isWatching || isDone:
		return isDone, p.print(ctx, current)
	}
	return isDone, nil
}

// endOfWait returns nil if the condition is True, and otherwise the error that says why the wait has
// ended. The lines of a progress have said it already.
func (p *statusPrinter) endOfWait(app *v1alpha1.AppService) error {
	err := p.flags.exitFor(app)
	if err == nil || p.flags.reportsProgress {
		return err
	}
	const message = "%s is not %s (%s), and stays so until a user intervenes: see kubectl appsvc status %s"
	reason := view.RowOf(app).Status
	return hub.ExitError{Code: hub.ExitNegative, Message: fmt.Sprintf(message, app.Name, p.flags.condition, reason, app.Name)}
}

// endOfTime prints the last state, if it was not shown, and returns the error of a --timeout that has
// ended.
func (p *statusPrinter) endOfTime(ctx context.Context, name string, last *hub.AppState) error {
	exit := hub.ExitError{Code: hub.ExitNegative}
	switch {
	case last == nil:
		exit.Message = fmt.Sprintf("the state of %s was not read within the time of --timeout", name)
		return exit
	case p.flags.isWaiting:
		exit.Message = fmt.Sprintf("%s is not %s after %s", name, p.flags.condition, p.flags.timeout)
	default:
		exit.Message = fmt.Sprintf("the time to watch %s has ended after %s", name, p.flags.timeout)
	}
	if !p.isShown {
		if err := p.print(ctx, *last); err != nil {
			return err
		}
	}
	return exit
}

// render returns the text of a state, and the state in a form that has no ages.
func (p *statusPrinter) render(ctx context.Context, current hub.AppState) (text, state string) {
	notes, kinds := p.notes(ctx, current)
	options := view.Options{Now: time.Now(), Width: p.o.Width(), Color: p.o.HasColor(), All: p.flags.isListingAll, Notes: notes}
	text = view.Status(current.App, options)
	options.HidesAges, options.Notes = true, kinds
	return text, view.Status(current.App, options)
}

// notes say why the status of an AppService may be older than what runs, or incomplete: the operator has
// not processed the latest edit, or does not run. kinds are the same without ages.
func (p *statusPrinter) notes(ctx context.Context, current hub.AppState) (notes, kinds []string) {
	if current.App.Status.ObservedGeneration < current.App.Generation {
		notes = append(notes, "the operator has not processed the latest edit yet")
	}
	reading, cancel := context.WithTimeout(ctx, hub.VersionTimeout)
	defer cancel()
	operator := p.o.ReadOperator(reading, p.h)
	for _, text := range []string{operator.Stale, operator.Skew} {
		if text != "" {
			notes = append(notes, text)
		}
	}
	if current.Missing > 0 {
		notes = append(notes, fmt.Sprintf("%d AppServiceSlices are missing, so some clusters are not listed: the operator writes them again", current.Missing))
	}
	return notes, []string{fmt.Sprint(len(notes), operator.Stale != "", operator.IsKnown, operator.Skew, current.Missing)}
}
