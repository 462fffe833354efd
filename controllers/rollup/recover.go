package rollup

import "github.com/fleetwright/fleetwright/api/v1alpha1"

// Recover returns the input with a row for each member where objects of the AppService were found and that has none: its status was
// lost, as by a restore. It has to be done before the plan is made, for a cluster that has a row is no newcomer. A row of generation 0
// asks nothing of its cluster, and is taken for older than the last edit.
//
// A cluster that was let go of for a deletion gets none: its tombstone is evidence enough. While the AppService lives, it is not: the tombstone may come
// from a backup, and the AppService may have been placed there again since.
func (in Input) Recover() Input {
	var found []v1alpha1.ClusterStatus
	for name, member := range in.Members {
		seen := in.observation(name)
		if seen == nil || !seen.Found || in.App.Status.Cluster(name) != nil ||
			in.deleting() && remembers(member, in.App.UID) || in.orphans() && in.abandons(name) {
			continue
		}
		found = append(found, v1alpha1.ClusterStatus{Name: name, Phase: v1alpha1.ClusterPending, Replicas: seen.Planned})
	}
	if len(found) == 0 {
		return in
	}
	in.App = in.App.DeepCopy()
	in.App.Status.Clusters = append(in.App.Status.Clusters, found...)
	return in
}
