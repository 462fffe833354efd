// Package sources connects the decisions of package configuration with the hub. It is the only part
// of the planner that has content of ConfigMaps and Secrets, and it has it for 30 seconds at most.
//
// # Usage
//
//	decision, err := s.Decide(ctx, request) // creates the snapshots of the decision
//	// Create the ControllerRevision, and write the status.
//	err = s.Written(ctx, app, decision)     // deletes the snapshots that nothing names
//
// If a step fails, leave out those after it. One caller at a time may decide about an AppService.
//
// # Rules
//
//   - Without namespaces nothing is started, nothing is requested, and nothing is deleted.
//     Snapshots that a status or a revision names count as existing.
//   - One watch for each kind and namespace has the metadata of all objects with the label
//     fleetwright.dev/propagate: sources and snapshots. It tries again forever. Until it is
//     synced, nothing is known about a source, and a decision changes nothing.
//   - If the hub forbids list or watch, the sources of that kind in that namespace are Forbidden,
//     and no others. What the status or a revision names counts as existing.
//   - A source that the watch lacks is looked up live, without its content. The result is shared,
//     and is valid until an event of the object, or for a minute.
//   - A content is read only for a version that the status does not have. AppServices that share
//     a source share the read: the content is kept for 30 seconds, and at most 8 MiB are kept.
//     Digests are kept for each AppService.
//   - If the hub refuses a request, by a permission, a quota or an admission policy, the source
//     has a problem, which is tried again once a minute. After another error, it is Unavailable, and
//     is tried again after two seconds, and then less and less often, down to once a minute. All
//     other sources go on.
//   - Nothing is decided until the watches are synced, at most for ten seconds after the start.
//   - An error about a Secret has only the code, and the reason if Kubernetes defines it, because a
//     webhook may quote the object in both texts that it chooses. Requests are not logged.
//   - The key is created once, and never changed or deleted. After it was lost, contents are
//     compared with snapshots that may have another key.
package sources
