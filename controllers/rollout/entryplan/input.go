package entryplan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// Input is what the entry of a cluster depends on, apart from other clusters.
type Input struct {
	// App is the AppService with its current status.
	App *v1alpha1.AppService
	// Plan is the placement decision for each cluster.
	Plan placement.Plan
	// HasPlan is set if there is a placement decision. Otherwise every entry keeps its planned state.
	HasPlan bool
	// Revision is the number of the revision of the spec, or 0.
	Revision int64
	// IsRecovering is set if the status was lost, and it is not decided yet which revision is stable.
	IsRecovering bool
	// Members are the MemberClusters that have a Secret, by name, and Secretless are the others.
	Members, Secretless map[string]*v1alpha1.MemberCluster
	// Observations are the observations of the AppService since the operator started, by cluster.
	Observations map[string]observation.Observation
	// Abandoned are the clusters that the annotation abandons: see Abandoned.
	Abandoned map[string]bool
	// Now is the time of the decision.
	Now metav1.Time
}

// observationOf returns the observation of a cluster, or nil if there is none for this AppService.
func (in *Input) observationOf(cluster string) *observation.Observation {
	return ObservationOf(in.App, in.Observations, cluster)
}

// ObservationOf returns the observation of a cluster, or nil if there is none for this AppService.
func ObservationOf(app *v1alpha1.AppService, observations map[string]observation.Observation, cluster string) *observation.Observation {
	seen, found := observations[cluster]
	if !found || seen.UID != app.UID {
		return nil
	}
	return &seen
}
