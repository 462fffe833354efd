// Package delivery makes each connected member match its rows of the plan, and observes what it runs. Every
// member has a controller of its own (queue, back-off, workers), which lives exactly as long as its engagement: what
// one member does or suffers, no other feels.
//
// For one AppService on one member a reconcile gathers (the AppService and its row from the hub's cache, the
// objects from the member's), decides (see decide, which is pure), acts, and reports what it saw to the planner.
//
// # What always holds
//
//   - Nothing is sent for a row that the planner has not written, nor for a generation that it has not planned, nor while the
//     AppService is suspended.
//   - Nothing is sent when the member's objects already hold every field that is wanted. The rest of their fields
//     belongs to others, the replicas where an autoscaler is at work among them.
//   - What the member itself drops of an object is told, and sent no second time; it holds up nothing else.
//   - An object that is not marked as this AppService's of this hub is never touched, unless the conflict policy lets one that is nobody's be
//     adopted, or it is what an AppService of this hub, namespace and name left, which is inherited. A foreign one cannot even be met by accident: an
//     object is made by an apply that fails when there is one, and changed by an apply that names the UID of the one that was seen.
//   - Nothing is deleted, adopted or let go of but after a live read of the AppService that says so, and by the UID that was seen. Where the
//     deletion policy is Orphan, nothing is deleted at all.
//   - While any member has an object of the AppService that this hub cannot account for (see package lineage), nothing of the AppService is
//     created, changed or deleted, until somebody accepts that. It is reported only after a live read of the hub and of the member.
//   - Kinds that only some AppServices have (see part) are watched on a member from the first that has one there; what the
//     credentials may not do with them stops those AppServices, not the member.
package delivery
