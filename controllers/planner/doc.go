// Package planner decides which clusters run each AppService, and writes the plan and the observed
// state to the status of the AppService. It reads the caches of the hub and the observations of
// delivery. It has no connection to any member.
//
// The planner is the only writer of an AppService's status, of AppServiceSlices and of our
// finalizer. Of a MemberCluster it writes two fields of the status, and nothing else: it adds and
// removes tombstones (status.abandoned), and counts AppServices (status.appServices). Delivery also
// removes tombstones.
//
// # Phases of a plan
//
//	gatherer      reads the fleet and the observations, and asks package placement
//	reviser       finds the revision of the spec, by the steps of package revise; stores a new one
//	Plan, Compute packages rollout and status decide: the next entries, the next status
//	writer        writes the status with its slices
//	announcer     emits the events
//
// The [Reconciler] calls them in this order, and paces the plans and the writes. Two writes are not at
// the end: the finalizer comes before the first plan, and tombstones before the revision.
//
// # Contract
//
//   - An entry of status.clusters is written before anything is created on its cluster. It is
//     removed only after delivery has confirmed that nothing is left there, or after the cluster
//     has left the fleet or was abandoned.
//   - The plan of an edit is written at once. A status that follows from the fleet or from
//     observations is written at once the first three times, and then once per second for each
//     AppService. Its plans take at most a twentieth of a processor. So neither the number of
//     writes nor the time for planning depends on the number of clusters that change. What only
//     shows the progress of a delivery is written after a second at the earliest, and has one rate
//     for all AppServices.
//   - More than [Options.SliceThreshold] entries are in AppServiceSlices. What limits later plans
//     is written first, then the slices that changed, and then the rest of the status. No plan is
//     made from an AppService or a slice that is older than the planner's own last write.
//   - AppServices that need a plan are reconciled before AppServices with new observations,
//     regardless of the number of queued observations. After 16 of them in a row, one of the others
//     is reconciled.
//   - A change of a MemberCluster plans only the AppServices that it may affect (see
//     placement.MemberChange). All plans share one snapshot of the fleet, and must not modify it.
//   - If nothing changed, nothing is written. A restart changes nothing.
//   - The entry of an abandoned cluster is dropped only after its MemberCluster has a tombstone.
//     The AppService is placed there again only after the tombstone is removed.
//   - A deletion removes nothing from members before the planner has read, after it has seen the
//     deletion, that neither the namespace nor the CRD is being deleted. If one of them is, the
//     members keep what they run.
//   - The finalizer is removed after the last entry, or together with the namespace or the CRD. In
//     the second case, removals that were in progress leave a tombstone on their MemberCluster.
//   - A deleted AppService without a status is removed from every cluster: reachable clusters
//     confirm that nothing is left, and the other MemberClusters get a tombstone.
//   - The configuration of an AppService is decided in each of its plans, by package sources. What a
//     change needs is written in this order: snapshots, the ControllerRevision, the status, and the
//     deletion of what nothing names any more. After a crash, the same content gets the same names.
//   - A spec that waits for a source has no revision: the clusters keep the one before it, and
//     everything but the template takes effect. No cluster gets a revision whose snapshot is missing.
//   - An AppService without configuration, and without status.configuration, is planned without any of
//     this: it causes no request and no memory more.
//   - Changes are announced by events after the status was written: the first ten changes of a
//     status by one event each, in the order of status.Changes, and the rest by one event that
//     counts them. A change that repeats within six minutes adds to the series of its event.
//
// # Usage
//
//	observations := planner.NewObservations()
//	// Delivery reports to observations.
//	metrics, err := planner.SetupWithManager(hub, observations, planner.Options{Revisions: older, Sources: found})
//	err = errors.Join(err, planner.SetupCounterWithManager(hub))     // status.appServices
//
// The scheme of the manager hub has v1alpha1, and its cache has the AppServices and the
// AppServiceSlices of all namespaces, and the MemberClusters. Both controllers run only while the
// replica leads. Register the returned metrics only while it leads, too.
package planner
