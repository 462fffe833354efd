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
// The conditions follow kstatus: Ready is always present, Reconciling is present while work is in
// progress, and Stalled is present when a user must act.
package status
