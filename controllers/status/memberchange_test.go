package status_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// After one member of a random fleet has changed, an AppService that the change does not affect has
// the status that planning it again would give it.
func TestMemberChange_affects_every_AppService_whose_status_changes(t *testing.T) {
	left := 0
	rapid.Check(t, func(t *rapid.T) {
		fleet := map[string]*v1alpha1.MemberCluster{}
		for i := range rapid.IntRange(1, 6).Draw(t, "clusters") {
			member := drawMember(t, fmt.Sprintf("member-%d", i))
			fleet[member.Name] = member
		}
		app := drawApp(t)
		seen := map[string]observation.Observation{}
		for i := range 3 { // the last status is at rest
			app.Status = computeOn(app, fleet, seen)
			for _, entry := range app.Status.Clusters {
				seen[entry.Name] = observation.Observation{
					UID: app.UID, Generation: entry.Generation, Planned: entry.Replicas, Applied: app.Generation, Phase: v1alpha1.ClusterReady,
					Replicas: entry.Replicas, ReadyReplicas: entry.Replicas,
				}
			}
			if i == 1 { // so that it may leave the plan, and keep its entry
				fleet["member-0"].Labels = map[string]string{"region": "us"}
			}
		}
		app.Status = computeOn(app, fleet, seen)
		for range 20 {
			if changeOne(t, app, fleet, seen) {
				left++
			}
		}
	})
	if left == 0 {
		t.Error("every change affects the AppService, so this test shows nothing")
	}
}

// changeOne changes one member of the fleet and reports whether that does not affect the AppService.
func changeOne(t *rapid.T, app *v1alpha1.AppService, fleet map[string]*v1alpha1.MemberCluster, seen map[string]observation.Observation) bool {
	name := fmt.Sprintf("member-%d", rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3, 4, 5, 6}).Draw(t, "changed"))
	before, after := fleet[name], drawMember(t, name)
	if before != nil && rapid.IntRange(0, 9).Draw(t, "comes or goes") > 0 {
		version := after
		after = before.DeepCopy()
		changeProperty(t, after, version)
	} else if before != nil {
		after = nil
	}
	if placement.NewMemberChange(before, after).Affects(app) {
		return false
	}
	changed := maps.Clone(fleet)
	delete(changed, name)
	if after != nil {
		changed[name] = after
	}
	if diff := cmp.Diff(app.Status, computeOn(app, changed, seen), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the status changes (-before +after):\n%s\nmember before: %+v\nafter: %+v", diff, before, after)
	}
	return true
}

func computeOn(app *v1alpha1.AppService, fleet map[string]*v1alpha1.MemberCluster, seen map[string]observation.Observation) v1alpha1.AppServiceStatus {
	in := rollout.Input{App: app, Members: map[string]*v1alpha1.MemberCluster{}, Secretless: map[string]*v1alpha1.MemberCluster{}, Observations: seen, Now: Now}
	var all []v1alpha1.MemberCluster
	for name, member := range fleet {
		all = append(all, *member)
		if member.HasSecret() {
			in.Members[name] = member
		} else {
			in.Secretless[name] = member
		}
	}
	in = in.Recover()
	in.Plan, in.PlanError = placement.Decide(in.App, all)
	return status.Compute(in, rollout.Plan(in))
}

// changeProperty changes one property of a member to that of another version.
func changeProperty(t *rapid.T, member, after *v1alpha1.MemberCluster) {
	switch rapid.IntRange(0, 6).Draw(t, "what changes") {
	case 0:
		member.Labels = after.Labels
	case 1:
		member.Spec = after.Spec
	case 2:
		member.Status.Conditions = after.Status.Conditions
	case 3:
		member.Status.Allocatable = after.Status.Allocatable
	case 4:
		member.Status.SecretMissingSince = after.Status.SecretMissingSince
	case 5:
		member.Status.Abandoned = after.Status.Abandoned
	default:
		member.DeletionTimestamp = &Now
	}
}

func drawMember(t *rapid.T, name string) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{}
	m.Name, m.UID = name, types.UID("uid-of-"+name)
	m.Labels = map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")}
	ready := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionFalse}).Draw(t, "ready")
	since := metav1.NewTime(Now.Add(-rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, time.Hour}).Draw(t, "since")))
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, LastTransitionTime: since}}
	m.Spec.Unschedulable = rapid.IntRange(0, 4).Draw(t, "unschedulable") == 0
	m.Spec.Taints = rapid.SampledFrom([][]v1alpha1.Taint{nil, nil, nil, {{Key: "drain", Effect: v1alpha1.TaintNoExecute}}, {{Key: "new", Effect: v1alpha1.TaintNoSchedule}}}).Draw(t, "taints")
	m.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(rapid.SampledFrom([]string{"4", "8", "16"}).Draw(t, "cpu"))}
	if rapid.IntRange(0, 5).Draw(t, "secretless") == 0 {
		m.Status.SecretMissingSince = &AnHourAgo
	}
	if rapid.IntRange(0, 5).Draw(t, "tombstone") == 0 {
		m.Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: "shop", Name: "web", UID: UID}}
	}
	return m
}

func drawApp(t *rapid.T) *v1alpha1.AppService {
	app := NewInput().App
	app.Spec.Replicas = new(rapid.Int32Range(0, 5).Draw(t, "replicas"))
	eu := &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "eu"}}
	bad := &v1alpha1.ClusterSelector{MatchExpressions: []v1alpha1.ClusterRequirement{{Key: "region", Operator: "Near"}}}
	app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{
		ClusterSelector: rapid.SampledFrom([]*v1alpha1.ClusterSelector{nil, eu, eu, bad}).Draw(t, "selector"),
		ClusterNames:    rapid.SampledFrom([][]string{nil, nil, {"member-0", "member-6"}}).Draw(t, "names"),
	}}
	app.Spec.Placement.Limit = rapid.SampledFrom([]*int32{nil, new(int32(1)), new(int32(2))}).Draw(t, "limit")
	app.Spec.ReplicaPolicy = rapid.SampledFrom([]*v1alpha1.ReplicaPolicy{
		nil, {Type: v1alpha1.ReplicasDivided}, {Type: v1alpha1.ReplicasDivided, Weights: v1alpha1.WeightsAllocatable},
	}).Draw(t, "policy")
	app.Spec.Overrides = rapid.SampledFrom([][]v1alpha1.Override{
		nil, {{Name: "eu", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: eu}, Replicas: new(int32(3))}},
	}).Draw(t, "overrides")
	if rapid.IntRange(0, 9).Draw(t, "deleting") == 0 {
		app.DeletionTimestamp, app.Finalizers = &AnHourAgo, []string{v1alpha1.Finalizer}
	}
	return app
}
