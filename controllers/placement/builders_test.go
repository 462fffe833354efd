package placement_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// Builders for the tests of taints, limits and replicas.

// decideCase is the input of Decide and the expected plan.
type decideCase struct {
	app     *v1alpha1.AppService
	members []v1alpha1.MemberCluster
	want    placement.Plan
}

func runCases(t *testing.T, cases map[string]decideCase) {
	t.Helper()
	for name, q := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := placement.Decide(q.app, q.members)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(q.want, got, withoutDetails); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// withoutDetails ignores the fields that have tests of their own.
var withoutDetails = cmpopts.IgnoreFields(placement.Decision{}, "Requirement", "Weight")

func autoscaled(cluster string, replicas, least, most int32) placement.Decision {
	return placement.Decision{Cluster: cluster, Replicas: replicas, MinReplicas: least, MaxReplicas: most}
}

func tolerating(t ...v1alpha1.Toleration) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { placementOf(app).Tolerations = t }
}

func limited(n int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { placementOf(app).Limit = &n }
}

func spread(key string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { placementOf(app).SpreadKey = key }
}

// divided sets a policy by which the clusters run n replicas together.
func divided(n int32, rules ...v1alpha1.ReplicaRule) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Spec.Replicas = &n
		app.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided, Rules: rules}
	}
}

func byAllocatable(app *v1alpha1.AppService) {
	app.Spec.ReplicaPolicy.Weights = v1alpha1.WeightsAllocatable
}

func autoscaling(least, most int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: &least, MaxReplicas: most}
	}
}

// rule returns a rule for one cluster, or for all clusters if the name is "".
func rule(cluster string, changes ...func(*v1alpha1.ReplicaRule)) v1alpha1.ReplicaRule {
	r := v1alpha1.ReplicaRule{Name: "for-" + cluster}
	if cluster != "" {
		r.ClusterNames = []string{cluster}
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func weight(n int32) func(*v1alpha1.ReplicaRule) {
	return func(r *v1alpha1.ReplicaRule) { r.Weight = &n }
}

func atLeast(n int32) func(*v1alpha1.ReplicaRule) {
	return func(r *v1alpha1.ReplicaRule) { r.MinReplicas = &n }
}

func atMost(n int32) func(*v1alpha1.ReplicaRule) {
	return func(r *v1alpha1.ReplicaRule) { r.MaxReplicas = &n }
}

// overriding sets the replicas of the named clusters, or of all clusters without names.
func overriding(n int32, clusters ...string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Spec.Overrides = append(app.Spec.Overrides, v1alpha1.Override{
			Name:         fmt.Sprintf("override-%d", len(app.Spec.Overrides)),
			ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: clusters},
			Replicas:     &n,
		})
	}
}

// withEntry adds an entry of a cluster that runs this number of replicas.
func withEntry(cluster string, replicas int32, changes ...func(*v1alpha1.ClusterStatus)) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		entry := v1alpha1.ClusterStatus{Name: cluster, Phase: v1alpha1.ClusterReady, Replicas: replicas}
		for _, change := range changes {
			change(&entry)
		}
		app.Status.Clusters = append(app.Status.Clusters, entry)
		app.Status.SortClusters()
	}
}

func withBounds(least, most int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.MinReplicas, entry.MaxReplicas = least, most }
}

func removing(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason = v1alpha1.ClusterRemoving, v1alpha1.ReasonRemoving
}

func removalPending(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Transition = v1alpha1.ClusterProgressing, v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseEdit}
}

// unknown changes an entry to that of a cluster that cannot be observed.
func unknown(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason = v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable
}

// surging changes an entry to that of a new cluster that has not applied the AppService yet.
func surging(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Surging = v1alpha1.ClusterPending, true
}

func removalNeedsApproval(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Transition = v1alpha1.ClusterFailed, v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalNeedsApproval, Cause: v1alpha1.CauseClustersChanged}
}

func detached(entry *v1alpha1.ClusterStatus) {
	entry.Phase, entry.Reason = v1alpha1.ClusterDetached, v1alpha1.ReasonClusterDetached
}

func noSchedule(key string) func(*v1alpha1.MemberCluster) {
	return tainted(v1alpha1.Taint{Key: key, Effect: v1alpha1.TaintNoSchedule})
}

func noExecute(key string) func(*v1alpha1.MemberCluster) {
	return tainted(v1alpha1.Taint{Key: key, Effect: v1alpha1.TaintNoExecute})
}

func tainted(taint v1alpha1.Taint) func(*v1alpha1.MemberCluster) {
	return func(member *v1alpha1.MemberCluster) { member.Spec.Taints = append(member.Spec.Taints, taint) }
}

func cpu(quantity string) func(*v1alpha1.MemberCluster) {
	return func(member *v1alpha1.MemberCluster) {
		member.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(quantity)}
	}
}
