package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// appListFlags are the flags of status, with those that are for lists only.
type appListFlags struct {
	*statusFlags
	output.ListFlags
	isAllNamespaces bool
	selector        string
}

func (f *appListFlags) add(command *cobra.Command) {
	command.Flags().BoolVarP(&f.isAllNamespaces, "all-namespaces", "A", false, "list the AppServices of all namespaces")
	command.Flags().StringVarP(&f.selector, "selector", "l", "", "list the AppServices with these `labels`")
	f.AddListFlags(command)
}

// runStatusList lists AppServices, once or until the flags say.
func runStatusList(ctx context.Context, o *hub.Options, names []string, flags *appListFlags) error {
	matching, err := labels.Parse(flags.selector)
	switch {
	case err != nil:
		return fmt.Errorf("--selector: %w", err)
	case flags.selector != "" && len(names) > 0:
		return errors.New("names and --selector exclude each other: give one of them")
	case flags.isAllNamespaces && len(names) > 0:
		return errors.New("names and --all-namespaces exclude each other: use --namespace with the names")
	case flags.isWaiting:
		return errors.New("--wait is for one AppService: give its name, or use --watch")
	}
	p, err := newAppListPrinter(o, flags, names)
	if err != nil {
		return err
	}
	options := []client.ListOption{client.MatchingLabelsSelector{Selector: matching}}
	if !flags.isAllNamespaces {
		options = append(options, client.InNamespace(p.h.Namespace))
	}
	if flags.isWatching {
		return p.follow(ctx, options)
	}
	return p.once(ctx, options)
}

// appColumns are the columns of a list of AppServices.
var appColumns = []output.Column{
	{Name: "Name"}, {Name: "Revision"}, {Name: "Ready"}, {Name: "Status"}, {Name: "Stage"}, {Name: "Age", IsAge: true},
	{Name: "Available", IsWide: true}, {Name: "Image", IsWide: true}, {Name: "Next"},
}

// appListPrinter prints AppServices as the flags of status say.
type appListPrinter struct {
	o     *hub.Options
	h     hub.Client
	flags *appListFlags
	names []string // of the AppServices, or empty for all that are listed
	table *output.Table
	// objects is nil if the output is a table. shown are the objects that a watch has printed.
	objects printers.ResourcePrinter
	shown   map[client.ObjectKey]*v1alpha1.AppService
	// wasEmpty is set after it was noted that there are no AppServices.
	wasEmpty bool
	// notes say what the Lease of the operator said at notedAt.
	notes   []string
	notedAt time.Time
}

func newAppListPrinter(o *hub.Options, flags *appListFlags, names []string) (p *appListPrinter, err error) {
	columns := appColumns
	if flags.isAllNamespaces {
		columns = append([]output.Column{{Name: "Namespace"}}, columns...)
	}
	p = &appListPrinter{o: o, flags: flags, names: names, table: flags.NewTable(o.Streams, columns), shown: map[client.ObjectKey]*v1alpha1.AppService{}}
	if !flags.IsTable() {
		if p.objects, err = flags.ToPrinter(); err != nil {
			return nil, err
		}
	}
	p.h, err = o.Connect()
	return p, err
}

// once prints the AppServices once.
func (p *appListPrinter) once(ctx context.Context, options []client.ListOption) error {
	list, err := p.read(ctx, options)
	if err != nil {
		return err
	}
	apps, err := p.sort(list)
	switch {
	case err != nil:
		return err
	case p.objects != nil:
		return p.flags.PrintList(p.objects, list, p.o.Out)
	}
	p.o.NoteAll(p.operatorNotes(ctx))
	if len(apps) == 0 {
		p.o.Note("%s", p.empty())
		return nil
	}
	return p.table.Print(p.rowsOf(apps))
}

// read reads the AppServices with the names, or those that the options select. Their entries in
// AppServiceSlices are not read: the status has the numbers of the table.
func (p *appListPrinter) read(ctx context.Context, options []client.ListOption) (*v1alpha1.AppServiceList, error) {
	list := &v1alpha1.AppServiceList{}
	if len(p.names) == 0 {
		if err := p.h.List(ctx, list, options...); err != nil {
			return nil, fmt.Errorf("list AppServices: %w", err)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(p.names))) {
		app, err := p.h.ReadApp(ctx, name)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *app)
	}
	return list, nil
}

// sort sorts a list as the flags say, and returns its AppServices in the order of the table.
func (p *appListPrinter) sort(list *v1alpha1.AppServiceList) ([]*v1alpha1.AppService, error) {
	for i := range list.Items { // the client clears it
		list.Items[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	}
	if err := output.SortList(list, p.flags.SortBy); err != nil {
		return nil, err
	}
	var apps []*v1alpha1.AppService
	for i := range list.Items {
		apps = append(apps, &list.Items[i])
	}
	if p.flags.SortBy != "" {
		return apps, nil
	}
	return view.ByAttention(apps), nil
}

func (p *appListPrinter) rowsOf(apps []*v1alpha1.AppService) []output.Row {
	var rows []output.Row
	for _, app := range apps {
		row := view.RowOf(app)
		cells := []string{app.Name, output.OrNone(row.Revision), row.Ready, row.Status, output.OrNone(row.Stage),
			output.Age(app.CreationTimestamp.Time), output.OrNone(row.Available), app.Spec.Image, output.OrNone(row.Next)}
		if p.flags.isAllNamespaces {
			cells = append([]string{app.Namespace}, cells...)
		}
		rows = append(rows, output.Row{Key: app.Namespace + "/" + app.Name, Cells: cells})
	}
	return rows
}

// empty says that there are no AppServices.
func (p *appListPrinter) empty() string {
	text := "No AppServices"
	if p.flags.selector != "" {
		text += " with these labels"
	}
	if p.flags.isAllNamespaces {
		return text + " on the hub."
	}
	return text + " in namespace " + p.h.Namespace + "."
}

// operatorNotes says why the list may be old. The Lease of the operator is read from time to time, and not
// for each change of an AppService.
func (p *appListPrinter) operatorNotes(ctx context.Context) []string {
	const interval = 5 * time.Second
	if now := time.Now(); now.Sub(p.notedAt) >= interval {
		reading, cancel := context.WithTimeout(ctx, hub.VersionTimeout)
		defer cancel()
		p.notes, p.notedAt = p.o.OperatorNotes(reading, p.h), now
	}
	return p.notes
}
