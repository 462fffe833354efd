// Package fleet plans: it decides for each AppService which clusters run it, and writes what shall be and what is
// into its status. It reads the hub's caches and the observations that delivery reports, knows no connection to any
// member, and is the only writer of an AppService's status and of our finalizer on it. Of a MemberCluster it writes what was let go
// of there, and nothing else.
//
// # What always holds
//
//   - A row is written before anything is made on its cluster, and taken away only when delivery has confirmed that
//     nothing is left there, or when the cluster has left the fleet.
//   - A plan that changed is written at once. What was merely observed is written at once the first time, and then at most
//     once a second for each AppService, whatever the number of its clusters.
//   - An AppService that waits for a plan is planned before observations are, however many are queued: see lanes.
//   - When nothing changed, nothing is written; a restart is no change.
//   - A cluster is let go of only when its MemberCluster has that on record, and is placed again only when it no longer has.
//   - Nothing is removed for a deletion before it is known that neither the namespace nor the CRD is being deleted: then
//     the members keep what they run.
//   - The finalizer goes after the last row, or with the namespace or the CRD. In the second case, what was being removed before
//     leaves a tombstone on its MemberCluster.
//   - An AppService that is deleted and whose status was lost is removed from every cluster: those that can be reached confirm that
//     nothing is left, the others get a tombstone.
//   - People are told of what was written, once.
package planner
