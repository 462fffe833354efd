// Package stages decides which revision each cluster of an AppService is to run. It is pure.
//
//	in := stages.Input{App: app, Revisions: revisions, Hold: stages.Released, Now: now}
//	r := stages.Decide(in, plans)
//	// The entry plans have the revisions now. When the entries are final:
//	outcome, deadlines := r.Finish(entries)
//	// outcome.Rollout is the next status.rollout. Decide again at the deadlines.
//
// A decision asks four things, each by a type of its own. places: to which stage does a cluster belong?
// clock: how long has a cluster been in a state, and is that too long? judge: in which state is a
// cluster, as evidence about the target? stage: what is the result of its clusters (gates.go), and which
// of them get the target next (next.go)? Then each phase of a rollout does its work: rollingOut, goingBack,
// completed, or atOnce without spec.rollout. They change a cluster only by assigner. What several
// phases do is in scope, and the steps of one stage in runstage.go. The tests are in package rollout,
// which makes the entries and the plans that a decision needs.
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
//     A cluster that cannot be observed at the deadline is lost. It counts among those that are
//     updating until the stage is over or promoted. Several lost clusters are a failure only if
//     clusters without the target are well (see cutOff).
//   - A decision to continue, and a failure, need an observation by this process. A cluster that has
//     not answered the latest edit is neither available nor broken, for three minutes.
//   - A cluster belongs to the first stage that matches it, and clusters that no stage matches form
//     the last stage. A stage with a limit prefers clusters that can be reached and have replicas. A
//     cluster that got the target there has its place there until the next target, also if it goes back,
//     and comes last for other stages. After an edit of the stages, clusters that have the target come first.
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
//   - Where clusters go back, those that are known not to be Ready, or that cannot be reached, return at
//     once, and the others as maxUnavailable allows, in all stages at the same time. This never waits for
//     a broken cluster. A cluster on which the stable revision fails then is evidence against it only if
//     it was Ready, or may have been, before it returned.
//   - A new cluster gets the stable revision, and then the target as a cluster that was not Ready before:
//     one that never ran a pod is no evidence. It waits for its turn in the first rollout, in a stage
//     that needs approval and was Skipped when the stable revision was rolled out, and where the stable
//     revision is missing or refused.
//   - The target becomes stable when a stage is Completed and the target is available anywhere.
//   - After the status was lost, revisions are frozen until the clusters have reported what they run (see
//     Recovery). Then the revision that most of them run is stable.
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
package stages
