package delivery

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// intent is what is to be done for one AppService on one member.
type intent string

const (
	// leave: there is no plan for this member; whatever is there stays.
	leave intent = "leave"
	// await: the planner has not planned this generation yet, all changes are suspended, or the hub is behind; only look.
	await intent = "await"
	// maintain: bring the member's objects in line with the row.
	maintain intent = "maintain"
	// remove: take the member's objects away.
	remove intent = "remove"
)

// decide returns what to do, given the AppService (nil when the hub has none) and its row for this member (nil
// when it has none). That there is no AppService, or no row, is never a reason to delete.
func decide(app *v1alpha1.AppService, row *v1alpha1.ClusterStatus) intent {
	switch {
	case app == nil, row == nil, row.Phase == v1alpha1.ClusterDetached:
		return leave
	case app.Status.IsHubBehind():
		return await
	case row.Phase == v1alpha1.ClusterRemoving && app.Spec.Suspend && app.DeletionTimestamp.IsZero():
		return await
	case row.Phase == v1alpha1.ClusterRemoving:
		return remove
	case !app.DeletionTimestamp.IsZero(), app.Spec.Suspend, row.Generation != app.Generation:
		return await
	}
	return maintain
}
