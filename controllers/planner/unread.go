package planner

import (
	"context"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// An AppService is planned although its ControllerRevisions cannot be listed or read, for example
// because somebody has taken the permission away. Its entries have the numbers of the revisions, and
// judging or rolling back a rollout needs no more: delivery reads the content of a revision by itself.
// What needs content waits: an edit of the template, the next cluster of a rollout, and the first
// delivery to a cluster, which pod security would have to allow.

// unlistedError is returned if the revisions cannot be listed.
type unlistedError struct{ cause error }

func (e unlistedError) Error() string { return e.cause.Error() }

// planUnlisted lets the rollout of the revision of the status go on, because the revisions cannot be
// listed. Without that revision, nothing can be planned.
func (r *Reconciler) planUnlisted(ctx context.Context, app *v1alpha1.AppService, in *rollout.Input, cause error) error {
	if in.Revision == 0 {
		return r.reportRevisionsRefused(ctx, app, cause)
	}
	if !r.isLasting(app, cause) {
		return cause
	}
	if r.throttle.refusedRevision(app, time.Now()) == nil {
		r.throttle.recordRefusedRevision(app, time.Now(), cause)
	}
	return r.planWithout(ctx, in, cause)
}

// planUnread lets the plan go on without the content of a revision that cannot be read. That is no
// evidence that it is missing, so a rollout may return to it.
func (r *Reconciler) planUnread(in *rollout.Input, number int64, cause error) error {
	if !r.isLasting(in.App, cause) {
		return cause
	}
	in.AreRevisionsUnread = true
	in.IsRevisionMissing = in.IsRevisionMissing || number == in.Revision
	if in.RevisionRefused == nil {
		in.RevisionRefused = cause
	}
	return nil
}

// isLasting reports whether waiting for the revisions of an AppService any longer would leave its
// rollout unwatched: the hub refuses to return them, or has failed to for refusedRetry.
func (r *Reconciler) isLasting(app *v1alpha1.AppService, cause error) bool {
	return status.IsRefusal(cause) || r.throttle.failingSince(app.UID, time.Now()) >= refusedRetry
}
