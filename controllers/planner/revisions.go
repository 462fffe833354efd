package planner

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/templates"
)

// maxTakenNames is the number of names in a row that another owner may have taken.
const maxTakenNames = 100

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;create;delete

// revise sets the revision that has the template of the AppService. If the history does not have it,
// it is stored, before a status names it. The history is read from the API server, and only after an
// edit or for a retry: at rest the status names the revision of the spec.
func (r *Reconciler) revise(ctx context.Context, app *v1alpha1.AppService, in *rollout.Input) error {
	in.Revision = app.Status.Rollout.Revision
	isRetry := rollout.RetriesRevision(app)
	if in.IsDeleting() || in.Revision > 0 && !isEdited(app) && !isRetry {
		return r.checkStable(ctx, in)
	}
	var stored appsv1.ControllerRevisionList
	if err := r.live.List(ctx, &stored, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return r.reportRevisionsRefused(ctx, app, fmt.Errorf("read the revisions: %w", err))
	}
	history := revision.HistoryOf(app, stored.Items)
	next := history.NextFor(in.App, in.HighestRevision(), isRetry)
	if !next.IsStored {
		var err error
		if next.Number, err = r.storeRevision(ctx, app, next.Number); err != nil {
			return r.reportRevisionsRefused(ctx, app, err)
		}
	}
	in.Revision = next.Number
	switch {
	case next.IsRetry:
		in.Origin = rollout.RevisionRetried
	case next.IsUndo:
		in.Origin = rollout.RevisionUndone
	}
	for _, superfluous := range history.Superfluous(in.App, next.Number) {
		only := client.Preconditions{UID: new(superfluous.UID)}
		if err := r.hub.Delete(ctx, superfluous, only); client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Delete an old revision; the next edit tries again", "controllerRevision", superfluous.Name)
		}
	}
	return r.checkStable(ctx, in)
}

// checkStable sets whether the stable revision is missing, to which a rollout may return.
func (r *Reconciler) checkStable(ctx context.Context, in *rollout.Input) error {
	stable := in.App.Status.Rollout.StableRevision
	if in.IsDeleting() || stable == 0 || stable == in.Revision || in.App.Spec.Rollout == nil && in.App.Status.Rollout.Phase == "" {
		return nil
	}
	_, err := r.templates.Revision(ctx, in.App, stable)
	if in.IsStableMissing = templates.IsMissing(err); in.IsStableMissing {
		return nil
	}
	return err
}

func (r *Reconciler) reportRevisionsRefused(ctx context.Context, app *v1alpha1.AppService, refusal error) error {
	return r.reportRefusal(ctx, app, app.ResourceVersion, app.Status, v1alpha1.ReasonRevisionsRefused, refusal)
}

// storeRevision stores the template of an AppService as a revision with this number, or with the
// next one whose name nobody has. It returns the number.
func (r *Reconciler) storeRevision(ctx context.Context, app *v1alpha1.AppService, first int64) (int64, error) {
	for number := first; number < first+maxTakenNames; number++ {
		next, err := revision.New(app, number, nil)
		if err != nil {
			return 0, err
		}
		if err := r.hub.Create(ctx, next); err == nil {
			return number, nil
		} else if !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("store revision %d: %w", number, err)
		}
		isSame, err := r.isStored(ctx, app, next)
		if err != nil || isSame {
			return number, err
		}
	}
	return 0, errors.New("store a revision: other objects have the names " + revision.Name(app.Name, first) + " and later")
}

// isStored reports whether the hub has this revision: the response to its creation was lost, or its
// label was removed.
func (r *Reconciler) isStored(ctx context.Context, app *v1alpha1.AppService, want *appsv1.ControllerRevision) (bool, error) {
	existing := &appsv1.ControllerRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), existing); err != nil {
		return false, fmt.Errorf("read ControllerRevision %s: %w", want.Name, err)
	}
	stored, err := revision.Read(app, existing)
	return err == nil && revision.HasTemplate(app.Spec, stored.Template), nil
}
