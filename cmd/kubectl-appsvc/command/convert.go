package command

import (
	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/convert"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

func newConvert(o *hub.Options) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "convert -f FILE",
		Short: "Make an AppService from a Deployment and its Service",
		Long: `Make an AppService from a Deployment, and from its Service, HorizontalPodAutoscaler and
PodDisruptionBudget if the file has them. What an AppService cannot express is in comments. The
AppService takes over what already runs on a cluster without a restart, if it is the same. Then it
owns that: deleting the AppService deletes the Deployment, unless spec.deletionPolicy is Orphan.`,
		Example: `  kubectl appsvc convert -f web.yaml > appservice.yaml

  # From what runs in a cluster
  kubectl --context east get deployment,service web -o yaml | kubectl appsvc convert -f -`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if file == "" {
				return hub.Missing(command, "-f FILE")
			}
			objects, err := readObjects(o, file)
			if err != nil {
				return err
			}
			app, notes, err := convert.ToAppService(objects)
			if err != nil {
				return err
			}
			text, err := convert.Text(app, notes)
			if err != nil {
				return err
			}
			return o.WriteRaw(text)
		},
	}
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with the Deployment; - reads the standard input")
	return command
}
