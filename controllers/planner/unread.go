package planner

import (
	"context"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// An AppService is planned although its ControllerRevisions cannot be listed or read, for example
// because somebody has taken the permission away. Its entries have the numbers of the revisions, and
// judging or rolling back a rollout needs no more: delivery reads the content of a revision by itself.
// What needs content waits: an edit of the template, the next cluster of a rollout, and the first
// delivery to a cluster, which pod security would have to allow.

// readHistory adds the history to the facts. If the revisions cannot be listed, it adds why, so that
// the rollout of the revision of the status goes on. Without that revision, nothing can be planned.
func (r *reviser) readHistory(ctx context.Context, facts *revise.Facts) error {
	app := facts.App
	facts.IsRemembered = false
	history, err := r.revisions.list(ctx, app)
	switch {
	case err == nil:
		facts.History = &history
		return nil
	case app.Status.Rollout.Revision == 0:
		return unrevisedError{err}
	case !r.isLasting(app, err):
		return err
	}
	r.throttle.recordRefusedRevision(app, time.Now(), err)
	facts.Refused = err
	return nil
}

// withoutContent lets the plan go on without the content of a revision that cannot be read. That is no
// evidence that it is missing, so a rollout may return to it.
func (r *reviser) withoutContent(app *v1alpha1.AppService, outcome *revise.Outcome, number int64, cause error) error {
	if !r.isLasting(app, cause) {
		return cause
	}
	outcome.AreRevisionsUnread = true
	outcome.IsRevisionMissing = outcome.IsRevisionMissing || number == outcome.Revision
	if outcome.Refused == nil {
		outcome.Refused = cause
	}
	return nil
}

// isLasting reports whether waiting for the revisions of an AppService any longer would leave its
// rollout unwatched: the hub refuses to return them, or has failed to for refusedRetry.
func (r *reviser) isLasting(app *v1alpha1.AppService, cause error) bool {
	return status.IsRefusal(cause) || r.throttle.failingSince(app.UID, time.Now()) >= refusedRetry
}
