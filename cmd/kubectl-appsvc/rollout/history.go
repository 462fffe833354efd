package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/contents"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
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
		Args:              cobra.ExactArgs(1),
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
				return printRevision(o, contents.Of(command.Context(), h, app), stored, number)
			}
			return printHistory(o, app, stored)
		},
	}
	command.Flags().Int64Var(&number, "revision", 0, "`number` of the revision to show")
	return command
}

func printHistory(o *hub.Options, app *v1alpha1.AppService, history []revision.Stored) error {
	if len(history) == 0 {
		o.Note("The hub has no revision of %s yet.", app.Name)
		return nil
	}
	var rows [][]string
	for i, stored := range history {
		on := 0
		for _, entry := range app.Status.Clusters {
			if entry.Revision == stored.Number {
				on++
			}
		}
		changed := "first"
		if i > 0 {
			changed = output.ListShort(changes(history[i-1], stored))
		}
		rows = append(rows, []string{
			strconv.FormatInt(stored.Number, 10), roles(app.Status.Rollout, stored.Number), strconv.Itoa(on),
			stored.Template.Image, output.OrNone(changed), output.Age(stored.Object.CreationTimestamp.Time),
		})
	}
	return output.PrintTable(o.Out, false, []output.Column{{Name: "Revision"}, {Name: "State"}, {Name: "Clusters"}, {Name: "Image"}, {Name: "Changed"}, {Name: "Age"}}, rows)
}

// roles says what a revision is in the rollout.
func roles(state v1alpha1.RolloutStatus, number int64) string {
	var found []string
	for _, role := range []struct {
		name   string
		number int64
	}{{"current", state.Revision}, {"stable", state.StableRevision}, {"failed", state.FailedRevision}, {"previous", state.PreviousRevision}} {
		if role.number == number {
			found = append(found, role.name)
		}
	}
	return strings.Join(found, ",")
}

// changes returns what differs between two revisions: fields of the spec, and the sources whose
// content differs.
func changes(before, after revision.Stored) []string {
	all := changedFields(before.Template, after.Template)
	for _, source := range difference.ChangedSources(before.Configuration, after.Configuration) {
		all = append(all, difference.Resource(source))
	}
	return all
}

// changedFields returns the fields of the spec in which two templates differ.
func changedFields(before, after v1alpha1.AppServiceSpec) []string {
	was, is := fieldTexts(before), fieldTexts(after)
	var changed []string
	for name := range is {
		if was[name] != is[name] {
			changed = append(changed, name)
		}
	}
	for name := range was {
		if _, has := is[name]; !has {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// fieldTexts returns the fields of a spec as YAML.
func fieldTexts(spec v1alpha1.AppServiceSpec) map[string]string {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(templateText(spec)), &values); err != nil {
		return nil
	}
	texts := map[string]string{}
	for name, value := range values {
		content, _ := yaml.Marshal(value) // it was read from YAML
		texts[name] = string(content)
	}
	return texts
}

// templateText returns a template as YAML.
func templateText(template v1alpha1.AppServiceSpec) string {
	content, err := yaml.Marshal(template)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// printRevision prints what a revision changed. Values of Secrets are hidden.
func printRevision(o *hub.Options, all contents.Reader, history []revision.Stored, number int64) error {
	i := slices.IndexFunc(history, func(s revision.Stored) bool { return s.Number == number })
	if i < 0 {
		return errNoRevision(history, number)
	}
	if i == 0 {
		return o.Write(fmt.Sprintf("# revision %d is the oldest that is stored\n%s", number, templateText(history[0].Template)))
	}
	before, after := history[i-1], history[i]
	was, is := fmt.Sprintf("revision %d", before.Number), fmt.Sprintf("revision %d", number)
	diff := udiff.Unified(was, is, templateText(before.Template), templateText(after.Template))
	for _, source := range difference.ChangedSources(before.Configuration, after.Configuration) {
		name := string(source.Kind) + "/" + source.From
		diff += difference.OfContent(name, was, is, all.Named(before, source), all.Named(after, source))
	}
	return o.Write(diff)
}

func errNoRevision(history []revision.Stored, number int64) error {
	var numbers []string
	for _, stored := range history {
		numbers = append(numbers, strconv.FormatInt(stored.Number, 10))
	}
	if len(numbers) == 0 {
		return errors.New("the hub has no revision of the AppService")
	}
	return fmt.Errorf("revision %d is not stored: there are %s", number, strings.Join(numbers, ", "))
}
