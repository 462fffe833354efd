package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
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
MemberClusters as they are now.`,
		Example: `  # All clusters
  kubectl appsvc why web

  # Why is it not on south?
  kubectl appsvc why web south`,
		Args:              cobra.RangeArgs(1, 2),
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
			members, err := h.ListMembers(command.Context())
			if err != nil {
				return err
			}
			clusters, err := explain.Placement(app, members)
			if err != nil {
				return fmt.Errorf("the AppService cannot be placed: %w", err)
			}
			if len(args) == 2 {
				name := args[1]
				clusters = slices.DeleteFunc(clusters, func(c explain.Cluster) bool { return c.Name != name })
				if len(clusters) == 0 {
					return hub.NoSuchCluster(name)
				}
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

// printValue prints a value that is no Kubernetes object, as json or yaml.
func printValue(out io.Writer, format string, value any) error {
	var content []byte
	var err error
	switch format {
	case "json":
		content, err = json.MarshalIndent(value, "", "    ")
		content = append(content, '\n')
	case "yaml":
		content, err = yaml.Marshal(value)
	default:
		return fmt.Errorf("--output %q: want json or yaml", format)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return err
}
