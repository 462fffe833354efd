// Package object makes one object on one member hold its desired fields, by server-side apply.
//
// [Decide] is pure: from the facts about an object it decides the next [Step]. [Member.Do] does the
// step, and is the only one that sends requests. A step may also be to read something from the
// member itself, because no other step can be decided without it.
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
//	member := &object.Member{
//		HubID: id, Client: client, Live: apiReader, NamespaceLabels: labels, OnApply: measure,
//	}
//
// For each object, where cached is a copy of what the member's cache has:
//
//	object.SetKind(cached)            // a typed object has none after reading
//	object.SanitizeQuantities(cached) // a member may report values that are expensive to compare
//	existing := object.Inspect(id, app, entry, cached)
//	facts := object.Facts{HubID: id, App: app, Entry: entry, Existing: &existing, Memory: last, Now: now}
//	for range object.MaxSteps {
//		step, err := object.Decide(facts, desired)
//		...  // if step.Action is Adopt: read the hub live, and announce step.Restart
//		result, err := member.Do(ctx, step)
//		if result.Live == nil {
//			return result // and keep result.Memory
//		}
//		facts.Live = *result.Live
//	}
//
// What to pass, and what to keep:
//
//   - desired is rendered by package workload, which also sets its hash.
//   - The package keeps no state. The caller keeps the Memory of each Result, and passes it to the
//     next call. It may be lost.
//   - The package emits no events. The caller announces what the Result says.
//
// What to do with the outcome:
//
//   - [Blocked]: report result.Blocker, and call again after its RetryAfter.
//   - [Stale]: do nothing. The cache is behind the member, and the watch brings the next call.
//   - A conflict error (apierrors.IsConflict): the member has another object than the cache shows,
//     for example one without the label of Fleetwright. Read it from the member itself and call
//     again. If it is the same object, the cache is behind: wait for the watch.
//   - Another error: retry with a back-off.
//
// # How it is decided
//
//	no object                      Create, which fails if there is one
//	ahead of the hub               Blocked
//	lacks nothing                  Unchanged, or Record if the record of copies differs
//	being deleted                  Blocked
//	not owned, or drifted          NeedLive object; if it lacks nothing there: Stale
//	  of another hub               Blocked
//	  unmanaged                    Blocked, unless the conflict policy allows to adopt it;
//	                               NeedLive dryRun of a Deployment; Adopt, or Blocked
//	  of an earlier AppService     Adopt
//	  changed by another manager   Correct, or Blocked if that was done too often
//	  discarded by the member      NeedLive dryRun; Update if it would keep a field, else Unchanged
//	lacks something                Update
//
// Before an object with replicas is compared, NeedLive autoscalers finds out whether the replicas
// are desired. An Update of the cached version that leaves them as they are does without, unless
// the member has another version: that is OnConflict of the step.
//
// # Where to read
//
// An edit takes this way: Decide and change (decide.go), compare (compare.go), the step (step.go),
// and Do (do.go). The rest is beside it: objects that lack a field although it was applied
// (correct.go), objects of other owners (adopt.go, takeover.go), what is read for a decision
// (read.go), and the applies that need more than one request (create.go, handover.go, invalid.go).
//
// # Invariants
//
//   - Nothing is sent if the object holds every desired field. Other fields belong to other
//     managers.
//   - A create fails if there is an object of that name, and an update names the UID that was read.
//     So an object that the cache does not show is never overwritten, even in a race.
//   - An unmanaged object is adopted only as the conflict policy allows, and an object of another
//     hub never. An adoption restarts no pods unless the policy is Adopt.
//   - A field that the member discards is not sent again before PruneRetry.
//   - Drift is corrected only after a live read of the member confirms it, because the cache may be
//     behind the last apply.
//   - spec.replicas always has an owner, so that it never falls back to its default.
//
// Adoptions, [Member.Delete], [Member.DeleteVersion] and [Member.Release] check nothing on the hub.
// The caller must have read it live, and have found there that the object is to be adopted, deleted
// or released.
package object
