package removal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// Input is what scale-downs and removals depend on, apart from the entry plans.
type Input struct {
	// App is the AppService with its current status. It has the counters of removals, and the
	// annotations by which a user approves removals.
	App *v1alpha1.AppService
	// Plan is the placement decision for each cluster.
	Plan placement.Plan
	// HasPlan is set if there is a placement decision. Without one, nothing starts.
	HasPlan bool
	// HasRevision is set if the spec has a revision. Clusters without one wait for their turn then.
	HasRevision bool
	// Members are the MemberClusters that have a Secret, by name.
	Members map[string]*v1alpha1.MemberCluster
	// Abandoned are the clusters that the annotation abandons.
	Abandoned map[string]bool
	// Now is the time of the decision.
	Now metav1.Time
}

// Outcome is the result of Decide.
type Outcome struct {
	// Removals is the next value of the removal counters.
	Removals v1alpha1.RemovalsStatus
	// Notes explain to users which scale-downs and removals are pending, for all clusters together.
	Notes []string
}

// Decide starts scale-downs and removals as far as the replicas elsewhere and the policies allow, and
// explains on the entries of the others what they wait for. The plans must be sorted by name.
func Decide(in Input, plans []entryplan.Plan) Outcome {
	limit := &brake{in: in, counted: newCounters(in.App, in.Now)}
	notes := in.scaleDown(plans, limit)
	notes = append(notes, in.remove(plans, limit)...)
	return Outcome{Removals: limit.counted.RemovalsStatus, Notes: notes}
}
