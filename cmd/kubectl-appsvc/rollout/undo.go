package rollout

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/contents"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/history"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

func newUndo(o *hub.Options) *cobra.Command {
	var request undoRequest
	command := &cobra.Command{
		Use:   "undo APP [--to-revision NUMBER] [--configuration]",
		Short: "Return the spec to an earlier revision",
		Long: `Return the template in the spec to that of an earlier revision: the stable one while a rollout is
in progress or after it failed, and otherwise the stable one before. The other fields, such as
replicas and placement, keep their values. A return to the stable revision, or to the stable one
before, needs no approval and does not soak.

The revision may have had other content of the ConfigMaps and Secrets in spec.configuration. The
command names them, and with --configuration it writes that content to these objects on the hub
again, with your permissions. All AppServices that use such an object then get the content.
Without the flag, the present content stays: the earlier template with it is a new revision, which
is approved and soaks like any other. Objects with update InPlace have no revisions, so their
content stays.

Where Git owns the AppService or such an object, the command says what to revert and changes
nothing, because Argo CD or Flux would change it back.`,
		Example: `  kubectl appsvc rollout undo web
  kubectl appsvc rollout undo web --to-revision 5

  # Also restore the ConfigMaps and Secrets
  kubectl appsvc rollout undo web --configuration`,
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			return undo(command.Context(), o, h, args[0], request)
		},
	}
	command.Flags().Int64Var(&request.number, "to-revision", 0, "`number` of the revision to return to")
	command.Flags().BoolVar(&request.hasConfiguration, "configuration", false, "also restore the content of the ConfigMaps and Secrets on the hub")
	command.Flags().BoolVar(&request.isForced, "force", false, "change the objects also if Argo CD or Flux, or another object, owns them")
	return command
}

// undoRequest are the flags of undo.
type undoRequest struct {
	number           int64
	hasConfiguration bool
	isForced         bool
}

// undo returns the sources of the configuration to the content of a revision, if the request says so,
// and then the template in the spec: a changed source is collected for a second, so that both are one
// revision. If another client changes the spec meanwhile, undo fails; changes of the status do not
// matter.
func undo(ctx context.Context, o *hub.Options, h hub.Client, name string, request undoRequest) error {
	app, err := h.ReadApp(ctx, name)
	if err != nil {
		return err
	}
	stored, err := h.ReadHistory(ctx, app)
	if err != nil {
		return err
	}
	to, err := undoTarget(app, stored, request.number)
	if err != nil {
		return err
	}
	suspect := suspectSources(app, to)
	var different []configuration.Named
	if !request.hasConfiguration {
		different = differentSources(contents.Of(ctx, h, app), to, suspect)
	}
	isSpecKept := revision.HasTemplate(app.Spec, to.Template)
	restore := fmt.Sprintf("kubectl appsvc rollout undo %s --to-revision %d --configuration", name, to.Number)
	switch {
	case isSpecKept && len(different) > 0:
		return fmt.Errorf("the spec of %s has the template of revision %d already. What differs is the content of %s; to restore it: %s",
			name, to.Number, listResources(different), restore)
	case isSpecKept && (len(suspect) == 0 || !request.hasConfiguration):
		return fmt.Errorf("the spec of %s has the template of revision %d already", name, to.Number)
	}
	if !isSpecKept && !request.isForced {
		if err := checkOwner(app, app.Status.Rollout.Revision); err != nil {
			return err
		}
	}
	if request.hasConfiguration {
		if err := restoreSources(ctx, o, h, app, to, suspect, request.isForced); err != nil {
			return err
		}
	}
	if isSpecKept {
		return nil
	}
	if err := restoreTemplate(ctx, h, app, to.Template); err != nil {
		return err
	}
	o.Say("appservice/%s: the spec has the template of revision %d again (%s)", name, to.Number, output.Printable(to.Template.Image))
	if len(different) > 0 {
		o.Note("Revision %d had other content of %s. The present content stays, so this is a new revision; to restore that content too: %s",
			to.Number, listResources(different), restore)
	}
	return nil
}

// restoreTemplate returns the template in the spec to that of a revision, unless somebody has edited
// the spec since it was read.
func restoreTemplate(ctx context.Context, h hub.Client, app *v1alpha1.AppService, template v1alpha1.AppServiceSpec) error {
	generation := app.Generation
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := h.ReadApp(ctx, app.Name)
		if err != nil {
			return err
		}
		if current.Generation != generation || current.UID != app.UID {
			return fmt.Errorf("somebody edited %s just now: see kubectl appsvc rollout history %s, and try again", app.Name, app.Name)
		}
		changed := current.DeepCopy()
		changed.Spec = revision.Restore(current.Spec, template)
		return h.Patch(ctx, changed, client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{}), hub.PatchOptions)
	})
}

// checkOwner returns an error if a program applies the AppService from Git.
func checkOwner(app *v1alpha1.AppService, number int64) error {
	owner := gitOwner(app)
	if owner == "" {
		return nil
	}
	return fmt.Errorf("%s owns AppService %s and would change it back: run git revert on the commit that created revision %d there (see kubectl appsvc rollout history %s); --force changes the spec here nevertheless",
		owner, app.Name, number, app.Name)
}

// checkKnown returns an error if a revision has fields that this version of the plugin does not know:
// they would get lost.
func checkKnown(stored revision.Stored) error {
	if err := stored.CheckKnown(); err != nil {
		return fmt.Errorf("revision %d was stored by another version of Fleetwright (%w): use the plugin of the version of the operator", stored.Number, err)
	}
	return nil
}

// undoTarget returns the revision to which an undo returns. A number of 0 means the last good one.
func undoTarget(app *v1alpha1.AppService, stored []revision.Stored, number int64) (revision.Stored, error) {
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
	i := slices.IndexFunc(stored, func(s revision.Stored) bool { return s.Number == number })
	if i < 0 {
		return revision.Stored{}, history.NotStored(stored, number)
	}
	return stored[i], checkKnown(stored[i])
}

// gitOwners are the field managers of programs that apply what is in Git.
var gitOwners = map[string]string{
	"argocd-controller":             "Argo CD",
	"argocd-application-controller": "Argo CD",
	"kustomize-controller":          "Flux",
	"helm-controller":               "Flux",
}

// gitOwner returns the program that applies an object from Git, or "".
func gitOwner(object client.Object) string {
	labels := object.GetLabels()
	switch {
	case object.GetAnnotations()["argocd.argoproj.io/tracking-id"] != "", labels["argocd.argoproj.io/instance"] != "":
		return "Argo CD"
	case labels["kustomize.toolkit.fluxcd.io/name"] != "", labels["helm.toolkit.fluxcd.io/name"] != "":
		return "Flux"
	}
	for _, entry := range object.GetManagedFields() {
		if owner := gitOwners[entry.Manager]; owner != "" && entry.Subresource == "" {
			return owner
		}
	}
	return ""
}
