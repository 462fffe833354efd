// Package status computes the status of an AppService from the decision for its clusters:
// conditions, summary, messages, and the changes that become events. It is pure and decides nothing
// about clusters.
//
//	decision := rollout.Plan(in)
//	next := status.Compute(in, decision)
//	changes := status.Changes(in, next) // once next is written
//
// A condition keeps its time while its status is the same, and the entries are sorted. Therefore
// the status does not change while nothing changes: a status that is computed again from its own
// result is the same. The size of a status is bounded: if all entries together would exceed 1 MB,
// their messages and addresses are shortened.
//
// What a status says is decided by question. Each type has what its answers depend on:
//
//   - choice: is the spec placed, and on which clusters?
//   - readiness: is it ready, and what is wrong? The first of its blockers decides.
//   - targetRollout: is the spec rolled out? Within it, stageProgress says how far a stage is, failure
//     what failed, and goingBack what returns to the stable revision. The steps that become events say
//     the same.
//   - inPlaceUpdates: which clusters have a content that is updated in place?
//
// The conditions follow kstatus: Ready is always present, Reconciling is present while work is in
// progress, and Stalled is present when a user must act.
package status
