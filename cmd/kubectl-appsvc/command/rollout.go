package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func newRollout(o *hubOptions) *cobra.Command {
	command := &cobra.Command{
		Use:   "rollout",
		Short: "Watch, approve, stop and undo the rollout of an AppService",
		Long: `The rollout of an AppService brings an edit to its clusters in the stages of spec.rollout.
Each command names the revision that it is about in an annotation of the AppService, so it
never has an effect on a later edit.`,
		Args: cobra.NoArgs,
	}
	command.AddCommand(
		newRolloutStatus(o), newHistory(o), newUndo(o), newApprove(o), newPromote(o),
		newPause(o), newResume(o), newAbort(o), newRetry(o),
	)
	return command
}

func newRolloutStatus(o *hubOptions) *cobra.Command {
	flags := &statusFlags{condition: v1alpha1.ConditionRolledOut, output: newOutputFlags("")}
	command := &cobra.Command{
		Use:   "status APP",
		Short: "Show how far a rollout is",
		Long: `Show how far a rollout is: the stages, the clusters, and the command that continues it.

The exit code is 0 if the revision of the spec went through all stages, and 3 if it did not.`,
		Example:           "  kubectl appsvc rollout status web --watch",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			return o.runStatus(command.Context(), args[0], flags)
		},
	}
	flags.add(command)
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
