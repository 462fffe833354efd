// Package object makes one object on one member hold its desired fields, by server-side apply.
//
//	member := &object.Member{HubID: id, Differ: differ, Client: client, Live: apiReader}
//	existing := object.Inspect(id, app, cached)
//	result, err := member.Ensure(ctx, object.Facts{App: app, Entry: entry, Existing: &existing, …}, desired)
//	if result.Action == object.Blocked { report(result.Blocker) }
//
// The package keeps no state and emits no events. [Facts] has what one reconcile must know from the
// last; [Result] has what the caller remembers, counts and announces.
//
// # Invariants
//
//   - Nothing is sent if the object holds every desired field. Other fields belong to other
//     managers.
//   - A create fails if there is an object of that name, and an update names the UID that was read.
//     So an object that the cache does not show is never overwritten, even in a race.
//   - An unmanaged object is adopted only as the conflict policy allows, and an object of another
//     hub never. Adoption verifies with the hub first, and restarts no pods unless the policy is
//     Adopt.
//   - A field that the member discards is not sent again before PruneRetry.
//   - Drift is corrected only on the word of the member itself: the cache may be behind the last
//     apply.
//   - spec.replicas always has an owner, so that it never falls back to its default.
package object
