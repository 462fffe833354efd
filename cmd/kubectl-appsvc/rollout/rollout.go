package rollout

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// New returns the command rollout. status is the one that shows how far a rollout is.
func New(o *hub.Options, status *cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   "rollout",
		Short: "Watch, approve, stop and undo the rollout of an AppService",
		Long: `The rollout of an AppService brings an edit to its clusters in the stages of spec.rollout.
Each command names the revision that it is about in an annotation of the AppService, so it
never has an effect on a later edit.`,
	}
	command.AddCommand(
		status, newHistory(o), newUndo(o), newApprove(o), newPromote(o),
		newPause(o), newResume(o), newAbort(o), newRetry(o),
	)
	return command
}

// checkCurrent returns an error unless the status is about the current spec: otherwise the revision
// that it names is not the one that the user means.
func checkCurrent(app *v1alpha1.AppService) error {
	switch {
	case app.Status.ObservedGeneration < app.Generation:
		return fmt.Errorf("the operator has not processed the latest edit of %s yet: try again in a moment; see kubectl appsvc status %s", app.Name, app.Name)
	case app.Status.Rollout.Revision == 0:
		return fmt.Errorf("%s has no revision yet: see kubectl appsvc status %s", app.Name, app.Name)
	}
	return nil
}

// checkStaged returns an error unless the AppService has a rollout in stages.
func checkStaged(app *v1alpha1.AppService) error {
	if app.Spec.Rollout == nil {
		return fmt.Errorf("%s has no spec.rollout: an edit reaches all clusters at once (docs/rollouts.md)", app.Name)
	}
	return checkCurrent(app)
}
