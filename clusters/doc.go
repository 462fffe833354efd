// Package clusters turns kubeconfig Secrets on the hub into connected member clusters, and keeps them so. It is
// a [multicluster.Provider]: each member is a [cluster.Cluster] with a client and a synced cache, handed to a
// [multicluster.Aware] when it can be used, with a context that ends when it no longer can. The package knows no
// AppService.
//
// # What always holds
//
//   - One goroutine for each member, on the lifetime of the process, does everything that can take long.
//     Nothing that one member does, or leaves undone, is waited for by another; a member that must be found
//     dead costs nothing but its own goroutine.
//   - A Secret is hostile input. What it may hold is decided on the raw kubeconfig, before anything in it is
//     used: no program is run and no file is read, and nothing of it is quoted in a condition, an event, a log or a metric. Redirects are
//     not followed, and addresses that no member may have are refused when they are dialled.
//   - Make before break: a changed kubeconfig is tried first. While it is bad, the connection that there is goes on.
//     Other credentials for the same server are swapped in place, without a relist.
//   - A member is one cluster, known by the UID of its kube-system namespace. Another one behind the same Secret is left alone until
//     that is acknowledged, and no two members are the same cluster. The identity belongs to the MemberCluster, connected or not.
//   - A MemberCluster outlives its Secret, with all that was said about the cluster; the member is disengaged meanwhile.
//   - [Provider.Get] returns a Cluster that is engaged, and none that has ended.
//   - A cluster is engaged only with its caches in step. It is disengaged when it has not answered some probes in a row, and
//     engaged anew, with new caches, when it is back: what was cached before an outage is never taken for the present.
//   - Supervising never waits for the member: attempts to connect and surveys have goroutines of their own.
//   - A member that sends much is throttled, never disconnected for its rate. What it may have the hub keep in memory is bounded.
//   - Every step is bounded in time.
//
// # The data flow
//
//	Secret ──▶ Reconciler ──▶ member (a goroutine): probe, connect, sync, engage, publish, supervise
//	               ▲                │
//	MemberCluster ◀┘◀── snapshot ───┘
//
// The shape follows Cluster API's controllers/clustercache: connecting outside of any lock, state in one
// guarded struct.
package clusters
