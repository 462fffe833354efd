package placement_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

func TestDecide(t *testing.T) {
	tests := map[string]struct {
		app     *v1alpha1.AppService
		members []v1alpha1.MemberCluster
		want    placement.Plan
	}{
		"without members there is nothing to decide": {
			app:  app(),
			want: placement.Plan{},
		},
		"without a placement every member is chosen, sorted by name": {
			app:     app(),
			members: members(member("west"), member("east")),
			want:    placement.Plan{chosen("east", 1), chosen("west", 1)},
		},
		"an empty placement chooses every member": {
			app:     app(placed(v1alpha1.Placement{})),
			members: members(member("east")),
			want:    placement.Plan{chosen("east", 1)},
		},
		"an empty selector chooses every member": {
			app:     app(placed(v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{}}})),
			members: members(member("east")),
			want:    placement.Plan{chosen("east", 1)},
		},
		"an empty list of names chooses every member": {
			app:     app(placed(v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{}}})),
			members: members(member("east")),
			want:    placement.Plan{chosen("east", 1)},
		},
		"each chosen cluster gets spec.replicas": {
			app:     app(replicas(3)),
			members: members(member("east"), member("west")),
			want:    placement.Plan{chosen("east", 3), chosen("west", 3)},
		},
		"zero replicas is still chosen": {
			app:     app(replicas(0)),
			members: members(member("east")),
			want:    placement.Plan{chosen("east", 0)},
		},
		"a cluster that is not named is left out": {
			app:     app(named("east")),
			members: members(member("east"), member("west")),
			want:    placement.Plan{chosen("east", 1), excluded("west", v1alpha1.ReasonNotNamed)},
		},
		"a name matches the whole name": {
			app:     app(named("east")),
			members: members(member("east-1")),
			want:    placement.Plan{excluded("east", v1alpha1.ReasonNoSuchCluster), excluded("east-1", v1alpha1.ReasonNotNamed)},
		},
		"a name that no member has is told, in its place by name": {
			app:     app(named("north", "west")),
			members: members(member("east"), member("west")),
			want: placement.Plan{
				excluded("east", v1alpha1.ReasonNotNamed),
				excluded("north", v1alpha1.ReasonNoSuchCluster),
				chosen("west", 1),
			},
		},
		"a cluster whose labels do not match is left out": {
			app:     app(selected(matching("tier", "prod"))),
			members: members(member("east", label("tier", "prod")), member("west", label("tier", "dev")), member("north")),
			want: placement.Plan{
				chosen("east", 1),
				excluded("north", v1alpha1.ReasonSelectorMismatch),
				excluded("west", v1alpha1.ReasonSelectorMismatch),
			},
		},
		"expressions are understood: In": {
			app:     app(selected(expression("tier", metav1.LabelSelectorOpIn, "prod", "test"))),
			members: members(member("east", label("tier", "test")), member("west")),
			want:    placement.Plan{chosen("east", 1), excluded("west", v1alpha1.ReasonSelectorMismatch)},
		},
		"expressions are understood: NotIn, which a member without the label passes": {
			app:     app(selected(expression("tier", metav1.LabelSelectorOpNotIn, "prod"))),
			members: members(member("east", label("tier", "prod")), member("west")),
			want:    placement.Plan{excluded("east", v1alpha1.ReasonSelectorMismatch), chosen("west", 1)},
		},
		"expressions are understood: Exists": {
			app:     app(selected(expression("tier", metav1.LabelSelectorOpExists))),
			members: members(member("east", label("tier", "")), member("west")),
			want:    placement.Plan{chosen("east", 1), excluded("west", v1alpha1.ReasonSelectorMismatch)},
		},
		"expressions are understood: DoesNotExist": {
			app:     app(selected(expression("tier", metav1.LabelSelectorOpDoesNotExist))),
			members: members(member("east", label("tier", "")), member("west")),
			want:    placement.Plan{excluded("east", v1alpha1.ReasonSelectorMismatch), chosen("west", 1)},
		},
		"names and selector both have to fit, and the names are asked first": {
			app: app(named("east", "west"), selected(matching("tier", "prod"))),
			members: members(
				member("east", label("tier", "prod")),
				member("north", label("tier", "prod")),
				member("south"),
				member("west"),
			),
			want: placement.Plan{
				chosen("east", 1),
				excluded("north", v1alpha1.ReasonNotNamed),
				excluded("south", v1alpha1.ReasonNotNamed),
				excluded("west", v1alpha1.ReasonSelectorMismatch),
			},
		},
		"a newcomer that is being deleted, unschedulable or not ready takes nothing": {
			app:     app(),
			members: members(member("deleting", deleting), member("gone-dark", notReady), member("new", neverSeen), member("tainted", unschedulable)),
			want: placement.Plan{
				excluded("deleting", v1alpha1.ReasonClusterDeleting),
				excluded("gone-dark", v1alpha1.ReasonClusterNotReady),
				excluded("new", v1alpha1.ReasonClusterNotReady),
				excluded("tainted", v1alpha1.ReasonUnschedulable),
			},
		},
		"of several reasons against a newcomer the most lasting is told": {
			app:     app(),
			members: members(member("east", deleting, unschedulable, notReady), member("west", unschedulable, notReady)),
			want: placement.Plan{
				excluded("east", v1alpha1.ReasonClusterDeleting),
				excluded("west", v1alpha1.ReasonUnschedulable),
			},
		},
		"what does not fit is told before what is in the way": {
			app:     app(named("east"), selected(matching("tier", "prod"))),
			members: members(member("east", notReady), member("west", deleting)),
			want: placement.Plan{
				excluded("east", v1alpha1.ReasonSelectorMismatch),
				excluded("west", v1alpha1.ReasonNotNamed),
			},
		},
		"a cluster that runs the AppService keeps it in any state": {
			app:     app(holding("deleting", "gone-dark", "tainted")),
			members: members(member("deleting", deleting), member("gone-dark", notReady), member("tainted", unschedulable)),
			want:    placement.Plan{chosen("deleting", 1), chosen("gone-dark", 1), chosen("tainted", 1)},
		},
		"a cluster that runs the AppService and no longer matches loses it in any state": {
			app:     app(named("east"), holding("north", "west")),
			members: members(member("north", notReady), member("west")),
			want: placement.Plan{
				excluded("east", v1alpha1.ReasonNoSuchCluster),
				excluded("north", v1alpha1.ReasonNotNamed),
				excluded("west", v1alpha1.ReasonNotNamed),
			},
		},
		"an entry without a MemberCluster is not in the plan": {
			app:     app(holding("east", "west")),
			members: members(member("west")),
			want:    placement.Plan{chosen("west", 1)},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := placement.Decide(test.app, test.members)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, withoutDetails); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecide_concludes_nothing_from_a_selector_that_it_cannot_understand(t *testing.T) {
	tests := map[string]struct {
		selector v1alpha1.ClusterSelector
		want     string
	}{
		"an operator that there is not": {
			selector: expression("tier", "Like", "prod"),
			want:     "spec.placement.clusterSelector: matchExpressions[0]: operator must be In, NotIn, Exists or DoesNotExist",
		},
		"In of nothing": {
			selector: expression("tier", metav1.LabelSelectorOpIn),
			want:     "spec.placement.clusterSelector: matchExpressions[0]: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
		},
		"Exists with a value": {
			selector: expression("tier", metav1.LabelSelectorOpExists, "prod"),
			want:     `spec.placement.clusterSelector: matchExpressions[0]: values: Invalid value: ["prod"]: values set must be empty for exists and does not exist`,
		},
		"a value that no label can have": {
			selector: matching("tier", "a b"),
			want: `spec.placement.clusterSelector: matchLabels: values[0][tier]: Invalid value: "a b": a valid label must be an empty string ` +
				`or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ` +
				`(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan, err := placement.Decide(app(selected(test.selector), holding("east")), members(member("east")))
			if plan != nil {
				t.Errorf("plan: %v, want none", plan)
			}
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_Find(t *testing.T) {
	plan := placement.Plan{chosen("east", 2), excluded("north", v1alpha1.ReasonNotNamed), chosen("west", 2)}
	tests := map[string]struct {
		cluster string
		want    placement.Decision
	}{
		"finds the first":                           {"east", chosen("east", 2)},
		"finds one in the middle":                   {"north", excluded("north", v1alpha1.ReasonNotNamed)},
		"finds the last":                            {"west", chosen("west", 2)},
		"does not choose one that it does not have": {"south", excluded("south", v1alpha1.ReasonNoSuchCluster)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, plan.Find(test.cluster)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlan_Excluded(t *testing.T) {
	tests := map[string]struct {
		plan placement.Plan
		want []v1alpha1.ExcludedClusters
	}{
		"says nothing of an empty plan":    {},
		"says nothing when all are chosen": {plan: placement.Plan{chosen("east", 1)}},
		"has an entry for each reason, sorted by it": {
			plan: placement.Plan{
				excluded("a", v1alpha1.ReasonUnschedulable),
				excluded("b", v1alpha1.ReasonClusterDeleting),
				chosen("c", 1),
				excluded("d", v1alpha1.ReasonUnschedulable),
			},
			want: []v1alpha1.ExcludedClusters{
				{Reason: v1alpha1.ReasonClusterDeleting, Count: 1, Examples: []string{"b"}},
				{Reason: v1alpha1.ReasonUnschedulable, Count: 2, Examples: []string{"a", "d"}},
			},
		},
		"counts all and names the first three": {
			plan: placement.Plan{
				excluded("a", v1alpha1.ReasonNotNamed),
				excluded("b", v1alpha1.ReasonNotNamed),
				excluded("c", v1alpha1.ReasonNotNamed),
				excluded("d", v1alpha1.ReasonNotNamed),
			},
			want: []v1alpha1.ExcludedClusters{
				{Reason: v1alpha1.ReasonNotNamed, Count: 4, Examples: []string{"a", "b", "c"}},
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.plan.Excluded()); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
		})
	}
}

// Builders for the AppServices, members and decisions of the tests.

func chosen(cluster string, replicas int32) placement.Decision {
	return placement.Decision{Cluster: cluster, Replicas: replicas}
}

func excluded(cluster, reason string) placement.Decision {
	return placement.Decision{Cluster: cluster, Reason: reason}
}

func app(changes ...func(*v1alpha1.AppService)) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	for _, change := range changes {
		change(app)
	}
	return app
}

func placed(p v1alpha1.Placement) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Placement = &p }
}

func named(names ...string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { placementOf(app).ClusterNames = names }
}

func selected(selector v1alpha1.ClusterSelector) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { placementOf(app).ClusterSelector = &selector }
}

func placementOf(app *v1alpha1.AppService) *v1alpha1.Placement {
	if app.Spec.Placement == nil {
		app.Spec.Placement = &v1alpha1.Placement{}
	}
	return app.Spec.Placement
}

func matching(key, value string) v1alpha1.ClusterSelector {
	return v1alpha1.ClusterSelector{MatchLabels: map[string]string{key: value}}
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) v1alpha1.ClusterSelector {
	return v1alpha1.ClusterSelector{MatchExpressions: []v1alpha1.ClusterRequirement{{Key: key, Operator: operator, Values: values}}}
}

func replicas(n int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Replicas = &n }
}

// holding adds entries of these clusters to the AppService.
func holding(clusters ...string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		for _, cluster := range clusters {
			app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: cluster})
		}
		app.Status.SortClusters()
	}
}

func members(members ...v1alpha1.MemberCluster) []v1alpha1.MemberCluster { return members }

// member returns a member that is Ready.
func member(name string, changes ...func(*v1alpha1.MemberCluster)) v1alpha1.MemberCluster {
	member := v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	setReady(&member, metav1.ConditionTrue)
	for _, change := range changes {
		change(&member)
	}
	return member
}

func label(key, value string) func(*v1alpha1.MemberCluster) {
	return func(member *v1alpha1.MemberCluster) { member.Labels = map[string]string{key: value} }
}

func deleting(member *v1alpha1.MemberCluster) {
	member.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func unschedulable(member *v1alpha1.MemberCluster) { member.Spec.Unschedulable = true }

func notReady(member *v1alpha1.MemberCluster) { setReady(member, metav1.ConditionFalse) }

func neverSeen(member *v1alpha1.MemberCluster) { member.Status.Conditions = nil }

func setReady(member *v1alpha1.MemberCluster, status metav1.ConditionStatus) {
	member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
}
