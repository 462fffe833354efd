// Package observation describes what delivery saw of an AppService on a member. It is pure. Delivery makes observations, and the planner
// folds them into the entries of status.clusters; nothing else knows them.
//
//	seen, err := observation.Observation{UID: app.UID, Generation: entry.Generation}.WithDeployment(deployment)
//	seen = seen.WithService(service)
//
// What a member says of itself is bounded here: counts, addresses. An observation answers one entry; UID, Generation and Planned tell which,
// so that an answer to an older entry is never taken for one to the present entry.
package observation
