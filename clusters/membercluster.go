package clusters

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// statusOf returns the status of a MemberCluster, given the one that it has and what is known of the member. What
// is not known yet stays as it is, so that a restart changes nothing by itself.
func statusOf(mc *v1alpha1.MemberCluster, secret *corev1.Secret, known snapshot) v1alpha1.MemberClusterStatus {
	status := *mc.Status.DeepCopy()
	status.ObservedGeneration = mc.Generation
	status.SecretRef = &v1alpha1.SecretReference{Namespace: secret.Namespace, Name: secret.Name}
	if known.facts.id != "" {
		status.ID, status.Version = known.facts.id, known.facts.version
	}
	set := func(kind string, v, unknown verdict) {
		previous := meta.FindStatusCondition(status.Conditions, kind)
		switch {
		case v.status == "" && previous == nil:
			v = unknown
		case v.status == "":
			v = verdict{previous.Status, previous.Reason, previous.Message}
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: v.status, Reason: v.reason, Message: v.message, ObservedGeneration: mc.Generation,
		})
	}
	set(v1alpha1.ConditionReady, known.ready, verdict{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "the first connection is being made"})
	set(v1alpha1.ConditionCredentialsValid, known.credentials, verdict{metav1.ConditionUnknown, v1alpha1.ReasonNotTried, "the kubeconfig has not been tried yet"})
	return status
}

// holdsLabels tells whether a MemberCluster has the labels of its Secret, and none that it had from it before.
// Labels that others have set are theirs.
func holdsLabels(mc *v1alpha1.MemberCluster, want map[string]string) bool {
	for key, value := range want {
		if has, found := mc.Labels[key]; !found || has != value {
			return false
		}
	}
	return slices.Equal(slices.Sorted(maps.Keys(want)), appliedLabels(mc))
}

// appliedLabels are the keys, sorted, of the labels that the API server knows to be ours.
func appliedLabels(mc *v1alpha1.MemberCluster) []string {
	var keys []string
	for _, entry := range mc.ManagedFields {
		if entry.Manager != v1alpha1.ManagedBy || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue // not ours to mend: applying again writes it anew
		}
		fields.Iterate(func(path fieldpath.Path) {
			if len(path) == 3 && path[:2].Equals(fieldpath.MakePathOrDie("metadata", "labels")) {
				keys = append(keys, *path[2].FieldName)
			}
		})
	}
	slices.Sort(keys)
	return keys
}
