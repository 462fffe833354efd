// Package explain says why an AppService runs on a cluster or not, with how many replicas, and with
// which overrides. It is pure. The decision is that of controllers/placement, with which the planner
// decides: this package only says it in words.
//
//	explanations, err := explain.Placement(app, memberClusters)
//
// A user without the permission to read MemberClusters gets explain.Entries(app): what the operator has
// decided, from the status.
//
// The entries of the AppService must be in status.clusters. An error means that a selector is invalid.
package explain
