// Package placement decides which clusters an AppService runs on, how many replicas each cluster
// runs, and why the other clusters are excluded. The package is pure: its result depends only on
// its arguments, and not on the order of the members. When the entries already match the plan, it
// returns the same plan again.
//
// # Usage
//
//	plan, err := placement.Decide(app, memberClusters) // all of them, also those without a Secret
//	decision := plan.Find(cluster)                     // chosen with replicas, or a reason
//	excluded := plan.Excluded()                        // the reasons of the others, for the status
//
// The entries in the status of app must be sorted by name. An error means that a selector is
// invalid: the caller must not conclude anything for any cluster. The result of NewMemberChange
// reports which AppServices must be planned again after a change of a MemberCluster. The stages of a
// rollout match and limit clusters by CompileMatch, RanksOf and Order, as a placement does.
//
// # Which clusters
//
// The first rule that applies decides for a cluster:
//
//  1. The cluster is not in spec.placement.clusterNames, and that field is set: NotNamed.
//  2. The labels of the cluster do not match spec.placement.clusterSelector, and that field is set:
//     SelectorMismatch.
//  3. The Secret of the cluster does not exist, so the cluster is not a member at present:
//     SecretMissing.
//  4. The cluster has a NoExecute taint that spec.placement.tolerations do not tolerate:
//     TaintNotTolerated.
//  5. The cluster has no entry of the AppService, and it is being deleted, is unschedulable, has a
//     NoSchedule taint that is not tolerated, or is not Ready: ClusterDeleting, Unschedulable,
//     TaintNotTolerated, ClusterNotReady. A cluster with an entry stays in any of these states,
//     because a chosen cluster stays chosen while it fits.
//  6. spec.placement.limit takes other clusters: LimitReached.
//  7. The cluster is chosen.
//
// The limit takes clusters in this order: clusters of the plan that have applied the AppService,
// other clusters of the plan, clusters whose removal is pending or needs approval, clusters that
// are being removed, and newcomers. Among clusters of the same standing, it repeatedly takes a
// cluster from the value of the label spec.placement.spreadKey that has the fewest clusters so far;
// within that value it takes the cluster with the lowest rank. The rank is a hash of the AppService
// and the cluster (rendezvous hashing: Thaler and Ravishankar, "Using name-based mappings to
// increase hit rates", 1998). Therefore each AppService prefers different clusters, and adding or
// removing a member does not change the order of the other members.
//
// # How many replicas
//
// Without a policy that divides replicas, a cluster runs spec.replicas, or the replicas of the last
// matching override that sets them. With such a policy, the clusters together run spec.replicas,
// and each cluster gets its quota, rounded up or down. This is apportionment by the largest
// remainder (Hamilton's method: Balinski and Young, "Fair Representation", 1982), with bounds, and
// it starts from the current replicas:
//
//  1. A quota is weight times level, limited to the bounds of the cluster. The level is the one at
//     which the quotas add up to the total (water-filling: Ibaraki and Katoh, "Resource Allocation
//     Problems", 1988, chapter 2). The bounds take precedence over the total: if the minimums of
//     all clusters add up to more than the total, or the maximums to less, each cluster gets its
//     minimum, or its maximum. A cluster of weight 0 gets its minimum.
//  2. The band of a cluster is its quota rounded down and its quota rounded up. A cluster that runs
//     the AppService starts from the replicas of its entry, or from the nearest end of its band.
//     Any other cluster starts from the lower end.
//  3. Missing replicas are added one at a time to the clusters with the largest remainders, and
//     surplus replicas are taken from the clusters with the smallest remainders, within the bands.
//     Ties are resolved by rank. So the sum is exact, and no other division within the bands moves
//     fewer replicas. A small change of the weights moves none.
//
// A cluster with an entry that is not Ready gets at most the replicas of its entry, or its minimum
// if that is higher, because it could not start more. The rest of its quota is divided among the
// other clusters by the same method. It gets more only when the other clusters are at their
// maximums.
//
// # Autoscaling
//
// Without division, each cluster has the bounds of spec.autoscaling. With division, minReplicas is
// divided in the same way as replicas. Then maxReplicas is divided among the clusters that got a
// part of minReplicas, and each gets at least its share of minReplicas. The other clusters run no
// replicas and have no autoscaler.
package placement
