package clusters

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// statusOf returns the status of a MemberCluster from its previous status and the snapshot of the
// member. Values that are not known yet stay unchanged, so that a restart changes nothing by
// itself.
func statusOf(mc *v1alpha1.MemberCluster, known snapshot, now time.Time) v1alpha1.MemberClusterStatus {
	status := *mc.Status.DeepCopy()
	status.ObservedGeneration = mc.Generation
	status.SecretMissingSince = nil
	if known.info.id != "" {
		if known.info.allocatable != nil || known.info.id != status.ClusterID {
			status.Allocatable = known.info.allocatable
		}
		if known.info.version != "" || known.info.id != status.ClusterID {
			status.Version = known.info.version
		}
		status.ClusterID = known.info.id
		status.CredentialsExpirationTime = timeOrNil(known.expiry.End)
	}
	for _, c := range []struct {
		kind         string
		known, first conditionState
	}{
		{v1alpha1.ConditionReady, known.ready, conditionState{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "the hub is connecting to the member"}},
		{v1alpha1.ConditionCredentialsValid, known.credentialsAt(now), conditionState{metav1.ConditionUnknown, v1alpha1.ReasonNotVerified, "the kubeconfig is not verified yet"}},
		{v1alpha1.ConditionAllocatableKnown, known.info.nodesCondition, conditionState{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "the nodes have not been listed yet"}},
	} {
		if !mc.HasSecret() && c.known.status == "" && c.kind != v1alpha1.ConditionAllocatableKnown {
			c.known = c.first // the Secret is back, so what the conditions say about it is outdated
		}
		setCondition(&status.Conditions, mc.Generation, c.kind, c.known, c.first)
	}
	return status
}

// setCondition sets a condition to the known state. If no state is known, the condition stays
// unchanged, or gets the first state if it does not exist.
func setCondition(conditions *[]metav1.Condition, generation int64, kind string, known, first conditionState) {
	if previous := meta.FindStatusCondition(*conditions, kind); known.status == "" && previous != nil {
		known = conditionState{previous.Status, previous.Reason, previous.Message}
	} else if known.status == "" {
		known = first
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: kind, Status: known.status, Reason: known.reason, Message: known.message, ObservedGeneration: generation,
	})
}

// recheckAfter returns the time until the state of credentials changes without any other event, or
// 0 for never.
func recheckAfter(expires kubeconfig.Expiry, now time.Time) time.Duration {
	if expires.End.IsZero() {
		return 0
	}
	if now.Before(expires.Warning) {
		return expires.Warning.Sub(now) + time.Second
	}
	return max(0, expires.End.Sub(now)+time.Second)
}

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// hasSecretLabels reports whether a MemberCluster has the labels of its Secret, and no label that
// was removed from the Secret. It ignores labels of other field managers.
func hasSecretLabels(mc *v1alpha1.MemberCluster, want map[string]string) bool {
	for key, value := range want {
		if has, found := mc.Labels[key]; !found || has != value {
			return false
		}
	}
	return slices.Equal(slices.Sorted(maps.Keys(want)), appliedLabels(mc))
}

// appliedLabels returns the sorted keys of the labels that Fleetwright's field manager owns.
func appliedLabels(mc *v1alpha1.MemberCluster) []string {
	var keys []string
	for _, entry := range mc.ManagedFields {
		if entry.Manager != v1alpha1.ManagedBy || entry.Operation != metav1.ManagedFieldsOperationApply || entry.FieldsV1 == nil {
			continue
		}
		var fields fieldpath.Set
		if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			continue // the next apply writes it again
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
