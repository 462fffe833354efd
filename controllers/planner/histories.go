package planner

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/lru"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// maxHistories is the number of AppServices whose history is remembered, those that were edited last.
const maxHistories = 256

// histories remembers the revisions of AppServices without configuration, as this process has read or
// stored them, so that an edit lists none. Somebody else may have deleted one since: see
// [revise.Facts.IsRemembered]. It is safe for concurrent use.
type histories struct{ byUID *lru.Cache }

func newHistories() *histories { return &histories{lru.New(maxHistories)} }

// of returns the history of an AppService, or nil if it is not known.
func (h *histories) of(app *v1alpha1.AppService) *revision.History {
	known, found := h.byUID.Get(app.UID)
	if !found {
		return nil
	}
	return known.(*revision.History)
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
