package status

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// scaleReplicas returns the number of pods on the clusters of the plan, in the unit of
// spec.replicas. If the clusters divide the replicas, it is the sum over all clusters. Otherwise it
// is the mean per cluster, rounded up.
func scaleReplicas(app *v1alpha1.AppService, entries []v1alpha1.ClusterStatus) int32 {
	var pods, clusters int32
	for _, entry := range entries {
		if entryplan.IsPlanned(entry) {
			pods = addSaturating(pods, entry.CurrentReplicas())
			clusters++
		}
	}
	if app.DividesReplicas() || clusters == 0 {
		return pods
	}
	return pods/clusters + min(1, pods%clusters)
}
