// Package status computes the status of an AppService from what was decided for its clusters: conditions, summary, messages, and the
// changes that become events. It is pure, and decides nothing about clusters.
//
//	decision := rollout.Plan(in)
//	next := status.Compute(in, decision)
//	changes := status.Changes(in, next) // once next is written
//
// Conditions that say the same keep their times, and entries are sorted, so that a status that says nothing new equals the one before.
// Computed from its own answer, it is the same. The size of a status is bounded: messages and addresses have a budget over all entries.
//
// The conditions are those of kstatus: Ready always, Reconciling while something is under way, and Stalled when only a person can help.
package status
