package rollout

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Recover returns the input with an entry for each member that has none and where objects of the AppService were found: its status was
// lost, as by a restore. Call it before placement.Decide, because a cluster with an entry is no newcomer. An entry of generation 0 asks
// nothing of its cluster, and counts as older than the last edit.
//
// A cluster with a tombstone gets no entry while the AppService is deleted: the tombstone is evidence enough. While the AppService lives it
// is not: it may come from a backup, and the AppService may have been placed there again since.
//
// An AppService that is deleted before its status is back would be gone before anything is found. So every cluster that can be reached
// gets a Removing entry, and has to confirm that nothing is left there.
func (in Input) Recover() Input {
	var found []v1alpha1.ClusterStatus
	for name, member := range in.Members {
		seen := in.ObservationOf(name)
		if seen == nil || !seen.Found || in.App.Status.Cluster(name) != nil ||
			in.IsDeleting() && HasTombstone(member, in.App.UID) || in.IsOrphaning() && in.IsAbandoned(name) {
			continue
		}
		found = append(found, v1alpha1.ClusterStatus{Name: name, Phase: v1alpha1.ClusterPending, Replicas: seen.Planned})
	}
	if in.IsStatusLost() {
		found = in.removeEverywhere()
	}
	if len(found) == 0 {
		return in
	}
	in.App = in.App.DeepCopy()
	in.App.Status.Clusters = append(in.App.Status.Clusters, found...)
	return in
}

// IsStatusLost reports whether an AppService is being deleted whose status was never written, or was lost. Where it runs is unknown then.
// Its finalizer says that it was planned, or was about to be.
func (in Input) IsStatusLost() bool {
	return in.IsDeleting() && in.App.Status.ObservedGeneration <= 0 && slices.Contains(in.App.Finalizers, v1alpha1.Finalizer)
}

// removeEverywhere returns a Removing entry for each cluster that can be reached and has no entry.
func (in Input) removeEverywhere() []v1alpha1.ClusterStatus {
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
