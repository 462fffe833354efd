package status

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// Change is a change of one or more clusters that is reported to users once.
type Change struct {
	Clusters []string
	// Reason is the reason of the entry, Ready, or the reason why the entry was removed.
	Reason  string
	Message string
	// Bad reports whether a user may have to act.
	Bad bool
}

// Changes returns the changes to report once after a status was written. Bad changes come first,
// and each group is sorted by cluster name. Intermediate states are left out. A change of the reason
// alone is reported if pods cannot run any more, or for another reason than before, because they
// rarely recover by waiting.
//
// A deletion removes the AppService from many clusters: those that leave the status for the same
// reason are one change. Each of them leaves once, so that later changes differ from earlier ones.
func Changes(from rollout.Input, after v1alpha1.AppServiceStatus) []Change {
	in := report{Input: from}
	var changes []Change
	for i := range in.App.Status.Clusters {
		if entry := &in.App.Status.Clusters[i]; after.Cluster(entry.Name) == nil {
			changes = append(changes, in.entryRemoved(entry))
		}
	}
	if in.IsDeleting() {
		changes = joinEqual(changes)
	}
	for _, entry := range after.Clusters {
		previous := in.App.Status.Cluster(entry.Name)
		switch {
		case v1alpha1.IsPodFailure(entry.Reason) && (previous == nil || previous.Reason != entry.Reason):
			changes = append(changes, in.failureBegins(entry))
		case previous != nil && previous.Phase == entry.Phase:
		case entry.Phase == v1alpha1.ClusterReady:
			changes = append(changes, Change{Clusters: []string{entry.Name}, Reason: v1alpha1.ReasonReady, Message: "the AppService is ready"})
		case slices.Contains([]v1alpha1.ClusterPhase{v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached}, entry.Phase):
			changes = append(changes, in.failureBegins(entry))
		}
	}
	slices.SortStableFunc(changes, func(a, b Change) int {
		if a.Bad != b.Bad && a.Bad {
			return -1
		} else if a.Bad != b.Bad {
			return 1
		}
		return cmp.Compare(a.Clusters[0], b.Clusters[0])
	})
	return changes
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

// failureBegins returns the change for an entry that begins to describe a failure.
func (in report) failureBegins(entry v1alpha1.ClusterStatus) Change {
	return Change{Clusters: []string{entry.Name}, Reason: entry.Reason, Message: in.fullMessage(entry), Bad: true}
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
		return Change{[]string{entry.Name}, v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", true}
	case detached && !in.IsAbandoned(entry.Name):
		return Change{[]string{entry.Name}, v1alpha1.ReasonClusterDetached, "the AppService was released; the workload on the cluster is left running", true}
	case !confirmed && (detached || in.IsOrphaning()):
		return Change{[]string{entry.Name}, v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects stay there", true}
	case !confirmed:
		return Change{[]string{entry.Name}, v1alpha1.ReasonAbandoned, "the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again", true}
	case in.IsOrphaning():
		return Change{[]string{entry.Name}, v1alpha1.ReasonOrphaned, "the workload is left running, without the labels and annotations of Fleetwright", false}
	}
	return Change{[]string{entry.Name}, v1alpha1.ReasonRemoved, "the AppService was removed from the cluster", false}
}
