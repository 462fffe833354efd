package rollup

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Recover returns the input with a row for each member where objects of the AppService were found and that has none: its status was
// lost, as by a restore. It has to be done before the plan is made, for a cluster that has a row is no newcomer. A row of generation 0
// asks nothing of its cluster, and is taken for older than the last edit.
//
// A cluster that was let go of for a deletion gets none: its tombstone is evidence enough. While the AppService lives, it is not: the tombstone may come
// from a backup, and the AppService may have been placed there again since.
//
// An AppService that is deleted before its status is back would be gone before anything is found. So every cluster that can be
// reached gets an entry that is Removing: each of them has to confirm that nothing is left there.
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
	if in.StatusLost() {
		found = in.askEveryone()
	}
	if len(found) == 0 {
		return in
	}
	in.App = in.App.DeepCopy()
	in.App.Status.Clusters = append(in.App.Status.Clusters, found...)
	return in
}

// StatusLost reports whether an AppService is deleted of which no status was written yet, or which has lost it, as by a restore. Nothing
// is known then of where it runs. Its finalizer tells that it was planned, or was about to be.
func (in Input) StatusLost() bool {
	return in.deleting() && in.App.Status.ObservedGeneration <= 0 && slices.Contains(in.App.Finalizers, v1alpha1.Finalizer)
}

// askEveryone returns an entry that is Removing for each cluster that can be reached and has none.
func (in Input) askEveryone() []v1alpha1.ClusterStatus {
	var entries []v1alpha1.ClusterStatus
	for name, member := range in.Members {
		if member.IsReady() && in.App.Status.Cluster(name) == nil {
			entries = append(entries, v1alpha1.ClusterStatus{
				Name: name, Phase: v1alpha1.ClusterRemoving, Generation: in.App.Generation, Reason: v1alpha1.ReasonRemoving, LastTransitionTime: in.Now,
			})
		}
	}
	return entries
}
