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
// # Rollouts
//
// A changed template of an AppService is a new revision (see package revision). A rollout moves the
// clusters from the stable revision to the target, which is the revision of the spec, stage by stage.
// Each stage proves the target for the next one. If the target fails, all clusters return to the
// stable revision. The state is in status.rollout and in the entries.
//
//	          edit of the template                 all stages Completed or Skipped
//	Completed ────────────────────▶ Progressing ──────────────────────────────────▶ Completed
//	                                  │     ▲
//	   too many failures, or abort    │     │ edit of the template, or retry
//	                                  ├─ there is a stable revision ──▶ RollingBack ──▶ RolledBack
//	                                  └─ there is none, or onFailure is Pause ──▶ Halted
//
//	Stage: Pending → (Skipped | AwaitingApproval →) Progressing → Soaking → Completed
//
// In any phase, if the spec returns to the stable template, the rollout is Progressing with the
// stable revision as its target: the clusters go back as in a rollback, and it is Completed. In
// Halted, abort starts the rollback. A user who aborts always gets the rollback, if it is possible.
//
//   - A cluster is available when it has been Ready with its revision and with pods for
//     minReadySeconds without a break, while this process observed it. Then it is unavailable only while
//     it has lost ready pods (see hasLostPods), and availableReplicas records that it was available.
//     It is updating when it has the target and is not available. The target failed on a
//     cluster that has been Failed for three minutes, or that is not Ready at the progress deadline,
//     if the member has answered since.
//     A cluster that cannot be observed at the deadline is lost. It keeps its place among those that
//     are updating, until the stage is over or promoted. Several lost clusters are a failure only if
//     clusters without the target are well (see cutOff).
//   - A decision to continue, and a failure, need an observation by this process. A cluster that has
//     not answered the latest edit is neither available nor broken, for three minutes.
//   - A cluster belongs to the first stage that matches it, and clusters that no stage matches form
//     the last stage. A stage with a limit prefers clusters that can be reached and have replicas. A
//     cluster that got the target there keeps its place.
//   - A stage begins when it is approved, if it needs approval. It assigns the target to clusters
//     that are Ready, while fewer are unavailable than maxUnavailable, and at most one more than are
//     available with the target. Clusters that an edit or an abort has caught in an update count, and
//     come first. Those that are down for another reason count, but leave one place. When nothing
//     else is left to do, it tries clusters that were broken before. They are impaired: no evidence
//     against the target.
//   - A stage is settled when no cluster is updating, none is left to update, one is available, and
//     half of them have a result. Then it soaks, and is Completed. It never opens again, unless an edit
//     of the stages gives it clusters without the target. Clusters that are late get the target in a
//     Completed stage too.
//   - A stage without clusters is Skipped, which is not Completed: if clusters join it, it runs as any
//     stage, approval included, also after the rollout is completed. If the target fails there then,
//     no other cluster gets it, and nothing is rolled back. If such a stage needs approval, new clusters
//     in it never start with the revision that was completed without it: they wait.
//     A stage that has begun is never Skipped: it waits.
//   - The target failed if it failed on more clusters of a stage than maxFailures; or if it failed on
//     one, none is available or was before it became unreachable, and none is left to try.
//   - A cluster with another revision than the stable one and the target is superseded. It gets the
//     target in any phase when its stage has begun. Before that, it goes back to the stable revision
//     if it is broken, or runs the failed revision and not the template of the target.
//   - Where clusters go back, broken ones return at once, and the others as maxUnavailable allows, in
//     all stages at the same time. This never waits for a broken cluster.
//   - A new cluster gets the target if its stage or the rollout is Completed, and otherwise the
//     stable revision. It waits for its turn in the first rollout, and in a stage that needs approval
//     and was Skipped when the stable revision was rolled out. This is decided last.
//   - The target becomes stable when a stage is Completed and the target is available anywhere.
//   - After the status was lost, revisions are frozen until the clusters have reported what they run (see
//     recovering.go). Then the revision that most of them run is stable.
//   - Where a restore of the hub has taken back the revision of an entry, the entry takes over what its
//     cluster runs, if that is the target or the stable revision. If the entry loses the target that way,
//     the hub has lost a failure or an abort, and the rollout is Halted.
//   - While the rollout is paused, the AppService is suspended, there is no plan, a selector is
//     invalid, or the hub is behind, no cluster gets another revision. Then the clocks of the
//     clusters that are updating start again.
//   - An undo, to the previous stable template, needs no approval and does not soak. A promoted stage
//     needs no approval, soak, slow start or quorum.
//   - Clusters without pods get the target last, and are no evidence. If no cluster of the stage runs
//     pods, one gets the target, and the stage waits.
//
// Without spec.rollout, all clusters get the target at once, unless it is the failed revision. The
// target becomes stable when all clusters that can be observed are Ready with it, in the write that
// records this. If there is no stable revision before the first rollout in stages, the revision with
// which at least half of them are Ready becomes stable. An entry of an older version has no revision.
// It gets the first one, if no edit was made meanwhile; otherwise it is like a new cluster that
// already runs something.
//
// These policies never change a replica count, and the other policies never change a revision.
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
