// Package placement decides which clusters an AppService runs on, with how many replicas on each, and why
// it does not run on the others. It is pure: what it is given decides what it returns, in whatever order the
// members come. Given what it decided as entries, it decides the same again.
//
// # Which clusters
//
// The decision for a cluster is the first of these that applies:
//
//  1. it is not in spec.placement.clusterNames, when that is set: NotNamed;
//  2. its labels do not match spec.placement.clusterSelector, when that is set: SelectorMismatch;
//  3. its Secret is gone, so it is no member at present: SecretMissing;
//  4. it has a taint NoExecute that spec.placement.tolerations do not tolerate: TaintNotTolerated;
//  5. it has no entry of the AppService, and is being deleted, is unschedulable, has a taint NoSchedule that is not tolerated, or is not
//     Ready: ClusterDeleting, Unschedulable, TaintNotTolerated, ClusterNotReady. One with an entry stays whatever its state, for a cluster
//     once chosen stays while it fits;
//  6. spec.placement.limit takes others: LimitReached;
//  7. chosen.
//
// The limit takes the clusters of the plan that have taken the AppService on, then the other clusters of the plan, then those whose removal
// waits or is held, then those that are being removed, then newcomers. Among equals it takes, one after the other, one of that value of the label spec.placement.spreadKey which has the fewest so
// far; and of the clusters with that value the one with the least rank. The rank is a hash of the AppService and the cluster
// (rendezvous hashing: Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998), so that
// each AppService prefers other clusters, and a member that comes or goes changes nothing between the others.
//
// # How many replicas
//
// Without a policy that divides, a cluster runs spec.replicas, or those of the last override with replicas that matches it. Divided, the
// clusters run spec.replicas together: each gets its quota, rounded up or down. This is apportionment by the largest remainder (Hamilton's
// method: Balinski and Young, "Fair Representation", 1982), with bounds, and beginning with what there is:
//
//  1. A quota is weight times level, but no less and no more than the cluster's bounds; the level is that at which the quotas add up to
//     the total (water-filling: Ibaraki and Katoh, "Resource Allocation Problems", 1988, chapter 2). The bounds win over the total: when the
//     least of all clusters is more than the total, or the most is less, each gets its least, or its most. One of weight 0 gets its least.
//  2. The band of a cluster is its quota rounded down and rounded up. Each begins with what its entry says, or the end of the band that is
//     next to it; without an entry of the plan, with the lower end.
//  3. What is then missing is given in single replicas to those with the largest remainders, and what is too much is taken from those with
//     the smallest, within the bands. Equal ones go by rank. So the sum is exact, and no other division within the
//     bands moves fewer.
//
// A cluster with an entry that is not Ready gets no more than the entry says, or than its least: it could not start them. What its quota is more
// than that is divided among the others by the same method. Only when those are at their most does it get more.
//
// # Autoscaling
//
// Duplicated, each cluster has the bounds of spec.autoscaling. Divided, minReplicas is divided as replicas are, and then maxReplicas over the
// clusters that got some of it, each no less than its share of minReplicas. The others run nothing, and have no autoscaler.
package placement
