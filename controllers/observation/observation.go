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

// Observation is what was observed of one AppService on one member. The zero value contains no
// information.
type Observation struct {
	// UID is the UID of the AppService that was observed.
	UID types.UID
	// Generation is the generation of the entry that the observation answers. Of an answer to an
	// older entry, only the counts apply to the current entry.
	Generation int64
	// Revision is the Revision field of the entry that the observation answers, because a rollout
	// changes the revision without a new generation. Of objects that were found without an entry,
	// it is the revision that the Deployment was last applied for; 0 if that is not known.
	Revision int64
	// StampedRevision is the revision that the Deployment was last applied for, if it is another one:
	// the member does not have the revision of the entry yet, or a restore of the hub has taken back
	// the entry. Otherwise it is 0.
	StampedRevision int64
	// Planned is the Replicas field of the entry that the observation answers, because a division
	// changes the replicas without a new generation.
	Planned int32
	// Phase is Progressing, Ready or Failed, or Removing for an entry that is being removed.
	Phase v1alpha1.ClusterPhase
	// Reason and Message are copied to the entry. They are empty for Ready.
	Reason, Message string
	// Container is the container that Reason is about, or "". An event about another container is another
	// event.
	Container string
	// PodsUnlisted is set if the Deployment is not ready, and its pods were not listed yet. What an entry
	// says about pods of the same generation stays until then.
	PodsUnlisted bool
	// Applied is the newest generation that the member has applied, or 0.
	Applied int64
	// Replicas and ReadyReplicas are the pod counts in the status of the member's Deployment.
	Replicas, ReadyReplicas int32
	// AvailableReplicas is the number of available pods there, or nil if it is ReadyReplicas.
	AvailableReplicas *int32
	// Addresses are the external addresses of the Service, sorted, at most eight.
	Addresses []string
	// Configuration are the serials of the InPlace copies that the member has, sorted by kind and
	// name. It is empty without any.
	Configuration []ConfigurationSerial
	// GoneSince is set if no object is left on the member. It is the LastTransitionTime of the
	// Removing entry that the observation answers.
	GoneSince metav1.Time
	// Placement is the highest number of a placement that the objects were applied for; 0 if they
	// have none.
	Placement int64
	// Look identifies since when the process that made the observation knows the hub. An observation
	// of another look may be older than a restore of the hub.
	Look Look
	// Missing is set if the Deployment is missing at the first look. It is not created before the entry
	// names the look.
	Missing bool
	// IsTakenBack is set if a restore of the hub has taken back the revision of the entry: the Deployment
	// was applied for StampedRevision later, as it was found at the first look. It is not changed before
	// the entry has that revision or names the look.
	IsTakenBack bool
	// HubBehind is set if objects on the member are ahead of the hub.
	HubBehind *v1alpha1.HubBehind
	// Found is set if objects of the AppService were found on a member without an entry for it.
	// Then Planned is the number of replicas in the spec of the Deployment.
	Found bool
}

// Look is the time since which a process knows the hub: since its start, or since the hub was
// restored.
type Look struct {
	ID    string
	Since metav1.Time
}

// ConfigurationSerial is the content that an InPlace copy has on a member.
type ConfigurationSerial struct {
	// Kind is ConfigMap or Secret.
	Kind v1alpha1.ConfigurationKind
	// Copy is the name of the copy on the member.
	Copy string
	// Serial is the serial of its content.
	Serial int64
}

// Same reports whether two observations are equal.
func (o Observation) Same(other Observation) bool {
	slicesAreEqual := slices.Equal(o.Addresses, other.Addresses) && slices.Equal(o.Configuration, other.Configuration)
	o.Addresses, other.Addresses = nil, nil
	o.Configuration, other.Configuration = nil, nil
	return slicesAreEqual && reflect.DeepEqual(o, other)
}

// maxPods is more than a cluster can have. It keeps the sums over all clusters within the limits of
// the schema. Without it, one member that reports false counts would cause the API server to reject
// the status of all clusters.
const maxPods = 1_000_000

// WithCounts returns the observation with the pod counts that a member reports for its Deployment. An
// available pod is ready, so there are at most as many available pods as ready ones.
func (o Observation) WithCounts(deployment *appsv1.Deployment) Observation {
	o.Replicas = min(max(0, deployment.Status.Replicas), maxPods)
	o.ReadyReplicas = min(max(0, deployment.Status.ReadyReplicas), maxPods)
	o.AvailableReplicas = nil
	if available := max(0, deployment.Status.AvailableReplicas); available < o.ReadyReplicas {
		o.AvailableReplicas = &available
	}
	return o
}

// WithDeployment returns the observation with the counts of a member's Deployment and its phase,
// which kstatus computes.
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
			o.Message = cmp.Or(condition.Message, o.Message) // prefer the Deployment's own message
		}
	default:
		o.Phase, o.Reason, o.Message = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, result.Message
	}
	return o, nil
}
