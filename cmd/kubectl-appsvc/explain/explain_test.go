package explain_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// members returns a Ready cluster in eu, one in us, a cordoned one, one with a taint, one without a
// Secret, and one that is not Ready.
func members() []v1alpha1.MemberCluster {
	since := metav1.Now()
	fleet := []v1alpha1.MemberCluster{
		{ObjectMeta: metav1.ObjectMeta{Name: "berlin", Labels: map[string]string{"region": "eu"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "dallas", Labels: map[string]string{"region": "us"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "lyon", Labels: map[string]string{"region": "eu"}}, Spec: v1alpha1.MemberClusterSpec{Unschedulable: true}},
		{ObjectMeta: metav1.ObjectMeta{Name: "madrid", Labels: map[string]string{"region": "eu"}},
			Spec: v1alpha1.MemberClusterSpec{Taints: []v1alpha1.Taint{{Key: "gpu", Value: "true", Effect: v1alpha1.TaintNoSchedule}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "oslo", Labels: map[string]string{"region": "eu"}}, Status: v1alpha1.MemberClusterStatus{SecretMissingSince: &since}},
		{ObjectMeta: metav1.ObjectMeta{Name: "rome", Labels: map[string]string{"region": "eu"}}},
	}
	for i := range fleet[:5] {
		fleet[i].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
		fleet[i].Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	}
	return fleet
}

// TestPlacement_agrees_with_the_planner tests that each cluster has the decision of the planner, and
// an explanation.
func TestPlacement_agrees_with_the_planner(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want map[string]string // the explanation of some clusters
	}{
		"by label": {
			spec: "{image: a, placement: {clusterSelector: {matchLabels: {region: eu}}}}",
			want: map[string]string{
				"berlin": "its labels match region=eu; replicas: 1, spec.replicas",
				"dallas": "SelectorMismatch: region is us, wanted eu",
				"lyon":   "Unschedulable: it is cordoned (spec.unschedulable), and the AppService does not run there yet",
				"madrid": "TaintNotTolerated: spec.placement.tolerations do not tolerate its taint gpu=true:NoSchedule",
				"oslo":   "SecretMissing: its kubeconfig Secret is missing",
				"rome":   "ClusterNotReady: it is not Ready, and the AppService does not run there yet",
			},
		},
		"by name": {
			spec: "{image: a, replicas: 2, placement: {clusterNames: [berlin, paris]}, overrides: [{name: small, clusterNames: [berlin], replicas: 1}]}",
			want: map[string]string{
				"berlin": "clusterNames lists it; replicas: 1, override small",
				"dallas": "NotNamed: spec.placement.clusterNames does not list it",
				"paris":  "NoSuchCluster: spec.placement.clusterNames lists it, and there is no MemberCluster of this name",
			},
		},
		"by a limit": {
			spec: "{image: a, placement: {limit: 1, clusterNames: [berlin, dallas]}, autoscaling: {minReplicas: 2, maxReplicas: 5}}",
			want: map[string]string{
				"berlin": "LimitReached: spec.placement.limit is 1, and these are chosen: dallas",
				"dallas": "clusterNames lists it; it is within the limit of 1; replicas: 2, the initial number of its autoscaler, autoscaled from 2 to 5",
			},
		},
		"divided": {
			spec: "{image: a, replicas: 9, replicaPolicy: {type: Divided, weights: Allocatable, rules: [{name: most, clusterNames: [berlin], minReplicas: 6}]}}",
			want: map[string]string{
				"berlin": "no placement excludes it; replicas: 6, its share of spec.replicas (9) by its allocatable CPU of 4000m, rule most, at least 6",
				"dallas": "no placement excludes it; replicas: 3, its share of spec.replicas (9) by its allocatable CPU of 4000m",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "1"}}
			if err := yaml.UnmarshalStrict([]byte(test.spec), &app.Spec); err != nil {
				t.Fatal(err)
			}
			plan, err := placement.Decide(app, members())
			if err != nil {
				t.Fatal(err)
			}
			got, err := explain.Placement(app, members())
			if err != nil {
				t.Fatal(err)
			}
			explained := map[string]string{}
			for i, c := range got {
				if decision := plan[i]; c.Name != decision.Cluster || c.Chosen != decision.Chosen() || c.Reason != decision.Reason || c.Replicas != decision.Replicas {
					t.Errorf("%+v explains %+v", c, decision)
				}
				if c.Because == "" || c.Because == c.Reason || c.Chosen == (c.ReplicasBecause == "") {
					t.Errorf("%+v is not explained", c)
				}
				if test.want[c.Name] != "" {
					explained[c.Name] = words(c)
				}
			}
			if diff := cmp.Diff(test.want, explained); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func words(c explain.Cluster) string {
	if !c.Chosen {
		return c.Reason + ": " + c.Because
	}
	return c.Because + "; replicas: " + strconv.Itoa(int(c.Replicas)) + ", " + c.ReplicasBecause
}

func TestUnmet(t *testing.T) {
	selector := func(operator metav1.LabelSelectorOperator, values ...string) *v1alpha1.ClusterSelector {
		return &v1alpha1.ClusterSelector{MatchExpressions: []v1alpha1.ClusterRequirement{{Key: "tier", Operator: operator, Values: values}}}
	}
	for _, test := range []struct {
		selector *v1alpha1.ClusterSelector
		labels   map[string]string
		want     string
	}{
		{nil, nil, ""},
		{selector(metav1.LabelSelectorOpIn, "b", "a"), map[string]string{"tier": "c"}, "tier is c, wanted a or b"},
		{selector(metav1.LabelSelectorOpIn, "a"), map[string]string{"tier": ""}, "tier is empty, wanted a"},
		{selector(metav1.LabelSelectorOpNotIn, "a"), map[string]string{"tier": "a"}, "tier is a, wanted not a"},
		{selector(metav1.LabelSelectorOpExists), nil, "it has no label tier, wanted any value"},
		{selector(metav1.LabelSelectorOpDoesNotExist), map[string]string{"tier": "a"}, "tier is a, wanted no such label"},
		{selector(metav1.LabelSelectorOpExists), map[string]string{"tier": "a"}, ""},
	} {
		if got := strings.Join(explain.Unmet(test.selector, test.labels), "; "); got != test.want {
			t.Errorf("%+v with %v: %q, want %q", test.selector, test.labels, got, test.want)
		}
	}
}
