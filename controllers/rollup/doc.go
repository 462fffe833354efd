// Package rollup makes the status of an AppService out of its plan and of what was observed on its clusters.
// It is pure.
//
// A row of the status has two halves. The planned half (generation, replicas, whether it is to be removed)
// follows from the plan alone. The observed half is what delivery saw on the member last; when nothing was
// seen since the operator started, it is what the row says already. So a restart changes nothing, and
// a row whose cluster cannot be observed becomes Unknown and keeps what was known.
//
// A cluster that is no longer in the plan keeps running what it did until its removal may begin: see remove. So a row's generation
// tells also why it leaves.
//
// Status changes nothing that it need not: rows and conditions that say the same keep their times.
package rollup
