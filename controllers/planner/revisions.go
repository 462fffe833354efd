package planner

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// maxTakenNames is the number of names in a row that another owner may have taken.
const maxTakenNames = 100

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;create;delete

// revise sets the revision that has the template of the AppService, and the present snapshots of its
// configuration. If the history does not have it, it is stored, before a status names it. Without
// configuration, the history is read from the API server only after an edit or for a retry: at rest
// the status names the revision of the spec.
func (r *Reconciler) revise(ctx context.Context, app *v1alpha1.AppService, in *rollout.Input) error {
	in.Revision = app.Status.Rollout.Revision
	isRetry := stages.RetriesRevision(app)
	isNeeded := in.Revision == 0 || isEdited(app) || isRetry
	if in.App.IsDeleting() {
		return r.checkStable(ctx, in)
	}
	var snapshots []configuration.Named
	var listed *revision.History
	if r.hasConfiguration(app) {
		var err error
		isNeeded, listed, err = r.configure(ctx, app, in, isRetry)
		var unlisted unlistedError
		if errors.As(err, &unlisted) {
			return r.planUnlisted(ctx, app, in, unlisted.cause)
		} else if err != nil {
			return err
		}
		snapshots = in.Configuration.Configuration
	}
	if r.awaitsReports(in) { // members may have numbers that the history does not have
		return nil
	}
	in.PodSecurity = app.Status.Rollout.PodSecurity
	if app.Status.Rollout.SpecRefused && !isEdited(app) && !isRetry { // it is not in the history
		if _, isRefused, err := r.admit(ctx, in); isRefused || err != nil {
			return errors.Join(err, r.checkStable(ctx, in))
		}
		isNeeded = true
	}
	if !isNeeded {
		return r.checkStable(ctx, in)
	}
	if refusal := r.throttle.refusedRevision(app, time.Now()); refusal != nil {
		return r.planWithout(ctx, in, refusal)
	}
	if listed == nil {
		history, err := r.listRevisions(ctx, app)
		if err != nil {
			return r.planUnlisted(ctx, app, in, err)
		}
		listed = &history
	}
	history := *listed
	next := history.NextFor(in.App, snapshots, in.HighestRevision(), isRetry)
	if !next.IsStored {
		policy, isRefused, err := r.admitUnlessKnown(ctx, in, history)
		if isRefused || err != nil {
			return errors.Join(err, r.checkStable(ctx, in))
		}
		stored, err := r.storeRevision(ctx, app, snapshots, policy, next.Number)
		if in.Revision != 0 && status.IsRefusal(err) {
			r.throttle.recordRefusedRevision(app, time.Now(), err)
			return r.planWithout(ctx, in, err)
		} else if err != nil {
			r.histories.forget(client.ObjectKeyFromObject(app))
			return r.reportRevisionsRefused(ctx, app, err)
		}
		next.Number, history = stored.Number, history.With(stored)
	}
	setRevision(in, history, next)
	r.prune(ctx, app, in, history)
	return r.checkStable(ctx, in)
}

// awaitsReports reports whether revisions are frozen, because the status was lost and clusters have not
// reported. It reads which of them were found unreachable, and has the AppService enqueued when another is.
func (r *Reconciler) awaitsReports(in *rollout.Input) bool {
	if !in.AwaitsReports() {
		return false
	}
	in.Unreachable = r.observations.awaitUnreachable(client.ObjectKeyFromObject(in.App))
	return in.AwaitsReports()
}

// prune deletes the superfluous revisions. With configuration, it remembers the others.
func (r *Reconciler) prune(ctx context.Context, app *v1alpha1.AppService, in *rollout.Input, history revision.History) {
	before := len(history.All())
	history = r.deleteSuperfluous(ctx, history, history.Superfluous(in.App, in.Revision))
	if !r.hasConfiguration(app) {
		return
	}
	r.histories.remember(app, history, in.Revision)
	if len(history.All()) < before {
		in.Configuration.RecheckAfter = earlier(in.Configuration.RecheckAfter, afterDeletion)
	}
}

// setRevision sets the revision of the spec.
func setRevision(in *rollout.Input, history revision.History, next revision.Next) {
	in.Revision, in.ChangedSources, in.SameRevisions = next.Number, next.ChangedSources, next.Same
	in.IsRevisionMissing = false // its snapshots exist: they are those of the decision
	// The policy of the revision of the status may allow more since the revision was stored.
	if stored := history.Find(next.Number); stored != nil && next.Number != in.App.Status.Rollout.Revision {
		in.PodSecurity = stored.PodSecurity
	}
	switch {
	case next.IsRetry:
		in.Origin = stages.RevisionRetried
	case next.IsUndo:
		in.Origin = stages.RevisionUndone
	}
}

// planWithout lets the rollout of the revision of the status go on, because the hub refuses the next one.
func (r *Reconciler) planWithout(ctx context.Context, in *rollout.Input, refusal error) error {
	in.RevisionRefused, in.IsSpecPending = refusal, true
	return r.checkStable(ctx, in)
}

// listRevisions reads the revisions of an AppService from the API server.
func (r *Reconciler) listRevisions(ctx context.Context, app *v1alpha1.AppService) (revision.History, error) {
	var stored appsv1.ControllerRevisionList
	if err := r.live.List(ctx, &stored, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return revision.History{}, fmt.Errorf("read the revisions: %w", err)
	}
	return revision.HistoryOf(app, stored.Items), nil
}

// deleteSuperfluous deletes old revisions, and returns the history without those that are deleted.
func (r *Reconciler) deleteSuperfluous(ctx context.Context, history revision.History, superfluous []*appsv1.ControllerRevision) revision.History {
	for _, object := range superfluous {
		only := client.Preconditions{UID: new(object.UID)}
		if err := r.hub.Delete(ctx, object, only); client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Delete an old revision; the next edit tries again", "controllerRevision", object.Name)
			continue
		}
		history = history.Without(object)
	}
	return history
}

// checkStable sets whether the stable revision is missing, to which a rollout may return.
func (r *Reconciler) checkStable(ctx context.Context, in *rollout.Input) error {
	stable := in.App.Status.Rollout.StableRevision
	if in.App.IsDeleting() || in.IsStableMissing || stable == 0 || stable == in.Revision || in.App.Spec.Rollout == nil && in.App.Status.Rollout.Phase == "" {
		return nil
	}
	_, err := r.revisions.Revision(ctx, in.App, stable)
	if in.IsStableMissing = reader.IsMissing(err); in.IsStableMissing || err == nil {
		return nil
	}
	return r.planUnread(in, stable, err)
}

func (r *Reconciler) reportRevisionsRefused(ctx context.Context, app *v1alpha1.AppService, refusal error) error {
	return r.reportRefusal(ctx, app, app.ResourceVersion, app.Status, v1alpha1.ReasonRevisionsRefused, refusal)
}

// storeRevision stores the template of an AppService, these snapshots and the policy as a revision
// with this number, or with the next one whose name nobody has.
func (r *Reconciler) storeRevision(ctx context.Context, app *v1alpha1.AppService, snapshots []configuration.Named, policy *v1alpha1.PodSecurity, first int64) (revision.Stored, error) {
	for number := first; number < first+maxTakenNames; number++ {
		next, err := revision.New(app, number, snapshots, policy)
		if err != nil {
			return revision.Stored{}, err
		}
		if err := r.hub.Create(ctx, next); err == nil {
			return revision.Read(app, next)
		} else if !apierrors.IsAlreadyExists(err) {
			return revision.Stored{}, fmt.Errorf("store revision %d: %w", number, err)
		}
		stored, err := r.findStored(ctx, app, next)
		if err != nil {
			return revision.Stored{}, err
		} else if stored != nil && stored.Is(app, snapshots) {
			return *stored, nil
		}
	}
	return revision.Stored{}, errors.New("store a revision: other objects have the names " + revision.Name(app.Name, first) + " and later")
}

// findStored returns the revision that the hub has with the name of another, or nil if it is no
// revision of the AppService. The response to its creation was lost, or its label was removed.
func (r *Reconciler) findStored(ctx context.Context, app *v1alpha1.AppService, want *appsv1.ControllerRevision) (*revision.Stored, error) {
	existing := &appsv1.ControllerRevision{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(want), existing); err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", want.Name, err)
	}
	stored, err := revision.Read(app, existing)
	if err != nil {
		return nil, nil //nolint:nilerr // another object has the name
	}
	return &stored, nil
}
