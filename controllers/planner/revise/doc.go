// Package revise decides which revision the spec of an AppService has, and which clusters must not
// get it. It sends nothing: the same [Facts] give the same [Step].
//
//	          ┌── ReadHistory, ReadPolicy: decide again ──┐
//	          ▼                                           │
//	Facts ── Decide ──▶ Step ─────────────────────────────┤
//	                                                      ├── Store ──▶ Stored ──┐
//	                                                      └── Keep, Refuse, Defer, Use ──▶ Outcome
//
// # Rules, in this order
//
//  1. An AppService that is being deleted keeps its revision. So does one whose status was lost,
//     until its clusters have reported what they run: their numbers may be missing in the history.
//  2. While the hub refuses the history, nothing is known of the configuration: the revision stays.
//  3. A pod template that pod security refused is checked again with each plan. While it is refused,
//     nothing else matters.
//  4. Any other spec needs a revision after an edit, for a retry, and for other content of its
//     sources. At rest, the status names the revision of the spec, and nothing is read.
//  5. A spec that waits for a source has no revision: the clusters keep the one before it.
//  6. What the hub has just refused is not sent again at once.
//  7. If the history has the template with the present snapshots, its revision is used.
//  8. Otherwise a new revision is stored. A template that the history has with other snapshots keeps
//     its policy. Any other template must comply with the present policy on one cluster at least.
//
// # Pod security
//
// A revision keeps the policy that its namespace had when the template was new, and complies with
// it on every cluster. So what runs is not affected by a later label, a later flag or an upgrade:
// the template is scaled, repaired, rotated, retried and returned to under its own policy. If the
// present policy allows more, it replaces that of the present revision where a cluster needs it. On a
// cluster that does not run the AppService yet, the present policy decides.
package revise
