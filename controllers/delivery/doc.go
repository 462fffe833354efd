// Package delivery makes each connected member match its entries of status.clusters, and observes
// what it runs. Every member has a controller of its own (queue, back-off, workers), which lives as
// long as its engagement, that is, as long as its connection can be used. So no member affects
// another.
//
// # Usage
//
//	older := reader.New(hub.GetAPIReader(), restores.Epoch)
//	contents := snapshots.NewReader(hub.GetAPIReader(), snapshots.MaxInUse, sources)
//	deliverer := delivery.New(hub, hubID, older, contents, reporter, nil)
//	err := manager.Add(deliverer)
//
// A [Deliverer] dispatches the changes of AppServices, AppServiceSlices and MemberClusters on the
// hub to the members that they concern. Add it to a manager of multicluster-runtime, which starts
// it and calls [Deliverer.Engage] with each member. Without such a manager, call Engage: it starts
// the controller of a member, which ends with the context. All arguments of New are required:
//
//   - hub has a cache of AppServices, AppServiceSlices and MemberClusters, and may patch
//     memberclusters/status and get namespaces.
//   - hubID is the identity of the hub. It must never change: objects with another one are foreign.
//   - reporter receives the observations. It is usually planner.Observations.
//
// The cache of a member has [Kinds] and [Transform], and its client uses a [Mapper]. A label
// selector for app.kubernetes.io/managed-by keeps the cache small. The Deliverer also collects
// metrics; register it only while this replica leads.
//
// Each member has a controller of its own, with its queue, back-off and two workers. In one shared
// queue, a member that does not answer would occupy all workers.
//
// For one AppService on one member, a reconcile
//
//  1. gathers the AppService and its entry from the hub's cache, and the objects from the member's;
//  2. decides, by a pure function, whether to leave, observe, maintain or remove the objects;
//  3. deletes the optional objects that are not desired, applies the copies that the Deployment will
//     need (see package copies), ensures each desired object, first the Deployment (see package
//     object), and deletes the copies that nothing needs any more;
//  4. reports what it observed to the planner (see package diagnosis for why a workload is not
//     ready).
//
// An edit takes this way through the files: Reconcile, gather and deliver (reconciler.go), decide
// (decide.go), awaitsAnswer (question.go), render (render.go), maintain and ensure (maintain.go),
// and package object. Beside it are the reports (report.go, errors.go, behind.go, confirm.go),
// adoption (adopt.go), copies (copies.go), optional objects (optional.go), removal (remove.go,
// removal.go, tombstones.go), and the live reads of the hub that it needs (verifier.go).
//
// On the hub, delivery writes only one thing: it removes tombstones from the status of the
// MemberCluster (status.abandoned). A tombstone names an AppService that was abandoned on this
// cluster while it could not be reached. When the member returns, delivery deletes what is left of
// that AppService, and then the tombstone. If another AppService has its name now, delivery asks
// package placement whether that one is about to be placed here: then it inherits the objects.
//
// # Invariants
//
//   - Nothing is sent for an entry that the planner has not written, nor for a generation that it
//     has not planned, nor while the AppService is suspended. An entry in an AppServiceSlice may be
//     seen before the status that records its generation: nothing is sent until then. While the
//     slice is missing, nothing is sent and nothing is reported.
//   - Nothing is sent when the member's objects hold every desired field.
//   - Fields that the member discards are reported and not sent again. They hold up nothing else.
//   - Objects of other owners are never touched, unless the conflict policy allows the adoption of
//     an unmanaged one. Objects of an earlier AppService of this hub, namespace and name are
//     inherited, or deleted if they are not desired.
//   - A Deployment that is missing at the first look of this process, or after a restore of the hub, is
//     a question to the planner: it is created when the entry has the answer. What this process has
//     seen or created, and an AppService or an entry that is new, needs no answer.
//     Where the first delivery had failed, nothing is missing: it is tried again at once.
//   - A Deployment that shows at that look that a restore of the hub has taken back the revision of its
//     entry (see lineage.IsTakenBack) is reported, after a live read of the hub and of the member. It is
//     not changed before the entry has that revision, or has the answer.
//   - Nothing is deleted, adopted or released without a live read of the AppService that
//     confirms it, at most a second old, and only by the UID that was read. A removal is confirmed
//     only by live reads of the member. With the deletion policy Orphan, the removal of an
//     AppService deletes nothing.
//   - While any member has an object of the AppService that this hub cannot account for (see
//     package lineage), nothing of the AppService is created, changed or deleted, until a user
//     accepts that. It is reported only after a live read of the hub and of the member.
//   - The copies of ConfigMaps and Secrets that a Deployment needs are on the member before the
//     Deployment refers to them; only a new Deployment comes first, because it owns them. They stay
//     until no pod of an older revision is left. Nothing of them is read on the member, and nothing
//     is sent at rest. The content of a Secret is in no error, log, event or report.
//   - Autoscalers and disruption budgets are optional objects. Their kinds are watched on a member
//     from the first AppService that has one there. Missing permissions for them stop those
//     AppServices, not the member.
package delivery
