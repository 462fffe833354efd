package lineage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/numbering"
)

// isAfterRemoval reports whether an object belongs to a later placement than the one that a removal
// ends: the restored hub has a removal that was completed or withdrawn after the backup. Labels of
// clusters decide about placements too, so the spec and the generation may be the same.
//
// An object without a number is of an older version, and an outlier counts as none. It belongs to a
// later placement if it was created after the removal had started. A removal that has not started
// yet is decided by what the hub knows now. The deletion of an AppService is evidence about all its
// objects, because no placement follows it.
func isAfterRemoval(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, s Stamp) bool {
	if entry == nil || entry.Phase != v1alpha1.ClusterRemoving || app.IsDeleting() {
		return false
	}
	placement := plausiblePlacement(app, entry, s)
	if placement == 0 {
		return s.ObjectCreated.After(entry.LastTransitionTime.Time)
	}
	return placement > entry.Placement
}

// plausiblePlacement returns the placement of a stamp, or 0 for an outlier, which is no placement of
// any hub.
func plausiblePlacement(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, s Stamp) int64 {
	if numbering.IsOutlier(s.Placement, max(app.Status.Placement.Count, entry.Placement)) {
		return 0
	}
	return s.Placement
}

// IsAfterTombstone reports whether an object belongs to a later placement than the one that a
// tombstone ends. An outlier is no placement of any hub.
func IsAfterTombstone(tombstone v1alpha1.AbandonedAppService, s Stamp) bool {
	return tombstone.Placement != nil && s.UID == tombstone.UID &&
		s.Placement > *tombstone.Placement && !numbering.IsOutlier(s.Placement, *tombstone.Placement)
}

// IsRemovalWithdrawn reports whether an object still has the number of an earlier placement, although
// its entry continues with a later one: a removal was withdrawn. Its stamp must be replaced, because
// the removal may come back with a restore. An object without a number gets one with its next
// change, so an upgrade changes nothing on a member.
func IsRemovalWithdrawn(entry *v1alpha1.ClusterStatus, s Stamp) bool {
	return entry.Phase != v1alpha1.ClusterRemoving && s.Placement > 0 && s.Placement < entry.Placement
}

// placementToken returns the value with which a user accepts that an object belongs to a later
// placement than the removal.
func (s Stamp) placementToken() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q placement %d created %d", s.UID, s.Placement, s.ObjectCreated.Unix()))
	return fmt.Sprintf("p%d-%s", s.Placement, hex.EncodeToString(sum[:4]))
}
