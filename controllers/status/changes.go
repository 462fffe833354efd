package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// Change is a change of an AppService that is reported to users once.
type Change struct {
	// Clusters are the clusters that it is about, or empty: it is about all of them.
	Clusters []string
	// Reason is the reason of the entry, Ready, or the reason why the entry was removed.
	Reason  string
	Message string
	// Cause tells the change from others of the same clusters and reason.
	Cause Cause
	// Bad reports whether a user may have to act.
	Bad bool
}

// Cause is why what runs on a cluster fails. A change with the same cause repeats an earlier one, also if
// its message has other counts. The zero value is a change that has no cause of its own.
type Cause struct {
	// Revision is the revision that fails. Each has its own images, and a retry is another attempt.
	Revision int64
	// Container is the container that fails, or "" if it is none or not known.
	Container string
}

// Changes returns the changes to report once after a status was written. Bad changes come first,
// and each group is sorted by cluster name. Intermediate states are left out. A change of the reason
// alone is reported if pods cannot run any more, or for another reason than before, because they
// rarely recover by waiting.
//
// A delivery and an edit make many clusters Ready, in several statuses. They are one change, when no
// cluster is on its way any more. The steps of a rollout are reported apart. So the number of
// changes does not depend on the number of clusters, while all goes well. Clusters that recover
// together from what was reported as bad are one change of each status.
//
// A deletion removes the AppService from many clusters: those that leave the status for the same
// reason are one change.
func Changes(in rollout.Input, after v1alpha1.AppServiceStatus) []Change {
	var changes []Change
	for i := range in.App.Status.Clusters {
		if entry := &in.App.Status.Clusters[i]; after.Cluster(entry.Name) == nil {
			changes = append(changes, entryRemoved(in, entry))
		}
	}
	if in.App.IsDeleting() {
		changes = joinEqual(changes)
	}
	var recovered []string
	for _, entry := range after.Clusters {
		previous := in.App.Status.Cluster(entry.Name)
		switch {
		case v1alpha1.IsPodFailure(entry.Reason) && (previous == nil || previous.Reason != entry.Reason):
			changes = append(changes, failureBegins(entry, in.ObservationOf(entry.Name)))
		case previous != nil && previous.Phase == entry.Phase:
		case entry.Phase == v1alpha1.ClusterReady && previous != nil && (isBad(previous.Phase) || v1alpha1.IsPodFailure(previous.Reason)):
			recovered = append(recovered, entry.Name)
		case isBad(entry.Phase):
			changes = append(changes, failureBegins(entry, in.ObservationOf(entry.Name)))
		}
	}
	switch {
	case isSettled(after) && !isSettled(in.App.Status) && after.Summary.Ready > 0:
		changes = append(changes, Change{Reason: v1alpha1.ReasonReady, Message: fmt.Sprintf("the AppService is ready on %d of %s", after.Summary.Ready, wording.CountClusters(after.Summary.Clusters))})
	case len(recovered) > 0:
		changes = append(changes, Change{Clusters: recovered, Reason: v1alpha1.ReasonReady, Message: "the AppService is ready again"})
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		if a.Bad != b.Bad && a.Bad {
			return -1
		} else if a.Bad != b.Bad {
			return 1
		}
		return slices.Compare(a.Clusters, b.Clusters)
	})
	return changes
}

// isBad reports whether a cluster in this phase needs attention.
func isBad(phase v1alpha1.ClusterPhase) bool {
	return phase == v1alpha1.ClusterFailed || phase == v1alpha1.ClusterUnknown || phase == v1alpha1.ClusterDetached
}

// isSettled reports whether no cluster is on its way to being ready, and no rollout is in progress.
func isSettled(status v1alpha1.AppServiceStatus) bool {
	phase := status.Rollout.Phase
	return phase != v1alpha1.RolloutProgressing && phase != v1alpha1.RolloutRollingBack && !slices.ContainsFunc(status.Clusters, func(entry v1alpha1.ClusterStatus) bool {
		return entry.Phase == v1alpha1.ClusterPending || entry.Phase == v1alpha1.ClusterProgressing
	})
}

// joinEqual returns the changes of single clusters with equal ones joined, in the same order.
func joinEqual(changes []Change) []Change {
	type kind struct {
		reason, message string
		bad             bool
	}
	var joined []Change
	places := map[kind]int{}
	for _, change := range changes {
		of := kind{change.Reason, change.Message, change.Bad}
		place, found := places[of]
		if !found {
			places[of] = len(joined)
			joined = append(joined, change)
			continue
		}
		joined[place].Clusters = append(joined[place].Clusters, change.Clusters...)
	}
	return joined
}

// failureBegins returns the change for an entry that begins to describe a failure. If the budget of the
// status dropped the message, the observation has it.
func failureBegins(entry v1alpha1.ClusterStatus, seen *observation.Observation) Change {
	message := cmp.Or(entry.Message, "the cluster status is "+string(entry.Phase))
	var cause Cause
	if entry.Phase != v1alpha1.ClusterUnknown && entry.Phase != v1alpha1.ClusterDetached {
		cause.Revision = entry.Revision
	}
	if seen != nil && seen.Reason == entry.Reason {
		cause.Container = seen.Container
		if entry.Message == "" {
			message = wording.Bound(seen.Message)
		}
	}
	return Change{Clusters: []string{entry.Name}, Reason: entry.Reason, Message: message, Cause: cause, Bad: true}
}

// entryRemoved returns the change for an entry that is no longer in the status.
func entryRemoved(in rollout.Input, entry *v1alpha1.ClusterStatus) Change {
	seen := in.ObservationOf(entry.Name)
	detached, confirmed := entry.Phase == v1alpha1.ClusterDetached, seen != nil && entryplan.ConfirmsRemoval(*seen, entry)
	member := in.Secretless[entry.Name]
	switch {
	case detached && member.IsAbandoned(in.App.UID):
		return Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonAbandoned, Message: "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", Bad: true}
	case detached && !in.IsAbandoned(entry.Name):
		return Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonClusterDetached, Message: "the AppService was released; the workload on the cluster is left running", Bad: true}
	case !confirmed && (detached || in.App.OrphansWorkloads()):
		return Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonAbandoned, Message: "the AppService was abandoned on the cluster; its objects stay there", Bad: true}
	case !confirmed:
		return Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonAbandoned, Message: "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", Bad: true}
	case in.App.OrphansWorkloads():
		return Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonOrphaned, Message: "the workload is left running, without the labels and annotations of Fleetwright"}
	}
	return Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonRemoved, Message: "the AppService was removed from the cluster"}
}
