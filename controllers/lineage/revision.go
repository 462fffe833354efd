package lineage

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/numbering"
)

// IsTakenBack reports whether the stamp of a Deployment shows that a restore of the hub has taken back
// the revision of the entry of its cluster: the Deployment was applied for another one later. The hub
// accounts for the stamp otherwise. There are two signs:
//
//   - The cluster runs the target of a rollout, and its entry does not have it. While the rollout of a
//     target progresses, and after that, no entry loses the target.
//   - The cluster had answered with the revision of its entry, and another one was applied since then, at
//     the generation of the entry or a later one. So the member itself was not restored to before an edit.
//
// An entry that has just got a revision has not been answered, so it shows nothing. Without stages, all
// clusters get the revision of the spec anyway.
func IsTakenBack(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, s Stamp) bool {
	state := app.Status.Rollout
	isOther := s.UID == app.UID && s.Revision != 0 && entry.Revision != 0 && s.Revision != entry.Revision
	if !isOther || state.Phase == "" || numbering.IsOutlier(s.Revision, LatestRevision(app)) {
		return false
	}
	if s.Revision == state.Revision && (state.Phase == v1alpha1.RolloutProgressing || state.Phase == v1alpha1.RolloutCompleted) {
		return true
	}
	return entry.ObservedGeneration >= entry.Generation && s.Generation >= entry.Generation
}
