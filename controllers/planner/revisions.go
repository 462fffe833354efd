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
)

// maxTakenNames is the number of names in a row that another owner may have taken.
const maxTakenNames = 100

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;create;delete

// revise returns the number of the revision that has the template of the AppService. If the history
// does not have it, it is stored, before a status names it. The history is read from the API
// server, and only after an edit: at rest the status names the revision of the spec.
func (r *Reconciler) revise(ctx context.Context, app *v1alpha1.AppService, in rollout.Input) (int64, error) {
	current := app.Status.Rollout.Revision
	if !app.DeletionTimestamp.IsZero() || current > 0 && !isEdited(app) {
		return current, nil
	}
	var stored appsv1.ControllerRevisionList
	if err := r.live.List(ctx, &stored, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return 0, r.reportRevisionsRefused(ctx, app, fmt.Errorf("read the revisions: %w", err))
	}
	history := revision.HistoryOf(app, stored.Items)
	number, isStored := history.NumberFor(in.App, in.HighestRevision())
	if !isStored {
		var err error
		if number, err = r.storeRevision(ctx, app, number); err != nil {
			return 0, r.reportRevisionsRefused(ctx, app, err)
		}
	}
	for _, superfluous := range history.Superfluous(app, number) {
		only := client.Preconditions{UID: new(superfluous.UID)}
		if err := r.hub.Delete(ctx, superfluous, only); client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Delete an old revision; the next edit tries again", "controllerRevision", superfluous.Name)
		}
	}
	return number, nil
}

func (r *Reconciler) reportRevisionsRefused(ctx context.Context, app *v1alpha1.AppService, refusal error) error {
	return r.reportRefusal(ctx, app, app.ResourceVersion, app.Status, v1alpha1.ReasonRevisionsRefused, refusal)
}

// storeRevision stores the template of an AppService as a revision with this number, or with the
// next one whose name nobody has. It returns the number.
func (r *Reconciler) storeRevision(ctx context.Context, app *v1alpha1.AppService, first int64) (int64, error) {
	for number := first; number < first+maxTakenNames; number++ {
		next, err := revision.New(app, number)
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
