// Package history describes the stored revisions of an AppService: what each one is in the rollout, on
// how many clusters it runs, and what it changed. The command rollout history and the page show the
// same. It is pure: contents of sources are read by the caller.
//
//	for _, entry := range history.List(&app.Status.Rollout, app.Status.Clusters, stored) { … } // newest first
//	text, err := history.Diff(contents, stored, 7)
//
// # Contract
//
//   - The order depends on the numbers of the revisions only.
//   - A revision is compared with the stored one before it. The oldest one that is stored is compared
//     with nothing.
//   - Values of Secrets are never shown.
package history
