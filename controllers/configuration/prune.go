package configuration

import (
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// pruneAfter is how old a snapshot is before it may be deleted. The status or the revision that names
// a younger one may not be in the cache yet.
const pruneAfter = 10 * time.Minute

// lost returns the snapshots that revisions in use name, and that neither exist nor are created.
func (in Input) lost(created []Creation) []Named {
	var lost []Named
	for _, revision := range in.Revisions {
		if !slices.Contains(in.InUse, revision.Number) {
			continue
		}
		for _, named := range revision.Configuration {
			isCreated := slices.ContainsFunc(created, func(c Creation) bool { return c.Name == named.Snapshot && c.Kind == named.Kind })
			exists := IsAbsent(named.Snapshot) || in.snapshot(named.Snapshot, named.ref()) != nil
			if !exists && !isCreated && !slices.Contains(lost, named) {
				lost = append(lost, named)
			}
		}
	}
	return lost
}

// areUnlisted reports whether a revision in use names a snapshot of a kind that could not be listed.
func (in Input) areUnlisted() bool {
	return slices.ContainsFunc(in.Revisions, func(r Revision) bool {
		isUnlisted := func(n Named) bool { return !IsAbsent(n.Snapshot) && slices.Contains(in.Unlisted, n.Kind) }
		return slices.Contains(in.InUse, r.Number) && slices.ContainsFunc(r.Configuration, isUnlisted)
	})
}

// prune returns the snapshots that nothing names, and when others will be old enough, or 0.
func (in Input) prune(next []v1alpha1.ConfigurationStatus) (superfluous []Snapshot, wait time.Duration) {
	if !in.isHistoryComplete() {
		return nil, 0
	}
	for _, snapshot := range in.Snapshots {
		left := pruneAfter - in.Now.Sub(snapshot.CreationTime.Time)
		switch {
		case !in.isOurs(snapshot) || in.isNamed(snapshot, next):
		case left > 0:
			wait = earlier(wait, left)
		default:
			superfluous = append(superfluous, snapshot)
		}
	}
	return superfluous, wait
}

// isOurs reports whether an object is a snapshot of the AppService: it owns the object, and the name
// of the object is that of its digest.
func (in Input) isOurs(snapshot Snapshot) bool {
	return snapshot.Owner == in.UID && snapshot.Digest != Digest{} && snapshot.Name == Name(in.identity(snapshot.Ref), snapshot.Digest)
}

// isHistoryComplete reports whether it is known what all revisions in use name. A missing object
// never triggers a deletion. After the status was lost, the revision is 0, which is never stored.
func (in Input) isHistoryComplete() bool {
	for _, number := range append([]int64{in.Revision}, in.InUse...) {
		if !slices.ContainsFunc(in.Revisions, func(r Revision) bool { return r.Number == number }) {
			return false
		}
	}
	return true
}

// isNamed reports whether the next status or a stored revision names a snapshot. While the status of
// a source has no snapshot, all snapshots of the source count as named.
func (in Input) isNamed(snapshot Snapshot, next []v1alpha1.ConfigurationStatus) bool {
	for _, status := range next {
		isOfSource := status.Kind == snapshot.Kind && status.From == snapshot.From
		if status.Kind == snapshot.Kind && status.Snapshot == snapshot.Name || isOfSource && status.Snapshot == "" {
			return true
		}
	}
	for _, revision := range in.Revisions {
		for _, named := range revision.Configuration {
			if named.Kind == snapshot.Kind && named.Snapshot == snapshot.Name {
				return true
			}
		}
	}
	return false
}
