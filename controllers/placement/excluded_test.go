package placement_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

func TestDecide_reports_the_requirement_that_a_cluster_does_not_meet(t *testing.T) {
	selecting := func() *v1alpha1.AppService {
		return app(selected(v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "eu"}, MatchExpressions: expression("tier", metav1.LabelSelectorOpIn, "prod", "test").MatchExpressions}))
	}
	long := strings.Repeat("x", 63)
	valued := tainted(v1alpha1.Taint{Key: "gpu", Value: "a100", Effect: v1alpha1.TaintNoExecute})
	tests := map[string]struct {
		app    *v1alpha1.AppService
		member v1alpha1.MemberCluster
		want   string
	}{
		"one of two requirements":        {selecting(), member("a", label("region", "eu")), "tier in (prod,test)"},
		"both":                           {selecting(), member("a"), "region=eu,tier in (prod,test)"},
		"a taint":                        {app(), member("a", noSchedule("gpu")), "gpu:NoSchedule"},
		"a taint with a value":           {app(), member("a", valued), "gpu=a100:NoExecute"},
		"a taint beside a tolerated one": {app(tolerating(v1alpha1.Toleration{Key: "gpu", Operator: v1alpha1.TolerationExists})), member("a", valued, noExecute("spot")), "spot:NoExecute"},
		"the limit":                      {app(limited(1), withEntry("b", 1)), member("a"), "limit=1"},
		"a reason without a requirement": {app(), member("a", unschedulable), ""},
		"a long requirement is cut":      {app(selected(v1alpha1.ClusterSelector{MatchLabels: map[string]string{"a": long, "b": long, "c": long, "d": long}})), member("a"), strings.Join([]string{"a=" + long, "b=" + long, "c=" + long}, ",") + ",d…"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan, err := placement.Decide(test.app, members(test.member, member("b")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, plan.Find("a").Requirement); diff != "" {
				t.Errorf("requirement (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_Excluded_has_the_most_frequent_requirements(t *testing.T) {
	lacks := func(cluster, requirement string) placement.Decision {
		return placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonSelectorMismatch, Requirement: requirement}
	}
	plan := placement.Plan{lacks("a", "z=1"), lacks("b", "y=1"), lacks("c", "x=1"), lacks("d", "w=1"), lacks("e", "z=1"), chosen("f", 1)}
	want := []v1alpha1.ExcludedClusters{{
		Reason: v1alpha1.ReasonSelectorMismatch, Count: 5, Examples: []string{"a", "b", "c"}, Requirements: []string{"z=1", "w=1", "x=1"},
	}}
	if diff := cmp.Diff(want, plan.Excluded()); diff != "" {
		t.Errorf("excluded (-want +got):\n%s", diff)
	}
}

// Adding or removing a node moves no replicas while the CPU changes by less than a tenth.
func TestDecide_keeps_shares_while_capacities_change_by_less_than_a_tenth(t *testing.T) {
	weighing := func(n int64) func(*v1alpha1.ClusterStatus) {
		return func(entry *v1alpha1.ClusterStatus) { entry.Weight = n }
	}
	tests := map[string]struct {
		cpu  string
		want placement.Plan
	}{
		"the same":            {"100", placement.Plan{weighed("a", 500, 100_000), weighed("b", 500, 100_000)}},
		"almost a tenth more": {"109900m", placement.Plan{weighed("a", 500, 100_000), weighed("b", 500, 100_000)}},
		"almost a tenth less": {"90100m", placement.Plan{weighed("a", 500, 100_000), weighed("b", 500, 100_000)}},
		"a tenth more":        {"110", placement.Plan{weighed("a", 523, 110_000), weighed("b", 477, 100_000)}},
		"a tenth less":        {"90", placement.Plan{weighed("a", 474, 90_000), weighed("b", 526, 100_000)}},
		"no longer known":     {"0", placement.Plan{weighed("a", 500, 100_000), weighed("b", 500, 100_000)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := app(divided(1000), byAllocatable, withEntry("a", 500, weighing(100_000)), withEntry("b", 500, weighing(100_000)))
			got, err := placement.Decide(app, members(member("a", cpu(test.cpu)), member("b", cpu("100"))))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func weighed(cluster string, replicas int32, weight int64) placement.Decision {
	return placement.Decision{Cluster: cluster, Replicas: replicas, Weight: weight}
}
