package rollout

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// Recover returns the input with an entry for each member that has no entry but has objects of the
// AppService: its status was lost, for example by a restore. Call it before placement.Decide,
// because placement does not treat a cluster with an entry as new. An entry of generation 0
// requests nothing from its cluster, and counts as older than the last edit. If the plan were made
// first, a cordoned cluster would count as a new one, and the workload that runs there would be
// removed.
//
// It also sorts the entries, because a user may have edited them.
//
// While the AppService is being deleted, a cluster with a tombstone gets no entry, because the
// tombstone is sufficient evidence. Otherwise the tombstone is not sufficient: it may come from a
// backup, and the AppService may have been placed on the cluster again since then.
//
// An AppService that is deleted before its status is restored would be released before any object
// is found. So every reachable cluster gets a Removing entry, and must confirm that no object is
// left.
func (in Input) Recover() Input {
	in.abandoned = entryplan.Abandoned(in.App)
	if !in.App.Status.HasSortedClusters() {
		in.App = in.App.DeepCopy()
		in.App.Status.SortClusters()
	}
	var found []v1alpha1.ClusterStatus
	for name, member := range in.Members {
		seen := in.ObservationOf(name)
		if seen == nil || !seen.Found || in.App.Status.Cluster(name) != nil ||
			in.App.IsDeleting() && member.IsAbandoned(in.App.UID) || in.App.OrphansWorkloads() && in.IsAbandoned(name) {
			continue
		}
		found = append(found, v1alpha1.ClusterStatus{Name: name, Phase: v1alpha1.ClusterPending, Revision: seen.Revision, Replicas: seen.Planned, Placement: seen.Placement})
	}
	if in.IsStatusLost() {
		found = in.removeEverywhere()
	}
	if len(found) == 0 {
		return in
	}
	in.App = in.App.DeepCopy()
	in.App.Status.Clusters = append(in.App.Status.Clusters, found...)
	in.App.Status.SortClusters()
	return in
}

// IsStatusLost reports whether an AppService is being deleted whose status was never written or was
// lost, or has lost entries with an AppServiceSlice. Then the clusters that run it are unknown. Its
// finalizer shows that it was planned, or was about to be planned.
func (in Input) IsStatusLost() bool {
	return isNeverPlanned(in.App) || in.App.IsDeleting() && in.HasMissingSlices && hasFinalizer(in.App)
}

// isNeverPlanned reports whether an AppService is being deleted whose status was never written, or
// was lost as a whole.
func isNeverPlanned(app *v1alpha1.AppService) bool {
	return app.IsDeleting() && app.Status.ObservedGeneration <= 0 && hasFinalizer(app)
}

func hasFinalizer(app *v1alpha1.AppService) bool {
	return slices.Contains(app.Finalizers, v1alpha1.Finalizer)
}

// removeEverywhere returns a Removing entry for each reachable cluster without an entry.
// docs/decisions/a-deletion-without-a-status-asks-every-cluster.md says why.
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
