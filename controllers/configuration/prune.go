package configuration

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// pruneAfter is how old a snapshot is before it may be deleted. The status or the revision that names
// a younger one may not be in the cache yet.
const pruneAfter = 10 * time.Minute

// prune returns the snapshots that nothing names, and when others will be old enough, or 0.
func (o storedSnapshots) prune(revisions storedRevisions, next []v1alpha1.ConfigurationStatus, now time.Time) (superfluous []Snapshot, wait time.Duration) {
	if !revisions.isComplete() {
		return nil, 0
	}
	for _, snapshot := range o.objects {
		left := pruneAfter - now.Sub(snapshot.CreationTime.Time)
		switch {
		case !o.isOurs(snapshot) || isInStatus(snapshot, next) || revisions.names(snapshot):
		case left > 0:
			wait = earlier(wait, left)
		default:
			superfluous = append(superfluous, snapshot)
		}
	}
	return superfluous, wait
}

// isInStatus reports whether the next status names a snapshot. While the status of a source has no
// snapshot, all snapshots of the source count as named.
func isInStatus(snapshot Snapshot, next []v1alpha1.ConfigurationStatus) bool {
	return slices.ContainsFunc(next, func(status v1alpha1.ConfigurationStatus) bool {
		isOfSource := status.Kind == snapshot.Kind && status.From == snapshot.From
		return status.Kind == snapshot.Kind && status.Snapshot == snapshot.Name || isOfSource && status.Snapshot == ""
	})
}
