// Package clusters turns kubeconfig Secrets on the hub into connected member clusters, and keeps
// them connected. Its [Provider] is a [multicluster.Provider]: each member is a [cluster.Cluster]
// with a client and a synced cache. The package knows no AppService.
//
// # Usage
//
// Three calls set it up, as the example shows: [New] creates the Provider, mcmanager.New creates
// the manager with it, and [Provider.SetupWithManager] adds the controller for the Secrets. From
// then on, the Provider engages a [multicluster.Aware] (usually the manager itself) with each
// member that connects, and writes a MemberCluster for each Secret. The context of an engagement
// ends when the member can no longer be used; a member that returns is engaged again with a new
// Cluster and a new cache.
//
// [Provider.Get] returns [multicluster.ErrClusterNotFound] for a member that is not connected at
// present. Callers must expect that at any time: they wait for the next engagement and do not poll.
// Indexes are added with [Provider.IndexField] before the manager starts.
//
// # Invariants
//
//   - One supervisor goroutine for each member, on the context of the process, does everything that
//     can take long. No member waits for another one: a dead member costs its own goroutine and
//     nothing else.
//   - A Secret is hostile input. Package kubeconfig decides on its raw content before anything in
//     it is used: it runs no program and reads no file, and no condition, event, log or metric
//     quotes the Secret. Package transport follows no redirects and dials no address that a member
//     may not have.
//   - Make before break: a changed kubeconfig is tried first, while the current connection
//     continues. Other credentials for the same server are swapped in place, without a relist.
//   - A member is one cluster, known by the UID of its kube-system namespace. Another cluster
//     behind the same Secret is not used until that is acknowledged, and no two members are the
//     same cluster. The identity belongs to the MemberCluster, connected or not.
//   - A MemberCluster outlives its Secret, with every setting of an administrator. The member is
//     disengaged meanwhile.
//   - [Provider.Get] returns a Cluster that is engaged, and never one that has ended.
//   - A member is engaged only with a synced and complete cache. It is disengaged after three
//     failed probes in a row, and when its watches fail, fall silent or exceed a limit. Data that
//     was cached before an outage is never used as current data.
//   - Supervising never waits for the member: connection attempts and reads of the cluster info
//     have separate goroutines.
//   - A member that sends much data is throttled, and never disconnected because of its rate. The
//     memory that a member can occupy on the hub is limited.
//   - Every step is bounded in time.
//
// # Data flow
//
//	Secret ──▶ Reconciler ──▶ member (a goroutine): probe, connect, sync, engage, publish, supervise
//	               ▲                │
//	MemberCluster ◀┘◀── snapshot ───┘
//
// The shape follows Cluster API's controllers/clustercache: connections are made outside of any
// lock, and the state is in one guarded struct.
package clusters
