// Package rollout computes the next state of each entry of status.clusters of an AppService. It is
// pure.
//
// # Usage
//
//	in := rollout.Input{App: app, Members: members, Observations: seen, Now: now}.Recover()
//	in.Plan, in.PlanError = placement.Decide(in.App, memberClusters)
//	// Write the tombstones that in.TombstonesToAdd names, then:
//	decision := rollout.Plan(in)
//	next := status.Compute(in, decision)
//	// Write the status, and plan again after decision.RecheckAfter.
//
// # Entries
//
// An entry of status.clusters has three parts. The desired part (generation, replicas, the bounds
// of an autoscaler) follows from the plan and from the entry itself. The transition says which
// change is in progress, and why. The observed part is the last observation that delivery made on
// the member. If delivery has observed nothing since the operator started, the observed part does
// not change. So a restart changes nothing. An entry whose cluster cannot be observed becomes
// Unknown and keeps the last known values. No decision depends on a reason or a message.
//
// # Surging clusters
//
// An entry is surging while the AppService is new on its cluster, or while its share was raised
// there, until all of its replicas are ready. The desired state of a surging cluster is written to
// its entry at once. Scale-downs and removals on other clusters wait:
//
//   - Where the clusters divide the replicas, scale-downs proceed replica by replica as surging
//     replicas become ready. With autoscalers, they proceed when all surging replicas are ready.
//     See scaleDown.
//   - A removal waits for all blockers: surging clusters, and candidates that are excluded only
//     because they are not Ready. See blockers.
//
// So the rollout never reduces the number of ready replicas further than the AppService asks for,
// as long as members keep their replicas. A cluster that is not surging blocks no other cluster,
// even if it is broken. The annotation fleetwright.dev/accept-unready ends the wait.
//
// # Removals
//
// The entry of a cluster that leaves the plan has a transition with a cause. The cause is decided
// once and stored. A removal starts when all removal policies allow it:
//
//   - Removals that may be accidents need approval if there are too many of them within an hour.
//     Removals from clusters that were recovered or have rejoined always need approval. The
//     annotation fleetwright.dev/accept-removals approves them.
//   - Without an edit of spec.placement, a removal waits until another cluster of the plan is known
//     to be ready. Where the clusters divide the replicas, it waits until all clusters of the plan
//     are ready.
//   - While the plan chooses no cluster, removal from the last cluster that is known to be ready
//     needs approval.
//   - At most a fifth of the clusters are in removal at the same time.
//
// # Tombstones
//
// A cluster gets a tombstone on its MemberCluster before its entry is dropped, if the cluster is
// abandoned, or if its removal was decided and its Secret is missing. The Tombstones methods of
// Input return the names of these clusters.
//
// # A hub that is behind
//
// An entry keeps hubBehind until all entries with hubBehind are accepted. While any entry has it,
// delivery changes nothing on any cluster. Planning continues: the entries describe the changes
// that follow the acceptance. An entry that needs a change explains why the change has not been
// made.
package rollout
