package status_test

import (
	"fmt"
	"maps"
	"slices"
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
		fleet := drawFleet(t)
		app := drawApp(t)
		seen := map[string]observation.Observation{}
		look := observation.Look{ID: "now", Since: Now}
		asksAbout := rapid.SampledFrom([]string{"", "member-1", "member-2"}).Draw(t, "missing on")
		for i := range 3 { // the last status is at rest
			app.Status = computeOn(app, fleet, seen)
			for _, entry := range app.Status.Clusters {
				seen[entry.Name] = observation.Observation{
					UID: app.UID, Generation: entry.Generation, Planned: entry.Replicas, Applied: app.Generation, Phase: v1alpha1.ClusterReady,
					Replicas: entry.Replicas, ReadyReplicas: entry.Replicas, Look: look, Missing: entry.Name == asksAbout,
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

// All plans share the members, and the AppService belongs to a cache.
func TestPlan_modifies_nothing_that_it_is_made_from(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fleet := drawFleet(t)
		app := drawApp(t)
		seen := map[string]observation.Observation{}
		for range 5 {
			name := rapid.SampledFrom(slices.Sorted(maps.Keys(fleet))).Draw(t, "changed")
			fleet[name] = drawMember(t, name)
			observed := drawObservation(t)
			observed.Found = rapid.IntRange(0, 4).Draw(t, "found") == 0
			seen[name] = observed
			given, members, reported := app.DeepCopy(), map[string]*v1alpha1.MemberCluster{}, maps.Clone(seen)
			for name, member := range fleet {
				members[name] = member.DeepCopy()
			}
			next := computeOn(app, fleet, seen)
			if diff := cmp.Diff([]any{given, members, reported}, []any{app, fleet, seen}, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("the plan modified its input (-before +after):\n%s", diff)
			}
			app = app.DeepCopy()
			app.Status = next
			if rapid.Bool().Draw(t, "is edited") {
				app.Generation++
				app.Spec.Placement = drawApp(t).Spec.Placement
			}
		}
	})
}

// changeOne changes one member of the fleet and reports whether that does not affect the
// AppService.
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
	if placement.NewMemberChange(before, after).Affects(app, app.Status.Cluster(name) != nil) {
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

func drawFleet(t *rapid.T) map[string]*v1alpha1.MemberCluster {
	fleet := map[string]*v1alpha1.MemberCluster{}
	for i := range rapid.IntRange(1, 6).Draw(t, "clusters") {
		member := drawMember(t, fmt.Sprintf("member-%d", i))
		fleet[member.Name] = member
	}
	return fleet
}

func drawMember(t *rapid.T, name string) *v1alpha1.MemberCluster {
	m := &v1alpha1.MemberCluster{}
	m.Name, m.UID = name, types.UID("uid-of-"+name)
	m.Labels = map[string]string{"region": rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")}
	ready := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionFalse}).Draw(t, "ready")
	since := metav1.NewTime(Now.Add(-rapid.SampledFrom([]time.Duration{0, 5 * time.Minute, time.Hour}).Draw(t, "since")))
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, LastTransitionTime: since}}
	if rapid.IntRange(0, 5).Draw(t, "never observed") == 0 {
		m.Status.Conditions = nil
	}
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
		{Type: v1alpha1.ReplicasDivided, Rules: []v1alpha1.ReplicaRule{{Name: "all", MaxReplicas: new(int32(1))}}}, // more replicas wait for candidates
	}).Draw(t, "policy")
	app.Spec.Overrides = rapid.SampledFrom([][]v1alpha1.Override{
		nil, {{Name: "eu", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: eu}, Replicas: new(int32(3))}},
	}).Draw(t, "overrides")
	if rapid.IntRange(0, 9).Draw(t, "deleting") == 0 {
		app.DeletionTimestamp, app.Finalizers = &AnHourAgo, []string{v1alpha1.Finalizer}
	}
	return app
}

// BenchmarkMemberChange measures the work after one of 10,000 members has become not Ready, with
// 1,000 AppServices of which each runs on 50 members.
func BenchmarkMemberChange(b *testing.B) {
	const cells, perCell, apps = 200, 50, 1000
	fleet := make([]v1alpha1.MemberCluster, 0, cells*perCell)
	members := map[string]*v1alpha1.MemberCluster{}
	for i := range cells * perCell {
		m := v1alpha1.MemberCluster{}
		m.Name, m.Labels = fmt.Sprintf("member-%05d", i), map[string]string{"cell": fmt.Sprint(i % cells)}
		m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, LastTransitionTime: AnHourAgo}}
		fleet = append(fleet, m)
	}
	for i := range fleet {
		members[fleet[i].Name] = &fleet[i]
	}
	plan := func(app *v1alpha1.AppService) v1alpha1.AppServiceStatus {
		in := rollout.Input{App: app, Members: members, Now: Now}.Recover()
		in.Plan, in.PlanError = placement.Decide(in.App, fleet)
		return status.Compute(in, rollout.Plan(in))
	}
	all := make([]*v1alpha1.AppService, apps)
	for i := range all {
		all[i] = NewInput().App
		all[i].Name = fmt.Sprintf("app-%d", i)
		all[i].Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{
			ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"cell": fmt.Sprint(i % cells)}},
		}}
		all[i].Status = plan(all[i])
	}
	before, after := fleet[7].DeepCopy(), fleet[7].DeepCopy()
	after.Status.Conditions[0].Status = metav1.ConditionFalse
	members[after.Name] = after
	for b.Loop() {
		change, planned := placement.NewMemberChange(before, after), 0
		for _, app := range all {
			if change.Affects(app, app.Status.Cluster(change.Cluster()) != nil) {
				plan(app)
				planned++
			}
		}
		if planned != apps/cells {
			b.Fatalf("%d AppServices are planned, want %d", planned, apps/cells)
		}
	}
}
