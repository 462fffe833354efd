// Package entryplan plans the next entry of a cluster as far as it depends on no other cluster. It
// is pure.
//
//	in := entryplan.Input{App: app, Plan: plan, HasPlan: true, Members: members, Now: now}
//	plans := in.PlanAll(names)
//	// Decide about several clusters together: Reassign, Refresh, BeginRemoval.
//	entries := entryplan.Entries(plans, now)
//
// An entry has a desired part, which follows the placement decision, and an observed part, which
// follows the last observation. A change of the desired part computes the observed part again,
// because an observation may not answer it any more. A scale-down or a removal is only prepared here:
// package removal decides when it starts. Package stages decides which revision a cluster gets.
package entryplan
