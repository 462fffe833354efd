package observation_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

const (
	uid        = "uid-1"
	generation = 2
)

var now = metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// seen returns an observation that answers two replicas of the current generation, with two ready
// pods.
func seen(phase v1alpha1.ClusterPhase, changes ...func(*observation.Observation)) observation.Observation {
	seen := observation.Observation{UID: uid, Generation: generation, Planned: 2, Phase: phase, Applied: generation, Replicas: 2, ReadyReplicas: 2}
	for _, change := range changes {
		change(&seen)
	}
	return seen
}

func saying(reason, message string) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Reason, seen.Message = reason, message }
}

func counting(pods, ready int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Replicas, seen.ReadyReplicas = pods, ready }
}
