package rollout

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// NewRestart returns the command restart.
func NewRestart(o *hub.Options) *cobra.Command {
	return &cobra.Command{
		Use:   "restart APP",
		Short: "Restart the pods of an AppService on all clusters",
		Long: `Restart the pods by an annotation in spec.podAnnotations, as kubectl rollout restart does. This is
a new revision, so it goes through the stages of spec.rollout like any other.`,
		Example:           "  kubectl appsvc restart web",
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			app, err := h.ReadApp(command.Context(), args[0])
			if err != nil {
				return err
			}
			if err := checkRestart(app); err != nil {
				return err
			}
			changed := app.DeepCopy()
			if changed.Spec.PodAnnotations == nil {
				changed.Spec.PodAnnotations = map[string]string{}
			}
			changed.Spec.PodAnnotations["kubectl.kubernetes.io/restartedAt"] = time.Now().Format(time.RFC3339)
			if err := h.Patch(command.Context(), changed, client.MergeFrom(app), hub.PatchOptions); err != nil {
				return fmt.Errorf("change AppService %s: %w", app.Name, err)
			}
			return o.Write(fmt.Sprintf("appservice/%s: restarted; see kubectl appsvc status %s --watch\n", app.Name, app.Name))
		},
	}
}

// checkRestart returns an error if a restart would bring a template to clusters that somebody has
// stopped: a restart is a new revision, which a pause or a failure of the current one does not stop.
func checkRestart(app *v1alpha1.AppService) error {
	if app.Spec.Rollout == nil {
		return nil
	}
	if err := checkCurrent(app); err != nil {
		return err
	}
	switch state := app.Status.Rollout; {
	case state.FailedRevision == state.Revision:
		return fmt.Errorf("revision %d of %s has failed, and a restart would roll out its template again: correct the spec, or use kubectl appsvc rollout undo %s or retry %s", state.Revision, app.Name, app.Name, app.Name)
	case view.IsPaused(app) || app.Spec.Rollout.Paused:
		return fmt.Errorf("the rollout of revision %d of %s is paused: use kubectl appsvc rollout resume %s first", state.Revision, app.Name, app.Name)
	}
	return nil
}
