// Package delivery makes each connected member match its entries of status.clusters, and observes
// what it runs. Every member has a controller of its own (queue, back-off, workers), which lives as
// long as its engagement: no member affects another.
//
//	deliverer := delivery.New(hub, hubID, reporter)
//	manager.Add(deliverer)                   // dispatches the hub's changes to the members
//	deliverer.Engage(ctx, name, member)      // starts the controller of a member; it ends with ctx
//
// For one AppService on one member, a reconcile
//
//  1. gathers the AppService and its entry from the hub's cache, and the objects from the member's;
//  2. decides (see decide, which is pure);
//  3. ensures each desired object (see package object), and deletes those that are not desired;
//  4. reports what it observed to the planner (see package diagnosis for why a workload is not
//     ready).
//
// # Invariants
//
//   - Nothing is sent for an entry that the planner has not written, nor for a generation that it
//     has not planned, nor while the AppService is suspended.
//   - Nothing is sent when the member's objects hold every desired field.
//   - Fields that the member discards are reported and not sent again. They hold up nothing else.
//   - Objects of other owners are never touched, unless the conflict policy allows the adoption of an
//     unmanaged one. Objects of an earlier AppService of this hub, namespace and name are
//     inherited, or deleted if they are not desired.
//   - Nothing is deleted, adopted or released without a live read of the AppService that
//     confirms it, and only by the UID that was read. With the deletion policy Orphan, nothing is
//     deleted at all.
//   - While any member has an object of the AppService that this hub cannot account for (see
//     package lineage), nothing of the AppService is created, changed or deleted, until a person
//     accepts that. It is reported only after a live read of the hub and of the member.
//   - Optional kinds (see optionalKinds) are watched on a member from the first AppService that has
//     one there. Missing permissions for them stop those AppServices, not the member.
package delivery
