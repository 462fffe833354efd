// Package rollup makes the status of an AppService out of its plan and of what was observed on its clusters.
// It is pure.
//
// A row of the status has two halves. The planned half (generation, replicas, the bounds of an autoscaler, whether it is to be removed)
// follows from the plan and from the row itself. The observed half is what delivery saw on the member last; when nothing was
// seen since the operator started, it is what the row says already. So a restart changes nothing, and
// a row whose cluster cannot be observed becomes Unknown and keeps what was known.
//
// A cluster that is no longer in the plan keeps running what it did until its removal may begin: see remove.
//
// # What leaves waits for what arrives
//
// A row is arriving while the AppService is new on its cluster, or has a share there that was raised, until all of that is ready. What was
// decided for a row that is arriving is in the row at once. What leaves other clusters waits:
//
//   - A cluster that is no longer in the plan is left when nothing is arriving any more: see remove.
//   - Where the clusters run the replicas together, those that are to run less do so as what arrives becomes ready, replica by replica; with
//     autoscalers, when all of it is: see lower.
//
// So of the replicas that are ready no more are taken away than the AppService is asked to run fewer, as long as members keep what they have.
// A row that is not arriving keeps nobody waiting, however broken its cluster is. The annotation fleetwright.dev/accept-unready says not to wait.
// Nothing is counted up to be waited for: the rows say what they run now, the plan what they are to run in the end, and each status makes
// the next step of what is ready.
//
// # Why a cluster leaves
//
// The row of a cluster that leaves the plan, or is to run fewer replicas, has a transition with its cause. Nothing else is remembered, and
// nothing is decided by a reason or a message.
//
//   - Without an edit, a removal begins only while another cluster of the plan is known to be ready, or all of them where they run the
//     replicas together. A scale-down waits in the same way.
//   - Removals that may be accidents are held when they are too many within an hour: see tally.
//   - While the plan chooses no cluster, the last one that is known to be ready is held.
//
// The annotation fleetwright.dev/accept-removals accepts removals that are held.
//
// Some decisions depend on time alone. RecheckAfter returns when to decide again.
//
// # A hub that is behind
//
// A row keeps hubBehind until somebody accepts it. While any row has it, delivery changes nothing on any cluster. The plan goes on: the rows
// say what is done once it is accepted, and those that need a change say why there is none yet.
//
// Status changes nothing that it need not: rows and conditions that say the same keep their times. Of its own answer it makes the same.
package rollup
