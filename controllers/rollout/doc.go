// Package rollout computes the next state of each entry of status.clusters of an AppService. It is
// pure.
//
// # Usage
//
//	in := rollout.Input{App: app, Members: members, Secretless: secretless, Observations: seen, Now: now}.Recover()
//	in.Plan, in.PlanError = placement.Decide(in.App, memberClusters)
//	// 1. Add the tombstones of in.TombstonesToAdd() and in.TombstonesOfLostStatus().
//	decision := rollout.Plan(in)
//	next := status.Compute(in, decision)
//	// 2. Remove the tombstones of in.TombstonesToRemove(next.Clusters).
//	// 3. Write next as the status of app. Plan again after decision.RecheckAfter, if it is not 0.
//
// What must hold:
//
//   - App, Members and Now are required. Now has whole seconds, as times in a status have. All
//     MemberClusters are either in Members or, if they have no Secret, in Secretless. Maps may be
//     nil if they are empty.
//   - [Input.Recover] replaces App by a copy with more entries if the status was lost. So the patch
//     of the status must be made from the app that was read, not from in.App: otherwise the patch
//     would lack these entries. [Plan] calls Recover again, which changes nothing the second time.
//   - Steps 1 to 3 are in this order, so that a crash loses no record. After a tombstone is
//     written, put the new MemberCluster into the input: an entry that needs a tombstone stays
//     until then.
//   - If the namespace or the CRD of an AppService terminates, do not plan it. Add the tombstones
//     of [Input.TombstonesOfTermination] and release the AppService.
//
// # Entries
//
// An entry of status.clusters has three parts. The desired part is the generation, the replicas and
// the bounds of an autoscaler. [Plan] sets it from the placement decision, and keeps its previous
// value while a scale-down or a removal waits. The transition says which removal or scale-down is
// in progress, and why. The observed part is the last observation that delivery made on the member.
// If delivery has observed nothing since the operator started, the observed part does not change.
// So a restart changes nothing. An entry whose cluster cannot be observed becomes Unknown and keeps
// the last known values. No decision depends on a reason or a message.
//
// # Surging clusters
//
// An entry is surging while the AppService is new on its cluster, or while its share was raised
// there, until all of its replicas are ready. The desired state of a surging cluster is written to
// its entry at once. Scale-downs and removals on other clusters wait:
//
//   - Where the clusters divide the replicas, scale-downs proceed replica by replica as surging
//     replicas become ready. With autoscalers, they proceed when all surging replicas are ready.
//     A scale-down without an edit waits for all replicas of the plan in the same way, because
//     replicas that cannot be observed may not serve.
//   - A removal waits for all blockers. These are the surging clusters and, while the plan has
//     fewer clusters than spec.placement.limit or none, the clusters that are excluded only because
//     they are not Ready. A surging cluster that has failed for ten minutes blocks no longer if
//     each cluster runs all replicas, there is no limit, and another cluster is Ready.
//
// So a scale-down or a removal keeps as many ready replicas as before, or as many as the AppService
// asks for if that is less. It cannot prevent that replicas fail on a member by themselves. A
// cluster that is not surging blocks no edit, even if it is broken. The annotation
// fleetwright.dev/accept-unready ends the wait.
//
// # Removals
//
// The entry of a cluster that leaves the plan has a transition with a cause. The cause is decided
// once and stored. A removal starts when all removal policies allow it:
//
//   - A removal may be an accident if spec.placement was not edited and no other cluster took the
//     place of this one. If more clusters than the removal limit leave the plan in this way within
//     an hour, their removals need approval. Removals from clusters that were recovered or have
//     rejoined always need approval. The annotation fleetwright.dev/accept-removals approves them.
//   - Without an edit of spec.placement, a removal waits until another cluster of the plan is known
//     to be ready. Where the clusters divide the replicas, it waits until all clusters of the plan
//     are ready.
//   - While the plan chooses no cluster, or only clusters with 0 replicas, removal from the last
//     cluster that is known to be ready needs approval.
//   - The removal limit: at most a fifth of the clusters are in removal at the same time, and at
//     least one may be. The fifth counts the clusters that have applied the AppService, and those
//     that left it without an edit within an hour, so that the limit does not fall while removals
//     finish. Removals from clusters that cannot be reached are counted separately: they must not
//     block the others.
//
// Three removals start regardless of the limit: those of an AppService that is deleted, those that
// a user has approved, and those from an abandoned cluster that cannot be reached. Approved
// removals in progress count against the limit for other removals.
//
// # Tombstones
//
// A tombstone is an item of status.abandoned of a MemberCluster. From it, delivery removes the
// AppService when the cluster returns. A cluster gets a tombstone before its entry is dropped
//
//   - if a user has abandoned the cluster during its removal;
//   - if the removal was decided and the Secret of the cluster is missing.
//
// # A hub that is behind
//
// A hub is behind if a member has an object for a spec that the hub never planned, as after a
// restore. The entry of such a member has hubBehind until all entries with hubBehind are accepted.
// While any entry has it, delivery changes nothing on any cluster. Planning continues, so the
// entries already have the desired state that is applied after the acceptance. An entry that needs
// a change explains why the change has not been made.
package rollout
