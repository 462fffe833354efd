package rollup

import (
	"cmp"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Change is something that became of a cluster, which people are told once.
type Change struct {
	Cluster string
	// Reason is that of the row, Ready, or why there is no row any more.
	Reason  string
	Message string
	// Bad tells whether somebody may have to do something.
	Bad bool
}

// Changes returns what the status says that the one before did not: what is bad first, and then by name. The way
// from one state to another is not told, except for pods that cannot run: they rarely get well by waiting.
func (in Input) Changes(after v1alpha1.AppServiceStatus) []Change {
	var changes []Change
	for i := range in.App.Status.Clusters {
		if row := &in.App.Status.Clusters[i]; after.Cluster(row.Name) == nil {
			changes = append(changes, in.ended(row))
		}
	}
	for _, row := range after.Clusters {
		previous := in.App.Status.Cluster(row.Name)
		if row.Phase == v1alpha1.ClusterProgressing && isPodFailure(row.Reason) && (previous == nil || previous.Reason != row.Reason) {
			changes = append(changes, Change{Cluster: row.Name, Reason: row.Reason, Message: in.fullMessage(row), Bad: true})
			continue
		}
		if previous != nil && previous.Phase == row.Phase {
			continue
		}
		switch row.Phase {
		case v1alpha1.ClusterReady:
			changes = append(changes, Change{Cluster: row.Name, Reason: v1alpha1.ReasonReady, Message: "it is ready"})
		case v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached:
			changes = append(changes, Change{Cluster: row.Name, Reason: row.Reason, Message: in.fullMessage(row), Bad: true})
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

// fullMessage returns the message of a cluster status, also when it exceeds the budget of the status.
func (in Input) fullMessage(row v1alpha1.ClusterStatus) string {
	if seen := in.observation(row.Name); row.Message == "" && seen != nil && seen.Reason == row.Reason {
		return bounded(seen.Message)
	}
	return cmp.Or(row.Message, "it is "+string(row.Phase))
}

// ended is the change of a row that is no more.
func (in Input) ended(row *v1alpha1.ClusterStatus) Change {
	seen := in.observation(row.Name)
	detached, confirmed := row.Phase == v1alpha1.ClusterDetached, seen != nil && answers(*seen, row)
	member := in.Secretless[row.Name]
	switch {
	case detached && member != nil && remembers(member, in.App.UID):
		return Change{row.Name, v1alpha1.ReasonAbandoned, "it was let go of; what is left there is removed when it can be reached", true}
	case detached && !in.abandons(row.Name):
		return Change{row.Name, v1alpha1.ReasonClusterDetached, "it was let go of; its workload is left running", true}
	case !confirmed && (detached || in.orphans()):
		return Change{row.Name, v1alpha1.ReasonAbandoned, "it was let go of; what is left there stays", true}
	case !confirmed:
		return Change{row.Name, v1alpha1.ReasonAbandoned, "it was let go of; what is left there is removed when it can be reached", true}
	case in.orphans():
		return Change{row.Name, v1alpha1.ReasonOrphaned, "its workload is left running, without our marks", false}
	}
	return Change{row.Name, v1alpha1.ReasonRemoved, "nothing is left there", false}
}
