package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

func newUndo(o *hubOptions) *cobra.Command {
	var number int64
	var isForced bool
	command := &cobra.Command{
		Use:   "undo APP [--to-revision NUMBER]",
		Short: "Return the spec to an earlier revision",
		Long: `Return the template in the spec to that of an earlier revision: the stable one while a rollout is
in progress or after it failed, and otherwise the stable one before. The other fields, such as
replicas and placement, keep their values. A return to the stable revision, or to the stable one
before, needs no approval and does not soak.

Where Git owns the AppService, the command prints what to revert and changes nothing, because
Argo CD or Flux would change it back.`,
		Example: `  kubectl appsvc rollout undo web
  kubectl appsvc rollout undo web --to-revision 5`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.connect()
			if err != nil {
				return err
			}
			to, err := h.undo(command.Context(), args[0], number, isForced)
			if err != nil {
				return err
			}
			return o.write(fmt.Sprintf("appservice/%s: the spec has the template of revision %d again (%s)\n", args[0], to.Number, to.Template.Image))
		},
	}
	command.Flags().Int64Var(&number, "to-revision", 0, "`number` of the revision to return to")
	command.Flags().BoolVar(&isForced, "force", false, "change the spec also if Argo CD or Flux owns it")
	return command
}

// undo returns the template in the spec to that of a revision. If another client changes the spec
// meanwhile, it fails; changes of the status do not matter.
func (h hub) undo(ctx context.Context, name string, number int64, isForced bool) (to revision.Stored, err error) {
	generation := int64(0)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		app, err := h.readApp(ctx, name)
		if err != nil {
			return err
		}
		if generation != 0 && app.Generation != generation {
			return fmt.Errorf("somebody edited %s just now: see kubectl appsvc rollout history %s, and try again", name, name)
		}
		generation = app.Generation
		history, err := h.readHistory(ctx, app)
		if err != nil {
			return err
		}
		if to, err = undoTarget(app, history, number); err != nil {
			return err
		}
		if owner := gitOwner(app); owner != "" && !isForced {
			return fmt.Errorf("%s owns AppService %s and would change it back: run git revert on the commit that created revision %d there (see kubectl appsvc rollout history %s); --force changes the spec here nevertheless",
				owner, name, app.Status.Rollout.Revision, name)
		}
		changed := app.DeepCopy()
		changed.Spec = revision.Restore(app.Spec, to.Template)
		return h.Patch(ctx, changed, client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{}), patchOptions)
	})
	return to, err
}

// checkKnown returns an error if a revision has fields that this version of the plugin does not know:
// they would get lost.
func checkKnown(stored revision.Stored) error {
	decoder := json.NewDecoder(bytes.NewReader(stored.Object.Data.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v1alpha1.AppService{}); err != nil {
		return fmt.Errorf("revision %d was stored by another version of Fleetwright (%w): use the plugin of the version of the operator", stored.Number, err)
	}
	return nil
}

// undoTarget returns the revision to which an undo returns. A number of 0 means the last good one.
func undoTarget(app *v1alpha1.AppService, history []revision.Stored, number int64) (revision.Stored, error) {
	state := app.Status.Rollout
	if number == 0 {
		if err := checkCurrent(app); err != nil {
			return revision.Stored{}, err
		}
		if number = state.StableRevision; number == state.Revision {
			number = state.PreviousRevision
		}
		if number == 0 {
			return revision.Stored{}, fmt.Errorf("%s has no earlier revision that was good: choose one with --to-revision; see kubectl appsvc rollout history %s", app.Name, app.Name)
		}
	}
	i := slices.IndexFunc(history, func(s revision.Stored) bool { return s.Number == number })
	switch {
	case i < 0:
		return revision.Stored{}, errNoRevision(history, number)
	case revision.HasTemplate(app.Spec, history[i].Template):
		return revision.Stored{}, fmt.Errorf("the spec of %s has the template of revision %d already", app.Name, number)
	}
	return history[i], checkKnown(history[i])
}

// gitOwners are the field managers of programs that apply what is in Git.
var gitOwners = map[string]string{
	"argocd-controller":             "Argo CD",
	"argocd-application-controller": "Argo CD",
	"kustomize-controller":          "Flux",
	"helm-controller":               "Flux",
}

// gitOwner returns the program that applies an AppService from Git, or "".
func gitOwner(app *v1alpha1.AppService) string {
	switch {
	case app.Annotations["argocd.argoproj.io/tracking-id"] != "", app.Labels["argocd.argoproj.io/instance"] != "":
		return "Argo CD"
	case app.Labels["kustomize.toolkit.fluxcd.io/name"] != "", app.Labels["helm.toolkit.fluxcd.io/name"] != "":
		return "Flux"
	}
	for _, entry := range app.ManagedFields {
		if owner := gitOwners[entry.Manager]; owner != "" && entry.Subresource == "" {
			return owner
		}
	}
	return ""
}

func newRestart(o *hubOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "restart APP",
		Short: "Restart the pods of an AppService on all clusters",
		Long: `Restart the pods by an annotation in spec.podAnnotations, as kubectl rollout restart does. This is
a new revision, so it goes through the stages of spec.rollout like any other.`,
		Example:           "  kubectl appsvc restart web",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.connect()
			if err != nil {
				return err
			}
			app, err := h.readApp(command.Context(), args[0])
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
			if err := h.Patch(command.Context(), changed, client.MergeFrom(app), patchOptions); err != nil {
				return fmt.Errorf("change AppService %s: %w", app.Name, err)
			}
			return o.write(fmt.Sprintf("appservice/%s: restarted; see kubectl appsvc status %s --watch\n", app.Name, app.Name))
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
