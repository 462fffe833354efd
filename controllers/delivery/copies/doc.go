// Package copies keeps the copies of ConfigMaps and Secrets that travel with an AppService on a
// member, and the record of them in the Deployment that owns them. It reads no ConfigMap and no
// Secret of a member, and no text of it has the content of a Secret.
//
// # Usage
//
// Once for each member, with a [Writer] that sends the requests:
//
//	ensurer := &copies.Ensurer{Writer: writer, Snapshots: contents, OnApply: measure, DeletionRetry: retry}
//
// For each AppService, with what the member's cache has:
//
//	facts := copies.Facts{App: app, Needed: needed, Deployment: deployment, Memory: memory, ...}
//	result, err := ensurer.Ensure(ctx, facts)       // before the Deployment is changed
//	annotation := facts.DesiredAnnotation()         // the record that the Deployment must have
//	deletion, err := ensurer.Delete(ctx, facts, verify) // after it has its desired state
//
// A new Deployment is created first, because it owns the copies. Then Ensure is called with its UID
// as NewOwner, and also before a Deployment is adopted.
//
// # Invariants
//
//   - [Memory] is what this process knows. It may be lost: the record says the rest.
//   - The record counts only for the Deployment that it was confirmed for, and for copies that it
//     uses. All others are applied: to apply a copy that is there changes nothing.
//   - The record lists a copy before the copy is applied, and until it is deleted. So a process that
//     ends in between leaves no copy that nobody knows.
//   - A content that is newer than that of the hub is left alone.
//   - A copy that is needed is never deleted, and no copy is before the rollout of the Deployment is
//     complete.
package copies
