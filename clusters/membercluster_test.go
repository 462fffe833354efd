package clusters

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

func TestStatusOf_keeps_what_is_not_known(t *testing.T) {
	var (
		long     = metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		now      = metav1.Time{} // stands for a transition during the test
		info1    = clusterInfo{id: "uid", version: "v1.36.3"}
		silent   = conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer: timed out"}
		refused  = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExecRefused, "no exec"}
		refused2 = conditionState{metav1.ConditionFalse, v1alpha1.ReasonFileRefused, "no file"}
	)
	status := func(generation int64, id clusterInfo, conditions ...metav1.Condition) v1alpha1.MemberClusterStatus {
		since := now
		for _, c := range conditions {
			if c.LastTransitionTime == long {
				since = long
			}
		}
		allocatable := metav1.Condition{Type: v1alpha1.ConditionAllocatableKnown, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonConnecting, Message: "the nodes have not been listed yet", ObservedGeneration: generation, LastTransitionTime: since}
		return v1alpha1.MemberClusterStatus{ObservedGeneration: generation, ClusterID: id.id, Version: id.version, Conditions: append(conditions, allocatable)}
	}
	ready := func(v conditionState, generation int64, since metav1.Time) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: v.status, Reason: v.reason, Message: v.message, ObservedGeneration: generation, LastTransitionTime: since}
	}
	credentials := func(v conditionState, generation int64, since metav1.Time) metav1.Condition {
		c := ready(v, generation, since)
		c.Type = v1alpha1.ConditionCredentialsValid
		return c
	}
	before := status(1, info1, ready(memberConnected, 1, long), credentials(credentialsAccepted, 1, long))
	tests := map[string]struct {
		before     v1alpha1.MemberClusterStatus
		generation int64
		known      snapshot
		want       v1alpha1.MemberClusterStatus
	}{
		"nothing is known": {
			v1alpha1.MemberClusterStatus{ObservedGeneration: -1}, 1, snapshot{},
			status(1, clusterInfo{},
				ready(conditionState{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "the hub is connecting to the member"}, 1, now),
				credentials(conditionState{metav1.ConditionUnknown, v1alpha1.ReasonNotVerified, "the kubeconfig is not verified yet"}, 1, now)),
		},
		"connected for the first time": {
			v1alpha1.MemberClusterStatus{ObservedGeneration: -1}, 1, snapshot{ready: memberConnected, credentials: credentialsAccepted, info: info1},
			status(1, info1, ready(memberConnected, 1, now), credentials(credentialsAccepted, 1, now)),
		},
		"rejected from the beginning": {
			v1alpha1.MemberClusterStatus{ObservedGeneration: -1}, 1, snapshot{credentials: refused},
			status(1, clusterInfo{},
				ready(conditionState{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "the hub is connecting to the member"}, 1, now),
				credentials(refused, 1, now)),
		},
		"after a restart":                 {before, 1, snapshot{}, before},
		"connected again after a restart": {before, 1, snapshot{ready: memberConnected, credentials: credentialsAccepted, info: info1}, before},
		"unreachable: the cluster info stays": {
			before, 1, snapshot{ready: silent, credentials: credentialsAccepted, info: clusterInfo{}},
			status(1, info1, ready(silent, 1, now), credentials(credentialsAccepted, 1, long)),
		},
		"a bad edit does not change Ready": {
			before, 1, snapshot{ready: memberConnected, credentials: refused, info: info1},
			status(1, info1, ready(memberConnected, 1, long), credentials(refused, 1, now)),
		},
		"rejected for another reason: the transition time stays": {
			status(1, info1, ready(memberConnected, 1, long), credentials(refused, 1, long)), 1, snapshot{ready: memberConnected, credentials: refused2, info: info1},
			status(1, info1, ready(memberConnected, 1, long), credentials(refused2, 1, long)),
		},
		"the Secret is back: the conditions are reset": {
			withoutSecret(before), 1, snapshot{},
			func() v1alpha1.MemberClusterStatus {
				s := status(1, info1,
					ready(conditionState{metav1.ConditionUnknown, v1alpha1.ReasonConnecting, "the hub is connecting to the member"}, 1, now),
					credentials(conditionState{metav1.ConditionUnknown, v1alpha1.ReasonNotVerified, "the kubeconfig is not verified yet"}, 1, now))
				s.Conditions[2].LastTransitionTime = long // does not concern the Secret
				return s
			}(),
		},
		"another version": {
			before, 1, snapshot{ready: memberConnected, credentials: credentialsAccepted, info: clusterInfo{id: "uid", version: "v1.37.0"}},
			status(1, clusterInfo{id: "uid", version: "v1.37.0"}, ready(memberConnected, 1, long), credentials(credentialsAccepted, 1, long)),
		},
		"a new generation": {
			before, 2, snapshot{},
			status(2, info1, ready(memberConnected, 2, long), credentials(credentialsAccepted, 2, long)),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Generation: test.generation}, Status: test.before}
			unchanged := mc.DeepCopy()
			got := statusOf(mc, test.known, time.Now())
			for i := range got.Conditions {
				if c := &got.Conditions[i]; time.Since(c.LastTransitionTime.Time) < time.Minute {
					c.LastTransitionTime = now
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(unchanged, mc); diff != "" {
				t.Errorf("the object of the cache was changed (-before +after)\n%s", diff)
			}
		})
	}
}

// withoutSecret returns the status of a member whose Secret is deleted.
func withoutSecret(status v1alpha1.MemberClusterStatus) v1alpha1.MemberClusterStatus {
	return statusWithoutSecret(&v1alpha1.MemberCluster{Status: status}, metav1.Now())
}

// A member that waits for an identity is reconciled when the MemberCluster that owns the identity
// changes.
func TestToSecrets_includes_members_that_wait_for_the_identity(t *testing.T) {
	waiting := &member{name: "new", secret: types.NamespacedName{Namespace: "fleet", Name: "new"}, shared: &sharedState{snapshot: snapshot{contestedID: "uid"}}}
	other := &member{name: "other", secret: types.NamespacedName{Namespace: "fleet", Name: "other"}, shared: &sharedState{snapshot: snapshot{contestedID: "another uid"}}}
	provider := &Provider{members: map[multicluster.ClusterName]*member{"new": waiting, "other": other}}
	r := &Reconciler{provider: provider, rules: kubeconfig.SecretRules{ourSecrets}}
	old := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "old", Annotations: map[string]string{v1alpha1.AnnotationSecret: "fleet/old"}}}
	old.Status.ClusterID = "uid"
	want := []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: "fleet", Name: "old"}},
		{NamespacedName: waiting.secret},
	}
	if diff := cmp.Diff(want, r.toSecrets(t.Context(), old)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestHoldsLabels_compares_only_labels_of_our_field_manager(t *testing.T) {
	const (
		apply  = metav1.ManagedFieldsOperationApply
		update = metav1.ManagedFieldsOperationUpdate
		zone   = `{"f:metadata":{"f:labels":{"f:topology.kubernetes.io/zone":{}}}}`
		both   = `{"f:metadata":{"f:labels":{".":{},"f:env":{},"f:topology.kubernetes.io/zone":{}}}}`
	)
	managed := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	type managers = []metav1.ManagedFieldsEntry
	east := map[string]string{"topology.kubernetes.io/zone": "east"}
	tests := map[string]struct {
		has  map[string]string
		by   managers
		want map[string]string
		is   bool
	}{
		"no labels, none wanted":         {is: true},
		"applied without labels":         {by: managers{managed(v1alpha1.ManagedBy, apply, `{}`)}, is: true},
		"all wanted labels":              {has: east, by: managers{managed(v1alpha1.ManagedBy, apply, zone)}, want: east, is: true},
		"a missing label":                {want: east},
		"another value":                  {has: map[string]string{"topology.kubernetes.io/zone": "west"}, by: managers{managed(v1alpha1.ManagedBy, apply, zone)}, want: east},
		"a label that is not wanted":     {has: map[string]string{"topology.kubernetes.io/zone": "east", "env": "prod"}, by: managers{managed(v1alpha1.ManagedBy, apply, both)}, want: east},
		"a label of another manager":     {has: east, by: managers{managed("kubectl-label", update, zone)}, want: east},
		"more labels of others":          {has: map[string]string{"topology.kubernetes.io/zone": "east", "env": "prod"}, by: managers{managed("kubectl-label", update, both), managed(v1alpha1.ManagedBy, apply, zone)}, want: east, is: true},
		"a label that we updated":        {has: east, by: managers{managed(v1alpha1.ManagedBy, update, zone)}, want: east},
		"managed fields that are broken": {has: east, by: managers{managed(v1alpha1.ManagedBy, apply, `{"x`)}, want: east},
		"an entry without fields":        {by: managers{{Manager: v1alpha1.ManagedBy, Operation: apply}}, is: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Labels: test.has, ManagedFields: test.by}}
			if got := hasSecretLabels(mc, test.want); got != test.is {
				t.Errorf("got %t", got)
			}
		})
	}
}

// The allocatable resources may divide replicas, so a lost permission must not move any replica.
func TestStatusOf_keeps_the_allocatable_resources(t *testing.T) {
	cpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	tests := map[string]struct {
		known clusterInfo
		want  corev1.ResourceList
	}{
		"that are known":     {clusterInfo{id: "a", allocatable: cpus("5")}, cpus("5")},
		"that are not known": {clusterInfo{id: "a"}, cpus("4")},
		"of another cluster": {clusterInfo{id: "b"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			mc := &v1alpha1.MemberCluster{Status: v1alpha1.MemberClusterStatus{ClusterID: "a", Allocatable: cpus("4")}}
			if diff := cmp.Diff(test.want, statusOf(mc, snapshot{info: test.known}, time.Now()).Allocatable); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
