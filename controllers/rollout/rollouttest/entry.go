package rollouttest

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Messages of entries of the cluster east that had two ready replicas.
const (
	MessageNotReady           = "MemberCluster east is not Ready; last known: Ready, 2 of 2 replicas ready"
	MessageSecretGone         = "the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"
	MessageUnreachableRemoval = "the removal continues when the cluster can be reached; see MemberCluster east" +
		"; to stop waiting: kubectl annotate appservice web -n shop fleetwright.dev/abandon=east"
)

// Entry returns the entry of a cluster that has run two replicas of the current generation for an
// hour.
func Entry(cluster string, phase v1alpha1.ClusterPhase, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	entry := v1alpha1.ClusterStatus{
		Name:               cluster,
		Phase:              phase,
		Generation:         Generation,
		Replicas:           2,
		ObservedGeneration: Generation,
		ReadyReplicas:      2,
		LastTransitionTime: AnHourAgo,
	}
	if phase == v1alpha1.ClusterUnknown || phase == v1alpha1.ClusterDetached {
		entry.LastKnownPhase = v1alpha1.ClusterReady
	}
	for _, change := range changes {
		change(&entry)
	}
	return entry
}

// OldEntry returns the entry of a cluster that runs the previous generation with three desired
// replicas.
func OldEntry(cluster string, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	return Entry(cluster, v1alpha1.ClusterReady, append([]func(*v1alpha1.ClusterStatus){Desired(1, 3), Applied(1)}, changes...)...)
}

// Desired sets the generation and the replicas that the cluster is to run.
func Desired(generation int64, replicas int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Generation, entry.Replicas = generation, replicas }
}

// DesiredRevision sets the revision that the cluster is to run.
func DesiredRevision(number int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Revision = number }
}

// Placed sets the number of the placement.
func Placed(number int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Placement = number }
}

// WithBounds sets the bounds of an autoscaler.
func WithBounds(least, most int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.MinReplicas, entry.MaxReplicas = least, most }
}

// Applied sets the generation that the cluster has applied.
func Applied(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.ObservedGeneration = generation }
}

// WithPods sets the number of pods and of ready pods.
func WithPods(pods, ready int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) {
		entry.ReadyReplicas, entry.UnreadyReplicas = ready, max(0, pods-ready)
	}
}

// WithAvailable sets the number of available pods, which is less than that of ready ones.
func WithAvailable(available int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.ObservedAvailableReplicas = &available }
}

// NeverObserved removes the observed state.
func NeverObserved(entry *v1alpha1.ClusterStatus) {
	Applied(0)(entry)
	WithPods(0, 0)(entry)
}

// Since sets the time of the last transition.
func Since(t metav1.Time) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.LastTransitionTime = t }
}

// FailedFor makes the entry Failed for this long.
func FailedFor(age time.Duration) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) {
		entry.Phase, entry.Reason, entry.LastTransitionTime = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, Ago(age)
	}
}

// LastKnown sets the last phase in which the cluster was observed.
func LastKnown(phase v1alpha1.ClusterPhase) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.LastKnownPhase = phase }
}

// WithReason sets the reason and the message.
func WithReason(reason, message string) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Reason, entry.Message = reason, message }
}

// Surging marks the entry as surging.
func Surging(entry *v1alpha1.ClusterStatus) { entry.Surging = true }

// WithTransition sets the transition.
func WithTransition(transition v1alpha1.TransitionType, cause v1alpha1.TransitionCause) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) {
		entry.Transition = v1alpha1.ClusterTransition{Type: transition, Cause: cause}
	}
}

// Approved marks the removal as approved by a user.
func Approved(entry *v1alpha1.ClusterStatus) { entry.Transition.Accepted = true }
