package delivery

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// intent is what to do for one AppService on one member.
type intent string

const (
	// leave: there is no plan for this member; everything there stays.
	leave intent = "leave"
	// observeOnly: change nothing, because the planner has not planned this generation yet, or the
	// status that says so is not seen yet, the revision is not known, all changes are suspended, or
	// the hub is behind.
	observeOnly intent = "observeOnly"
	// maintain: make the member's objects match the entry.
	maintain intent = "maintain"
	// remove: remove the member's objects.
	remove intent = "remove"
)

// decide returns what to do, given the AppService (nil if the hub has none) and its entry for this
// member (nil if it has none). A missing AppService or entry never triggers a deletion.
// docs/decisions/the-plan-is-written-before-it-is-acted-on.md says why.
func decide(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) intent {
	switch {
	case app == nil, entry == nil, entry.Phase == v1alpha1.ClusterDetached:
		return leave
	case app.Status.IsHubBehind(), entry.HubBehind != nil:
		return observeOnly
	case entry.Phase == v1alpha1.ClusterRemoving && app.IsSuspended():
		return observeOnly
	case entry.Phase == v1alpha1.ClusterRemoving:
		return remove
	case app.IsDeleting(), app.IsSuspended(), entry.Generation != app.Generation, !lineage.IsRecorded(app), entry.Revision == 0:
		return observeOnly
	}
	return maintain
}
