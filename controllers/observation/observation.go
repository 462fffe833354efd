package observation

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Observation is what was seen of one AppService on one member. The zero value says nothing.
type Observation struct {
	// UID is that of the AppService it was made for.
	UID types.UID
	// Generation is that of the entry it answers. An answer to an older entry says nothing of the present one
	// but the counts.
	Generation int64
	// Planned is the Replicas of the entry it answers: a division changes them without a new generation.
	Planned int32
	// Phase is Progressing, Ready or Failed; or Removing, for an entry that is being removed.
	Phase v1alpha1.ClusterPhase
	// Reason and Message are those of the entry. Ready has none.
	Reason, Message string
	// Applied is the newest generation that the member has taken on, or 0.
	Applied int64
	// Replicas and ReadyReplicas are the pods that the member's Deployment counts.
	Replicas, ReadyReplicas int32
	// Addresses are where the Service is reached from outside, sorted, at most eight.
	Addresses []string
	// GoneSince is set when nothing is left on the member: it is the LastTransitionTime of the Removing entry
	// that this answers.
	GoneSince metav1.Time
	// HubBehind is set when objects of the member are ahead of the hub.
	HubBehind *v1alpha1.HubBehind
	// Found is set when objects of the AppService were found on a member that has no entry for it. Planned is then how many replicas the
	// Deployment asks for.
	Found bool
}

// Same reports whether two observations say the same.
func (o Observation) Same(other Observation) bool {
	addresses := slices.Equal(o.Addresses, other.Addresses)
	o.Addresses, other.Addresses = nil, nil
	return addresses && reflect.DeepEqual(o, other)
}

// maxPods is more than a cluster can have: with it, the sums over all clusters stay within what the schema takes. One that makes up more would
// have the status of all others refused.
const maxPods = 1_000_000

// WithCounts returns the observation with the pods that a member says its Deployment has.
func (o Observation) WithCounts(deployment *appsv1.Deployment) Observation {
	o.Replicas = min(max(0, deployment.Status.Replicas), maxPods)
	o.ReadyReplicas = min(max(0, deployment.Status.ReadyReplicas), maxPods)
	return o
}

// WithDeployment returns the observation with the counts and, as kstatus sees it, the phase of a member's
// Deployment.
func (o Observation) WithDeployment(deployment *appsv1.Deployment) (Observation, error) {
	o = o.WithCounts(deployment)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(deployment)
	if err != nil {
		return o, fmt.Errorf("read Deployment: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	result, err := status.Compute(object)
	if err != nil {
		return o, fmt.Errorf("compute the status of the Deployment: %w", err)
	}
	switch result.Status {
	case status.CurrentStatus:
		o.Phase, o.Reason, o.Message = v1alpha1.ClusterReady, "", ""
	case status.FailedStatus:
		o.Phase, o.Reason, o.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonRolloutFailed, result.Message
		for _, condition := range result.Conditions {
			o.Message = cmp.Or(condition.Message, o.Message) // the Deployment's own
		}
	default:
		o.Phase, o.Reason, o.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, result.Message
	}
	return o, nil
}
