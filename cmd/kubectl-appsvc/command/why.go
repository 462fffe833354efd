package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

func newWhy(o *hub.Options) *cobra.Command {
	var all bool
	var output string
	command := &cobra.Command{
		Use:   "why APP [CLUSTER]",
		Short: "Explain why an AppService runs on a cluster, or not",
		Long: `Explain for each cluster whether the placement chooses it, which requirement decided that,
which overrides apply, and where the number of replicas comes from.

The plugin decides with the same code as the operator, from the AppService and the
MemberClusters as they are now. Without the permission to list MemberClusters, it shows what the
operator has decided, which the status of the AppService has.`,
		Example: `  # All clusters
  kubectl appsvc why web

  # Why is it not on south?
  kubectl appsvc why web south`,
		Args:              hub.Arguments(hub.App, hub.Cluster.Optional()),
		ValidArgsFunction: o.CompleteApp(o.CompleteMember),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			app, err := h.ReadEntries(command.Context(), args[0])
			if err != nil {
				return err
			}
			clusters, err := whyClusters(command.Context(), o, h, app, args[1:])
			if err != nil {
				return err
			}
			switch output {
			case "":
				return o.Write(view.Why(app, clusters, view.Options{Now: time.Now(), Width: o.Width(), All: all}))
			default:
				return printValue(o.Out, output, clusters)
			}
		},
	}
	command.Flags().BoolVar(&all, "all", false, "name all clusters, also if many have the same explanation")
	command.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, yaml).")
	return command
}

// whyClusters explains the decision for each cluster, or for one cluster only. If the caller may not
// list MemberClusters, it explains what the status of the AppService has, and prints a note.
func whyClusters(ctx context.Context, o *hub.Options, h hub.Client, app *v1alpha1.AppService, only []string) ([]explain.Cluster, error) {
	members, isPermitted, err := h.ListPermittedMembers(ctx)
	if err != nil {
		return nil, err
	}
	var clusters []explain.Cluster
	if isPermitted {
		if clusters, err = explain.Placement(app, members); err != nil {
			return nil, fmt.Errorf("the AppService cannot be placed: %w", err)
		}
	} else {
		clusters = explain.Entries(app)
		o.Note("%s", noteDecided(app))
	}
	if len(only) == 0 {
		return clusters, nil
	}
	clusters = slices.DeleteFunc(clusters, func(c explain.Cluster) bool { return c.Name != only[0] })
	switch {
	case len(clusters) > 0:
		return clusters, nil
	case isPermitted:
		return nil, hub.NoSuchCluster(only[0])
	}
	return nil, noSuchEntry(app.Name, only[0])
}

// noSuchEntry returns the error of a cluster of which nothing is known, because the caller may not list
// MemberClusters.
func noSuchEntry(app, cluster string) error {
	return hub.NotFoundError(fmt.Sprintf("the status of %s does not name cluster %s", app, cluster))
}

// noteDecided says what an explanation without the MemberClusters has and lacks.
func noteDecided(app *v1alpha1.AppService) string {
	note := "you may not list MemberClusters, so this is what the operator has decided, without the reasons that need their labels"
	unnamed := int32(0)
	for _, excluded := range app.Status.Placement.Excluded {
		unnamed += excluded.Count - int32(len(excluded.Examples))
	}
	if unnamed > 0 {
		note += fmt.Sprintf("; %d more clusters are excluded, see kubectl get appsvc %s -o yaml (status.placement.excluded)", unnamed, app.Name)
	}
	return note + ": " + hub.MembersRole
}

// printValue prints a value that is no Kubernetes object, as json or yaml.
func printValue(out io.Writer, format string, value any) error {
	var content []byte
	var err error
	switch format {
	case "json":
		content, err = json.MarshalIndent(value, "", "    ")
		content = append(content, '\n')
	case "yaml":
		var text string
		text, err = output.MarshalYAML(value)
		content = []byte(text)
	default:
		return fmt.Errorf("--output %q: want json or yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return err
}
