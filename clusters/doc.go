// Package clusters turns kubeconfig Secrets on the hub into connected member clusters, and keeps
// them connected. Its [Provider] is a [multicluster.Provider]: each member is a [cluster.Cluster]
// with a client and a synced cache. The package knows no AppService.
//
// # Terms
//
//   - A member is a cluster whose kubeconfig is in a Secret on the hub. One goroutine supervises it.
//     Its MemberCluster is the object on the hub that shows its state.
//   - A session is one connection of a member: its HTTP client, its cache, its [cluster.Cluster],
//     and the context that ends all of them. A member has no session while it cannot be used.
//   - An engagement is the use of a session by a [multicluster.Aware]. It ends with the context of
//     the session.
//   - The identity of a member is the UID of its namespace kube-system.
//
// # Usage
//
//	rules := kubeconfig.SecretRules{{Namespace: "fleet", Format: kubeconfig.FormatKubeconfig, Selector: selector}}
//	provider, err := clusters.New(ctx, clusters.Options{Scheme: memberScheme, Mapper: clusters.NewMapper(memberScheme), Watch: kinds})
//	m, err := mcmanager.New(hub, provider, manager.Options{
//		Scheme:         hubScheme,
//		LeaderElection: true, LeaderElectionID: "my-operator",
//		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: clusters.SecretCache(rules)}},
//	})
//	err = provider.SetupWithManager(ctx, m.GetLocalManager(), m, rules)
//	err = m.Start(ctx)
//
// The same is in example_test.go, as code that compiles. docs/library.md explains a whole program.
//
//   - The hub has the CRD of MemberClusters. The scheme of its manager has core/v1 and v1alpha1.
//     Without [SecretCache], the manager would cache every Secret of the hub.
//   - Rules say in which namespaces and formats the Secrets are. The selector of
//     FormatKubeconfig selects them by label.
//   - Of the [Options], Scheme and Mapper are required. They must know every kind that is used on
//     members, because no member is asked for its API. [NewMapper] makes the mapper from the scheme.
//   - Watch has the kinds that a cache must have before its member is engaged: all that controllers
//     watch, in the form in which they watch them. A cache refuses to wait for any other informer.
//   - A process beside Fleetwright's operator sets ReadOnly. Then the Provider writes nothing to the
//     hub, and has the members that the operator has accepted.
//   - Indexes of the members' caches are added with [Provider.IndexField] before the manager starts:
//     once there is a member, it returns an error.
//
// From then on, the Provider writes a MemberCluster for each Secret, unless it is ReadOnly. It engages
// the aware of SetupWithManager (here the manager, which engages all of its controllers) with each
// member that connects. The context of an engagement ends when the member can no longer be used. A member that
// returns is engaged again, with a new Cluster and a new cache. An Aware may be engaged with the same
// Cluster again, and must do nothing then; the controllers of multicluster-runtime do that.
//
// [Provider.Get] returns [multicluster.ErrClusterNotFound] for a member that is not connected at
// present. Callers must expect that at any time: they wait for the next engagement and do not poll.
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
//   - A member is always the same cluster. Its MemberCluster keeps the identity, also while the
//     member is not connected. If a Secret leads to a cluster with another identity, that cluster
//     is not used until a user accepts it by an annotation. Two members never have the same
//     identity: the second is refused.
//   - If a Secret is deleted, its member is disengaged. Its MemberCluster stays, with everything
//     that an administrator has set on it, and is used again when the Secret returns. Only a
//     MemberCluster without such settings is deleted, after [Options.SecretGrace].
//   - [Provider.Get] returns the Cluster of a session from before it is engaged until it ends, so the
//     first requests of a controller find it. If the engagement fails, Get returns the Cluster of the
//     session before it again, which is engaged again. A controller that blocks, fails or panics in
//     Engage costs that attempt, and no other member.
//   - A member is engaged only with a synced and complete cache. It is disengaged after three
//     failed probes in a row, and when its watches fail, fall silent or exceed a limit. Data that
//     was cached before an outage is never used as current data.
//   - Supervising never waits for the member: connection attempts, renewals of the token and reads
//     of the cluster info have separate goroutines.
//   - If the Secret asks for it, the token of a member is renewed through its session, before half
//     of its lifetime has passed. The new token is tried before it is written to the Secret, and
//     the write never overwrites an edit by anybody else. When it is due follows from the token
//     alone. At most one renewal of a member runs at a time.
//   - A member that sends much data is throttled, and never disconnected because of its rate. The
//     memory that a member can occupy on the hub is limited. Members take turns with large lists.
//   - Every step is bounded in time.
//
// # Data flow
//
//	Secret ──▶ Reconciler ── desired state ──▶ member (a goroutine): probe, connect, sync, publish,
//	              │  ▲                           │                   engage, supervise
//	 ▲            │  └──────── snapshot ─────────┤
//	 │            ▼                              │
//	 │      MemberCluster                        │
//	 └──────────────── renewed token ────────────┘
//
// Of this package, only the [Reconciler] writes MemberClusters: after a change of the Secret, of the
// MemberCluster, or of the snapshot that the goroutine of the member keeps of its connection.
//
// The shape follows Cluster API's controllers/clustercache: connections are made outside of any
// lock, and the state is in one guarded struct.
package clusters
