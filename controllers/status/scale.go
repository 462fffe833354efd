package status

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// scaleReplicas returns how many pods there are on the clusters of the plan, in the unit of spec.replicas: together where they divide
// the replicas, otherwise on one of them, which is the mean, rounded up.
func (in report) scaleReplicas(entries []v1alpha1.ClusterStatus) int32 {
	var pods, clusters int32
	for _, entry := range entries {
		if rollout.IsPlanned(entry) {
			pods = addSaturating(pods, entry.CurrentReplicas())
			clusters++
		}
	}
	if in.IsDivided() || clusters == 0 {
		return pods
	}
	return pods/clusters + min(1, pods%clusters)
}
