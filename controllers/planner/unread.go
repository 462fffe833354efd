package planner

import (
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

// unlistedError is returned if the revisions cannot be listed.
type unlistedError struct{ cause error }

func (e unlistedError) Error() string { return e.cause.Error() }

// withoutHistory lets the rollout of the revision of the status go on, because the revisions cannot be
// listed. Without that revision, nothing can be planned.
func (r *reviser) withoutHistory(facts revise.Facts, cause error) (revise.Outcome, error) {
	app := facts.App
	if app.Status.Rollout.Revision == 0 {
		return revise.Outcome{}, unrevisedError{cause}
	}
	if !r.isLasting(app, cause) {
		return revise.Outcome{}, cause
	}
	if facts.Refused == nil {
		r.throttle.recordRefusedRevision(app, time.Now(), cause)
	}
	return facts.Without(cause), nil
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
