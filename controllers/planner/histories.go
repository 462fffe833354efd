package planner

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/lru"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// maxHistories is the number of AppServices whose history is remembered, those that were edited last.
const maxHistories = 256

// histories remembers the revisions of AppServices without configuration, as this process has read or
// stored them, so that an edit of the template lists none. Somebody else may have deleted one since: see
// [revise.Facts.IsRemembered]. It is safe for concurrent use.
type histories struct{ byUID *lru.Cache }

func newHistories() *histories { return &histories{lru.New(maxHistories)} }

// of returns the history of an AppService, or nil if it is not known. What the status names must be in it,
// and nothing later: otherwise revisions were stored without it, or the hub was restored.
func (h *histories) of(app *v1alpha1.AppService) *revision.History {
	known, found := h.byUID.Get(app.UID)
	if !found {
		return nil
	}
	history, state, named := known.(*revision.History), app.Status.Rollout, revision.Named(app)
	latest := slices.Max(append(slices.Clone(named), state.LatestRevision, state.FailedRevision))
	isLater := func(stored revision.Stored) bool { return stored.Number > latest }
	isMissing := func(number int64) bool { return history.Find(number) == nil }
	if slices.ContainsFunc(named, isMissing) || slices.ContainsFunc(history.All(), isLater) {
		return nil
	}
	return history
}

// remember records the history of an AppService, without the encoded templates.
func (h *histories) remember(app *v1alpha1.AppService, history revision.History) {
	known := revision.History{}
	for _, stored := range history.All() {
		stored.Object = &appsv1.ControllerRevision{ObjectMeta: stored.Object.ObjectMeta, Revision: stored.Object.Revision}
		stored.Object.ManagedFields = nil
		known = known.With(stored)
	}
	h.byUID.Add(app.UID, &known)
}

// forget drops what is known of an AppService.
func (h *histories) forget(app *v1alpha1.AppService) { h.byUID.Remove(app.UID) }

// recallHistory adds the history to the facts as this process remembers it, or reads it. A new AppService
// has no revisions: this process has added the finalizer, and revisions are stored after it.
func (r *reviser) recallHistory(ctx context.Context, facts *revise.Facts, isNew bool) error {
	if facts.IsRemembered || facts.Content != nil {
		return r.readHistory(ctx, facts)
	}
	facts.History = r.histories.of(facts.App)
	if facts.History == nil && isNew && len(revision.Named(facts.App)) == 0 {
		facts.History = &revision.History{}
	}
	if facts.IsRemembered = facts.History != nil; facts.IsRemembered {
		return nil
	}
	return r.readHistory(ctx, facts)
}
