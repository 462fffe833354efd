package status

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// Change is a change of a cluster that is reported to users once.
type Change struct {
	Cluster string
	// Reason is the reason of the entry, Ready, or the reason why the entry was removed.
	Reason  string
	Message string
	// Bad reports whether a user may have to act.
	Bad bool
}

// Changes returns the changes to report once after a status was written. Bad changes come first,
// and each group is sorted by cluster name. Intermediate states are left out, except for pods that
// cannot run, because those rarely recover by waiting.
func Changes(from rollout.Input, after v1alpha1.AppServiceStatus) []Change {
	in := report{Input: from}
	var changes []Change
	for i := range in.App.Status.Clusters {
		if entry := &in.App.Status.Clusters[i]; after.Cluster(entry.Name) == nil {
			changes = append(changes, in.entryRemoved(entry))
		}
	}
	for _, entry := range after.Clusters {
		previous := in.App.Status.Cluster(entry.Name)
		if entry.Phase == v1alpha1.ClusterProgressing && isPodFailure(entry.Reason) && (previous == nil || previous.Reason != entry.Reason) {
			changes = append(changes, Change{Cluster: entry.Name, Reason: entry.Reason, Message: in.fullMessage(entry), Bad: true})
			continue
		}
		if previous != nil && previous.Phase == entry.Phase {
			continue
		}
		switch entry.Phase {
		case v1alpha1.ClusterReady:
			changes = append(changes, Change{Cluster: entry.Name, Reason: v1alpha1.ReasonReady, Message: "the AppService is ready"})
		case v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached:
			changes = append(changes, Change{Cluster: entry.Name, Reason: entry.Reason, Message: in.fullMessage(entry), Bad: true})
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		if a.Bad != b.Bad && a.Bad {
			return -1
		} else if a.Bad != b.Bad {
			return 1
		}
		return cmp.Compare(a.Cluster, b.Cluster)
	})
	return changes
}

// fullMessage returns the message of a cluster status, even if the budget of the status dropped it.
func (in report) fullMessage(entry v1alpha1.ClusterStatus) string {
	if seen := in.ObservationOf(entry.Name); entry.Message == "" && seen != nil && seen.Reason == entry.Reason {
		return rollout.BoundMessage(seen.Message)
	}
	return cmp.Or(entry.Message, "the cluster status is "+string(entry.Phase))
}

// entryRemoved returns the change for an entry that is no longer in the status.
func (in report) entryRemoved(entry *v1alpha1.ClusterStatus) Change {
	seen := in.ObservationOf(entry.Name)
	detached, confirmed := entry.Phase == v1alpha1.ClusterDetached, seen != nil && rollout.ConfirmsRemoval(*seen, entry)
	member := in.Secretless[entry.Name]
	switch {
	case detached && member != nil && rollout.HasTombstone(member, in.App.UID):
		return Change{entry.Name, v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", true}
	case detached && !in.IsAbandoned(entry.Name):
		return Change{entry.Name, v1alpha1.ReasonClusterDetached, "the AppService was released; the workload on the cluster is left running", true}
	case !confirmed && (detached || in.IsOrphaning()):
		return Change{entry.Name, v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects stay there", true}
	case !confirmed:
		return Change{entry.Name, v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", true}
	case in.IsOrphaning():
		return Change{entry.Name, v1alpha1.ReasonOrphaned, "the workload is left running, without the labels and annotations of Fleetwright", false}
	}
	return Change{entry.Name, v1alpha1.ReasonRemoved, "the AppService was removed from the cluster", false}
}
