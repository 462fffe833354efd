// Package entries reads the entries of an AppService, from its status or from its AppServiceSlices.
// status.clustersIn says where they are; all of them are in one place. The planner is the only
// writer of both.
//
// docs/decisions/plans-and-results-are-entries-of-the-status.md says why there are entries, and
// docs/decisions/large-statuses-are-in-slices.md why there are slices.
//
// # Contract
//
//   - A missing slice is no evidence that its clusters have no entry: either another client deleted
//     it, or the cache is behind. The planner writes it again. Until then, its entries are not
//     known.
//   - A slice of another AppService with the same name does not count.
//   - What is read from a cache must not be modified.
//
// # Usage
//
//	entry, known, err := entries.Of(ctx, hub, app, "east") // one entry
//	all, slices, err := entries.Read(ctx, hub, app)         // all entries
package entries
