// Package rollout has the command rollout with its commands, and restart: requests to the operator,
// the revisions of an AppService, and the return to one of them.
//
//   - A request is an annotation of the AppService that names the current revision, so it has no effect
//     on a later edit.
//   - undo checks everything before it changes the first object. What Git owns it changes only with
//     --force.
//   - Values of Secrets are never printed.
package rollout
