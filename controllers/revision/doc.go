// Package revision defines the revisions of an AppService. It is pure.
//
// The template of an AppService is the part of its spec that defines its pods or its Service. The
// other fields define how many pods run, where, and by which policy. A changed template becomes a
// revision, with a number, and so do other snapshots of its configuration. Revisions are stored as
// ControllerRevisions, as those of a DaemonSet.
//
// # Usage
//
//	history := revision.HistoryOf(app, controllerRevisions)
//	next := history.NextFor(app, snapshots, onMembers, isRetry)
//	if !next.IsStored {
//		stored, err := revision.New(app, next.Number, snapshots, policy) // create it, before the status that names it
//	}
//	history.Superfluous(app, next.Number) // delete these
//
// # Invariants
//
//   - A number is never used for two templates, or for other snapshots. The next number is higher than
//     all numbers in the history, in the status, in its entries and on members, but for outliers (see
//     package numbering).
//   - Templates are compared as values, after they are decoded. So a field that a new version of
//     Fleetwright adds does not cause a revision.
//   - A ControllerRevision that the AppService does not own, or whose content cannot be decoded, is
//     no revision. Its number is not used again.
//   - Revisions are immutable.
//
// docs/decisions/revisions-are-controllerrevisions.md says why they are ControllerRevisions, and
// docs/decisions/configuration-belongs-to-a-revision.md why they name content.
package revision
