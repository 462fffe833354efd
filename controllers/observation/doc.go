// Package observation describes what delivery observed of an AppService on a member. It is pure.
// Delivery creates observations, and the planner merges them into the entries of status.clusters.
// No other component uses them.
//
//	seen, err := observation.Observation{UID: app.UID, Generation: entry.Generation}.WithDeployment(deployment)
//	seen = seen.WithService(service)
//
// This package bounds the values that a member reports about itself: counts and addresses. An
// observation answers one entry, which UID, Generation and Planned identify. So an answer to an
// older entry is never mistaken for an answer to the current entry.
package observation
