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
//	// 3. Write next as the status of app, drop the observations of decision.StaleObservations, and
//	//    report decision.Transitions. Plan again after decision.RecheckAfter, if it is not 0.
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
// # Revisions and stages
//
// Package stages decides which revision each cluster is to run, and package removal which
// scale-downs and removals start. What both change in an entry is in package entryplan. The policies
// about revisions never change a replica count, and the other policies never change a revision.
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
