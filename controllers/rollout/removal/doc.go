// Package removal decides which scale-downs and removals of an AppService may start: everything that
// takes pods away from a cluster. It is pure.
//
//	in := removal.Input{App: app, Plan: plan, HasPlan: true, Members: members, Now: now}
//	outcome := removal.Decide(in, plans)
//	// outcome.Removals is the next status.removals.
//	// Decide again at in.Deadlines(entries, outcome.Removals).
//
// Package entryplan has prepared them: an entry plan with a LowerTarget is to be scaled down, and one
// that IsLeaving is to be removed. Both wait for the same: replicas that become ready elsewhere
// (shortfall.go, blockers.go), and a user's approval if they may be an accident (brake.go,
// approval.go). Removals also wait for each other (budget.go).
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
// cluster that is not surging blocks no edit while another cluster is Ready, even if it is broken.
// The annotation fleetwright.dev/accept-unready ends the wait.
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
//   - A removal from a cluster with ready pods waits until a cluster of the plan is Ready with the
//     revision that it is to run. Without an edit of spec.placement, and where the clusters divide
//     the replicas, it waits until all clusters of the plan are ready.
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
package removal
