package rollouttest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// Found is the observation that delivery reports for objects without an entry.
var Found = observation.Observation{UID: UID, Found: true}

// Observation returns an observation that answers two replicas of the current generation, with two
// ready pods.
func Observation(phase v1alpha1.ClusterPhase, changes ...func(*observation.Observation)) observation.Observation {
	seen := observation.Observation{UID: UID, Generation: Generation, Planned: 2, Phase: phase, Applied: Generation, Replicas: 2, ReadyReplicas: 2}
	for _, change := range changes {
		change(&seen)
	}
	return seen
}

// Reporting sets the reason and the message of an observation.
func Reporting(reason, message string) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Reason, seen.Message = reason, message }
}

// Counting sets the observed number of pods and of ready pods.
func Counting(pods, ready int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Replicas, seen.ReadyReplicas = pods, ready }
}

// CountingAvailable sets the observed number of available pods, which is less than that of ready ones.
func CountingAvailable(available int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.AvailableReplicas = &available }
}

// Answering sets the generation that an observation answers.
func Answering(generation int64) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Generation, seen.Applied = generation, generation }
}

// AnsweringRevision sets the revision that an observation answers.
func AnsweringRevision(number int64) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Revision = number }
}

// AnsweringReplicas sets the number of replicas that an observation answers.
func AnsweringReplicas(n int32) func(*observation.Observation) {
	return func(seen *observation.Observation) { seen.Planned = n }
}

// OfAnotherUID makes an observation belong to another AppService of the same name.
func OfAnotherUID(seen *observation.Observation) { seen.UID = "uid-2" }

// GoneSince makes an observation confirm that no object is left, in answer to the Removing entry
// with this transition time.
func GoneSince(t metav1.Time) func(*observation.Observation) {
	return func(seen *observation.Observation) {
		seen.Applied, seen.Replicas, seen.ReadyReplicas, seen.AvailableReplicas, seen.GoneSince = 0, 0, 0, nil, t
	}
}
