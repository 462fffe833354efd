package placement_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

func TestDecide_respects_taints(t *testing.T) {
	gpu := v1alpha1.Taint{Key: "gpu", Value: "a100", Effect: v1alpha1.TaintNoExecute}
	not := func(cluster string) placement.Plan {
		return placement.Plan{excluded(cluster, v1alpha1.ReasonTaintNotTolerated)}
	}
	runCases(t, map[string]decideCase{
		"NoSchedule excludes a new cluster": {
			app: app(), members: members(member("east", noSchedule("gpu"))), want: not("east"),
		},
		"NoSchedule does not exclude a cluster with an entry": {
			app: app(withEntries("east")), members: members(member("east", noSchedule("gpu"))), want: placement.Plan{chosen("east", 1)},
		},
		"NoSchedule does not exclude a Removing cluster": {
			app: app(withEntry("east", 1, removing)), members: members(member("east", noSchedule("gpu"))), want: placement.Plan{chosen("east", 1)},
		},
		"NoExecute excludes a new cluster": {
			app: app(), members: members(member("east", noExecute("gpu"))), want: not("east"),
		},
		"NoExecute excludes a cluster with an entry": {
			app: app(withEntries("east")), members: members(member("east", noExecute("gpu"))), want: not("east"),
		},
		"one taint that is not tolerated is sufficient": {
			app:     app(tolerating(v1alpha1.Toleration{Key: "gpu", Operator: v1alpha1.TolerationExists})),
			members: members(member("east", noSchedule("gpu"), noSchedule("spot"))),
			want:    not("east"),
		},
		"each taint needs one matching toleration": {
			app: app(tolerating(
				v1alpha1.Toleration{Key: "gpu", Operator: v1alpha1.TolerationExists},
				v1alpha1.Toleration{Key: "spot", Operator: v1alpha1.TolerationExists},
			)),
			members: members(member("east", noSchedule("gpu"), noExecute("spot"))),
			want:    placement.Plan{chosen("east", 1)},
		},
		"a toleration of a value tolerates that value": {
			app:     app(tolerating(v1alpha1.Toleration{Key: "gpu", Operator: v1alpha1.TolerationEqual, Value: "a100"})),
			members: members(member("east", tainted(gpu))),
			want:    placement.Plan{chosen("east", 1)},
		},
		"a toleration of a value tolerates no other value": {
			app:     app(tolerating(v1alpha1.Toleration{Key: "gpu", Value: "h100"})),
			members: members(member("east", tainted(gpu))),
			want:    not("east"),
		},
		"a toleration of one effect tolerates no other effect": {
			app:     app(tolerating(v1alpha1.Toleration{Key: "gpu", Operator: v1alpha1.TolerationExists, Effect: v1alpha1.TaintNoSchedule})),
			members: members(member("east", tainted(gpu))),
			want:    not("east"),
		},
		"a toleration without a key tolerates every taint": {
			app:     app(tolerating(v1alpha1.Toleration{Operator: v1alpha1.TolerationExists})),
			members: members(member("east", noExecute("gpu"), noSchedule("spot"))),
			want:    placement.Plan{chosen("east", 1)},
		},
		"the order of reasons: mismatch, NoExecute, unschedulable, NoSchedule, not Ready": {
			app: app(named("a", "b", "c", "d"), selected(matching("tier", "prod"))),
			members: members(
				member("a", label("tier", "prod"), noExecute("gpu"), deleting),
				member("b", label("tier", "prod"), noSchedule("gpu"), unschedulable),
				member("c", label("tier", "prod"), noSchedule("gpu"), notReady),
				member("d", noExecute("gpu")),
				member("e", noExecute("gpu")),
			),
			want: placement.Plan{
				excluded("a", v1alpha1.ReasonTaintNotTolerated),
				excluded("b", v1alpha1.ReasonUnschedulable),
				excluded("c", v1alpha1.ReasonTaintNotTolerated),
				excluded("d", v1alpha1.ReasonSelectorMismatch),
				excluded("e", v1alpha1.ReasonNotNamed),
			},
		},
	})
}

func TestDecide_excludes_a_member_without_Secret(t *testing.T) {
	secretMissing := func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = &metav1.Time{} }
	runCases(t, map[string]decideCase{
		"a new cluster": {
			app: app(), members: members(member("east", secretMissing), member("west")),
			want: placement.Plan{excluded("east", v1alpha1.ReasonSecretMissing), chosen("west", 1)},
		},
		"a cluster with an entry is replaced by another one": {
			app: app(limited(1), withEntries("east")), members: members(member("east", secretMissing), member("west")),
			want: placement.Plan{excluded("east", v1alpha1.ReasonSecretMissing), chosen("west", 1)},
		},
		"a mismatch is reported first": {
			app:     app(named("east"), selected(matching("tier", "prod"))),
			members: members(member("east", secretMissing), member("west", secretMissing, label("tier", "prod"))),
			want:    placement.Plan{excluded("east", v1alpha1.ReasonSelectorMismatch), excluded("west", v1alpha1.ReasonNotNamed)},
		},
		"the missing Secret is reported before taints and state": {
			app: app(), members: members(member("east", secretMissing, notReady, noExecute("gpu"))),
			want: placement.Plan{excluded("east", v1alpha1.ReasonSecretMissing)},
		},
	})
}

func TestDecide_names_the_field_of_an_invalid_selector(t *testing.T) {
	bad := v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{
		MatchExpressions: []v1alpha1.ClusterRequirement{{Key: "tier", Operator: "Like"}},
	}}
	badPlacement := placed(v1alpha1.Placement{ClusterMatch: bad})
	badOverrides := func(app *v1alpha1.AppService) {
		app.Spec.Overrides = []v1alpha1.Override{{Name: "good"}, {Name: "x", ClusterMatch: bad}, {Name: "y", ClusterMatch: bad}}
	}
	badRules := func(app *v1alpha1.AppService) {
		divided(1, v1alpha1.ReplicaRule{Name: "good"}, v1alpha1.ReplicaRule{Name: "r", ClusterMatch: bad})(app)
	}
	const wrong = ".clusterSelector: matchExpressions[0]: operator must be In, NotIn, Exists or DoesNotExist"
	tests := map[string]struct {
		app  *v1alpha1.AppService
		want string
	}{
		"the placement":      {app(badPlacement), "spec.placement" + wrong},
		"the first override": {app(badOverrides), "spec.overrides[name=x]" + wrong},
		"a rule":             {app(badRules), "spec.replicaPolicy.rules[name=r]" + wrong},
		"the placement before overrides and rules":      {app(badRules, badOverrides, badPlacement), "spec.placement" + wrong},
		"an override before a rule":                     {app(badRules, badOverrides), "spec.overrides[name=x]" + wrong},
		"an override, with a cluster that has an entry": {app(badOverrides, withEntries("east")), "spec.overrides[name=x]" + wrong},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			plan, err := placement.Decide(test.app, members(member("east")))
			if plan != nil || err == nil || err.Error() != test.want {
				t.Errorf("plan %v, error %v, want none and %s", plan, err, test.want)
			}
		})
	}
}

func TestDecide_uses_the_replicas_of_the_last_matching_override(t *testing.T) {
	bySelector := func(n int32, selector v1alpha1.ClusterSelector) func(*v1alpha1.AppService) {
		return func(app *v1alpha1.AppService) {
			overriding(n)(app)
			app.Spec.Overrides[len(app.Spec.Overrides)-1].ClusterSelector = &selector
		}
	}
	withoutReplicas := func(app *v1alpha1.AppService) {
		app.Spec.Overrides = append(app.Spec.Overrides, v1alpha1.Override{Name: "image", Image: "registry.example/app:2"})
	}
	both := members(member("east", label("tier", "prod")), member("west"))
	runCases(t, map[string]decideCase{
		"matches by name":  {app(replicas(3), overriding(5, "east")), both, placement.Plan{chosen("east", 5), chosen("west", 3)}},
		"matches by label": {app(replicas(3), bySelector(5, matching("tier", "prod"))), both, placement.Plan{chosen("east", 5), chosen("west", 3)}},
		"matches everywhere without names and labels": {app(replicas(3), overriding(5)), both, placement.Plan{chosen("east", 5), chosen("west", 5)}},
		"the last match wins":                         {app(replicas(3), overriding(5), overriding(7, "east")), both, placement.Plan{chosen("east", 7), chosen("west", 5)}},
		"zero replicas":                               {app(replicas(3), overriding(0, "west")), both, placement.Plan{chosen("east", 3), chosen("west", 0)}},
		"an override without replicas":                {app(replicas(3), overriding(5), withoutReplicas), both, placement.Plan{chosen("east", 5), chosen("west", 5)}},
		"no effect on divided replicas":               {app(divided(4), overriding(5)), both, placement.Plan{chosen("east", 2), chosen("west", 2)}},
		"no effect with autoscaling":                  {app(autoscaling(2, 4), overriding(5)), both, placement.Plan{autoscaled("east", 2, 2, 4), autoscaled("west", 2, 2, 4)}},
		"Duplicated is the same as no policy": {
			app(replicas(3), overriding(5, "east"), func(app *v1alpha1.AppService) {
				app.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDuplicated}
			}), both, placement.Plan{chosen("east", 5), chosen("west", 3)},
		},
		"labels and names must both match": {
			app(replicas(3), func(app *v1alpha1.AppService) {
				overriding(5, "west")(app)
				selector := expression("tier", metav1.LabelSelectorOpExists)
				app.Spec.Overrides[0].ClusterSelector = &selector
			}), both, placement.Plan{chosen("east", 3), chosen("west", 3)},
		},
	})
}
