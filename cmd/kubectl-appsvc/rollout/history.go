package rollout

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/contents"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/history"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

func newHistory(o *hub.Options) *cobra.Command {
	var number int64
	command := &cobra.Command{
		Use:   "history APP [--revision NUMBER]",
		Short: "List the revisions of an AppService, or show what one changed",
		Long: `List the revisions of an AppService that the hub has stored. With --revision, show what that
revision changed, as a diff against the revision before it. Values of Secrets are hidden.`,
		Example: `  kubectl appsvc rollout history web
  kubectl appsvc rollout history web --revision 7`,
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			app, err := h.ReadEntries(command.Context(), args[0])
			if err != nil {
				return err
			}
			stored, err := h.ReadHistory(command.Context(), app)
			if err != nil {
				return err
			}
			if number != 0 {
				diff, err := history.Diff(contents.Of(command.Context(), h, app), stored, number)
				if err != nil {
					return err
				}
				return o.Write(output.PrintableLines(diff))
			}
			return printHistory(o, app, stored)
		},
	}
	command.Flags().Int64Var(&number, "revision", 0, "`number` of the revision to show")
	return command
}

func printHistory(o *hub.Options, app *v1alpha1.AppService, stored []revision.Stored) error {
	if len(stored) == 0 {
		o.Note("The hub has no revision of %s yet.", app.Name)
		return nil
	}
	var rows [][]string
	for _, entry := range slices.Backward(history.List(&app.Status.Rollout, app.Status.Clusters, stored)) {
		changed := "first"
		if entry.Before != 0 {
			changed = output.ListShort(entry.Changed)
		}
		rows = append(rows, []string{
			strconv.FormatInt(entry.Number, 10), strings.Join(entry.States, ","), strconv.Itoa(entry.Clusters),
			entry.Template.Image, output.OrNone(changed), output.Age(entry.Object.CreationTimestamp.Time),
		})
	}
	return output.PrintTable(o.Out, false, []output.Column{{Name: "Revision"}, {Name: "State"}, {Name: "Clusters"}, {Name: "Image"}, {Name: "Changed"}, {Name: "Age"}}, rows)
}
