// Package object makes one object on one member hold its desired fields, by server-side apply.
//
// # Terms
//
//   - The hub is the cluster with the AppServices. Its ID is an annotation on every object that it
//     owns on a member.
//   - The stamp of an object is a set of annotations: for which AppService, generation and spec it
//     was applied (see package lineage).
//   - Drift is a change of a desired field by another field manager. It is corrected.
//   - A pruned field is a desired field that the member's API server discards. It is no drift.
//
// # Usage
//
// Once for each member:
//
//	member := &object.Member{HubID: id, Differ: object.NewDiffer(), Client: client, Live: apiReader}
//
// A [Differ] is large, so all members share one. OnApply is optional.
//
// For each object, where cached is a copy of what the member's cache has:
//
//	object.SetKind(cached)            // a typed object has none after reading
//	object.SanitizeQuantities(cached) // a member may report values that are expensive to compare
//	existing := object.Inspect(id, app, entry, cached)
//	result, err := member.Ensure(ctx, object.Facts{
//		App: app, Entry: entry, Existing: &existing, Deployment: deployment,
//		HasRolledOut: hasRolledOut, Verify: verify, BeforeAdopt: beforeAdopt, OnRestart: onRestart,
//		AppliedHash: lastAppliedHash, Pruned: lastPruned, Complete: lastComplete,
//	}, desired)
//
// What to pass, and what to keep:
//
//   - App, Entry, HasRolledOut, Verify, BeforeAdopt and OnRestart are required: adoption calls the
//     four functions. Existing and Deployment are nil if the cache has no such object.
//   - desired is rendered by package workload, which also sets its hash.
//   - The package keeps no state. The caller remembers AppliedHash and Pruned of the last [Result]
//     in which they were set, and Complete of the last Result, also if it is nil. The caller passes
//     them to the next call. All may be missing.
//   - The package emits no events. The caller announces what the Result says.
//
// What to do with the outcome:
//
//   - [Blocked]: report result.Blocker, and call again after its RetryAfter.
//   - [Stale]: do nothing. The cache is behind the member, and the watch brings the next call.
//   - A conflict error (apierrors.IsConflict): the member has another object than the cache shows,
//     for example one without our label. Read it from the member itself and call again. If it is
//     the same object, the cache is behind: wait for the watch.
//   - Another error: retry with a back-off.
//
// # Invariants
//
//   - Nothing is sent if the object holds every desired field. Other fields belong to other
//     managers.
//   - A create fails if there is an object of that name, and an update names the UID that was read.
//     So an object that the cache does not show is never overwritten, even in a race.
//   - An unmanaged object is adopted only as the conflict policy allows, and an object of another
//     hub never. Before an adoption, Verify must confirm that the AppService and its entry are
//     still the same on the hub. An adoption restarts no pods unless the policy is Adopt.
//   - A field that the member discards is not sent again before PruneRetry.
//   - Drift is corrected only after a live read of the member confirms it, because the cache may be
//     behind the last apply.
//   - spec.replicas always has an owner, so that it never falls back to its default.
//
// [Member.Delete], [Member.DeleteVersion] and [Member.Release] check nothing. The caller must have
// read the hub live, and have found there that the object is to be deleted or released.
package object
