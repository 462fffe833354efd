package status

import (
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxWorst is the number of entries in status.worstClusters.
const maxWorst = 20

// worstOf returns the entries that need attention most, in order of severity and then of name.
// Entries that are Ready need none.
func worstOf(all []v1alpha1.ClusterStatus) []v1alpha1.ClusterStatus {
	var bad []v1alpha1.ClusterStatus
	for severity := range severityReady {
		for i := range all {
			if severityOf(&all[i]) != severity {
				continue
			}
			if bad = append(bad, all[i]); len(bad) == maxWorst {
				return bad
			}
		}
	}
	return bad
}

// severityReady is the severity of entries that need no attention. Lower numbers are worse.
const severityReady = 6

// severityOf returns how much attention an entry needs.
func severityOf(entry *v1alpha1.ClusterStatus) int {
	order := []v1alpha1.ClusterPhase{v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown, v1alpha1.ClusterDetached, v1alpha1.ClusterRemoving}
	switch i := slices.Index(order, entry.Phase); {
	case entry.HubBehind != nil:
		return 0
	case i >= 0:
		return i + 1
	case entry.Phase == v1alpha1.ClusterReady:
		return severityReady
	}
	return severityReady - 1
}
