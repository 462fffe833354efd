// Package rollout decides on the next state of each cluster's entry in the status of an AppService. It is pure.
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
// An entry of status.clusters has three parts. The desired part (generation, replicas, the bounds of an autoscaler) follows from the
// plan and from the entry itself. The transition says what is under way and why. The observed part is what delivery saw on the member
// last; if nothing was seen since the operator started, it stays as it is. So a restart changes nothing, and an entry whose cluster cannot
// be observed becomes Unknown and keeps what was known. No decision depends on a reason or a message.
//
// # Surging clusters
//
// An entry is surging while the AppService is new on its cluster, or has a share there that was raised, until all of that is ready. What is
// desired of a surging cluster is in its entry at once. Scale-downs and removals on other clusters wait:
//
//   - Where the clusters divide the replicas, scale-downs follow as surging replicas become ready, replica by replica; with autoscalers,
//     when all of them are. See scaleDown.
//   - A removal waits for all blockers: surging clusters, and candidates that are excluded only because they are not Ready. See blockers.
//
// So the number of ready replicas never drops further than the AppService asks for, as long as members keep what they have. A cluster that
// is not surging keeps nobody waiting, however broken it is. The annotation fleetwright.dev/accept-unready ends the waiting.
//
// # Removals
//
// The entry of a cluster that leaves the plan has a transition with a cause, which is decided once and remembered. A removal begins when
// all removal policies allow it:
//
//   - Removals that may be accidents need approval when they are too many within an hour, and so do those of clusters that were recovered
//     or have rejoined. The annotation fleetwright.dev/accept-removals approves them.
//   - Without an edit of spec.placement, a removal waits while no other cluster of the plan is known to be ready; where the clusters divide the
//     replicas, until all are.
//   - While the plan chooses no cluster, the last one that is known to be ready needs approval.
//   - At most a fifth of the clusters are removed from at a time.
//
// # Tombstones
//
// A cluster that is abandoned, or whose Secret is missing when its removal was decided, gets a tombstone on its MemberCluster before its
// entry goes. The Tombstones methods of Input name the clusters.
//
// # A hub that is behind
//
// An entry keeps hubBehind until all such entries are accepted. While any entry has it, delivery changes nothing on any cluster. Planning
// goes on: the entries say what is done once it is accepted, and those that need a change say why there is none yet.
package rollout
