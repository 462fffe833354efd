package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestPlacement_is_accepted_and_defaulted(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"a limit, spread": {
			spec: least + "placement: {limit: 3, spreadKey: region}",
		},
		"a limit without a spread key": {
			spec: least + "placement: {limit: 1}",
		},
		"tolerations": {
			spec: least + `
placement:
  tolerations:
  - {key: edge, value: "yes"}
  - {key: edge, operator: Equal}
  - {key: gpu, operator: Exists, effect: NoSchedule}
  - {operator: Exists, effect: NoExecute}
  - {operator: Exists}
`,
			want: least + `
placement:
  tolerations:
  - {key: edge, value: "yes", operator: Equal}
  - {key: edge, operator: Equal}
  - {key: gpu, operator: Exists, effect: NoSchedule}
  - {operator: Exists, effect: NoExecute}
  - {operator: Exists}
`,
		},
		"a thousand names": {
			spec: least + "placement:\n  clusterNames:\n" + clusterNameList(1000),
		},
		"an empty list of values for Exists": {
			spec: least + "placement: {clusterSelector: {matchExpressions: [{key: a, operator: Exists, values: []}]}}",
		},
	})
}

func TestPlacement_is_refused_with_a_message(t *testing.T) {
	const (
		values = "spec.placement.clusterSelector.matchExpressions[0]: Invalid value: In and NotIn need values, Exists and DoesNotExist must not have values: add or remove values, or change the operator"
		noKey  = "spec.placement.tolerations[0]: Invalid value: a toleration without a key needs operator Exists: set the key, or set operator to Exists"
		effect = `[spec.placement.tolerations[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoSchedule", "NoExecute"` + unchecked
	)
	testRefused(t, map[string]refused{
		"a limit of zero": {
			spec: image + "placement: {limit: 0}",
			want: "spec.placement.limit: Invalid value: 0: limit must be one or more: increase it, or remove it for all clusters",
		},
		"a spread without a limit": {
			spec: image + "placement: {spreadKey: region}",
			want: "spec.placement: Invalid value: spreadKey needs limit: set limit, or remove spreadKey",
		},
		"In without values": {
			spec: image + "placement: {clusterSelector: {matchExpressions: [{key: a, operator: In}]}}",
			want: values,
		},
		"NotIn with no value": {
			spec: image + "placement: {clusterSelector: {matchExpressions: [{key: a, operator: NotIn, values: []}]}}",
			want: values,
		},
		"Exists with a value": {
			spec: image + "placement: {clusterSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}",
			want: values,
		},
		"a requirement without an operator": {
			spec: image + "placement: {clusterSelector: {matchExpressions: [{key: a}]}}",
			want: "[spec.placement.clusterSelector.matchExpressions[0].operator: Required value" + unchecked,
		},
		"a requirement without a key": {
			spec: image + "placement: {clusterSelector: {matchExpressions: [{operator: Exists}]}}",
			want: "[spec.placement.clusterSelector.matchExpressions[0].key: Required value" + unchecked,
		},
		"a toleration of everything by mistake": {
			spec: image + "placement: {tolerations: [{}]}",
			want: noKey,
		},
		"a toleration of every key with a value": {
			spec: image + "placement: {tolerations: [{value: a}]}",
			want: noKey,
		},
		"a toleration of an empty key": {
			spec: image + `placement: {tolerations: [{key: "", operator: Equal, value: a}]}`,
			want: noKey,
		},
		"a toleration of any value, with a value": {
			spec: image + "placement: {tolerations: [{key: a, operator: Exists, value: b}]}",
			want: "spec.placement.tolerations[0]: Invalid value: a toleration with operator Exists cannot have a value: remove the value, or set operator to Equal",
		},
		"a toleration with an unknown operator": {
			spec: image + "placement: {tolerations: [{key: a, operator: In}]}",
			want: `[spec.placement.tolerations[0].operator: Unsupported value: "In": supported values: "Equal", "Exists"` + unchecked,
		},
		"a toleration of an effect that only nodes have": {
			spec: image + "placement: {tolerations: [{key: a, effect: PreferNoSchedule}]}",
			want: effect,
		},
		"1001 names": {
			spec: image + "placement:\n  clusterNames:\n" + clusterNameList(1001),
			want: "[spec.placement.clusterNames: Too many: 1001: must have at most 1000 items" + unchecked,
		},
	})
}

func TestReplicaPolicy_is_accepted_and_defaulted(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"an empty policy is Duplicated": {
			spec: least + "replicaPolicy: {}",
			want: least + "replicaPolicy: {type: Duplicated, weights: Static}",
		},
		"divided equally": {
			spec: least + "replicaPolicy: {type: Divided}",
			want: least + "replicaPolicy: {type: Divided, weights: Static}",
		},
		"divided by rules": {
			spec: least + `
replicaPolicy:
  type: Divided
  weights: Static
  rules:
  - {name: big, clusterNames: [east], weight: 1000000, minReplicas: 2, maxReplicas: 2}
  - {name: cold, clusterSelector: {matchLabels: {tier: cold}}, weight: 0}
  - {name: rest}
`,
		},
		"divided by capacity, within bounds": {
			spec: least + `
replicaPolicy:
  type: Divided
  weights: Allocatable
  rules:
  - {name: all, minReplicas: 0, maxReplicas: 10}
`,
		},
		"divided, and autoscaled": {
			spec: least + `
replicaPolicy: {type: Divided, weights: Static}
autoscaling: {minReplicas: 4, maxReplicas: 40}
`,
		},
	})
}

func TestReplicaPolicy_is_refused_with_a_message(t *testing.T) {
	const divides = "spec.replicaPolicy: Invalid value: rules and weights need type Divided: set type to Divided, or remove them"
	testRefused(t, map[string]refused{
		"rules without type Divided": {
			spec: image + "replicaPolicy: {rules: [{name: a}]}",
			want: divides,
		},
		"weights without type Divided": {
			spec: image + "replicaPolicy: {weights: Allocatable}",
			want: divides,
		},
		"a weight with weights Allocatable": {
			spec: image + "replicaPolicy: {type: Divided, weights: Allocatable, rules: [{name: a, weight: 2}]}",
			want: "spec.replicaPolicy: Invalid value: a rule can have a weight only with weights Static: remove the weight, or set weights to Static",
		},
		"a negative weight": {
			spec: image + "replicaPolicy: {type: Divided, rules: [{name: a, weight: -1}]}",
			want: "spec.replicaPolicy.rules[0].weight: Invalid value: -1: weight must be from 0 to 1000000",
		},
		"a weight that is too large": {
			spec: image + "replicaPolicy: {type: Divided, rules: [{name: a, weight: 1000001}]}",
			want: "spec.replicaPolicy.rules[0].weight: Invalid value: 1000001: weight must be from 0 to 1000000",
		},
		"a minimum that exceeds the maximum": {
			spec: image + "replicaPolicy: {type: Divided, rules: [{name: a, minReplicas: 2, maxReplicas: 1}]}",
			want: "spec.replicaPolicy.rules[0]: Invalid value: maxReplicas of a rule must be minReplicas or more",
		},
		"a negative bound": {
			spec: image + "replicaPolicy: {type: Divided, rules: [{name: a, minReplicas: -1}, {name: b, maxReplicas: -1}]}",
			want: "[spec.replicaPolicy.rules[0].minReplicas: Invalid value: -1: minReplicas must be zero or more, spec.replicaPolicy.rules[1].maxReplicas: Invalid value: -1: maxReplicas must be zero or more]",
		},
		"a rule without a name": {
			spec: image + "replicaPolicy: {type: Divided, rules: [{weight: 2}]}",
			want: "[spec.replicaPolicy.rules[0].name: Required value" + unchecked,
		},
		"two rules with the same name": {
			spec: image + "replicaPolicy: {type: Divided, rules: [{name: a}, {name: a}]}",
			want: `spec.replicaPolicy.rules[1]: Duplicate value: {"name":"a"}`,
		},
		"an unknown type": {
			spec: image + "replicaPolicy: {type: Divide}",
			want: `[spec.replicaPolicy.type: Unsupported value: "Divide": supported values: "Duplicated", "Divided"` + unchecked,
		},
		"unknown weights": {
			spec: image + "replicaPolicy: {type: Divided, weights: Dynamic}",
			want: `[spec.replicaPolicy.weights: Unsupported value: "Dynamic": supported values: "Static", "Allocatable"` + unchecked,
		},
		"an override of replicas that are divided": {
			spec: image + "replicaPolicy: {type: Divided}\noverrides: [{name: a, replicas: 2}]",
			want: "spec: Invalid value: an override cannot set replicas if replicaPolicy divides them: use minReplicas and maxReplicas of replicaPolicy.rules",
		},
		"an override of replicas that are autoscaled": {
			spec: image + "autoscaling: {maxReplicas: 5}\noverrides: [{name: a, replicas: 2}]",
			want: "spec: Invalid value: an override cannot set replicas with autoscaling: use autoscaling.minReplicas and maxReplicas, or replicaPolicy.rules for the bounds of some clusters",
		},
	})
}

func TestMemberCluster_is_accepted(t *testing.T) {
	for title, spec := range map[string]string{
		"nothing":       "{}",
		"unschedulable": "unschedulable: true",
		"taints": `
taints:
- {key: edge, effect: NoSchedule}
- {key: edge, effect: NoExecute}
- {key: example.com/gpu, value: "yes", effect: NoSchedule}
`,
	} {
		t.Run(title, func(t *testing.T) {
			got, err := dryRunCreate(t, newMemberCluster(t, spec))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(asYAML(t, parseYAML(t, spec)), asYAML(t, got.Object["spec"])); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMemberCluster_is_refused_with_a_message(t *testing.T) {
	for title, test := range map[string]struct{ spec, want string }{
		"a taint without a key": {
			spec: "taints: [{effect: NoSchedule}]",
			want: "spec.taints[0].key: Required value",
		},
		"a taint of an empty key": {
			spec: `taints: [{key: "", effect: NoSchedule}]`,
			want: `spec.taints[0].key: Invalid value: "": spec.taints[0].key in body should be at least 1 chars long`,
		},
		"a taint without an effect": {
			spec: "taints: [{key: a}]",
			want: "spec.taints[0].effect: Required value",
		},
		"an effect that only nodes have": {
			spec: "taints: [{key: a, effect: PreferNoSchedule}]",
			want: `spec.taints[0].effect: Unsupported value: "PreferNoSchedule": supported values: "NoSchedule", "NoExecute"`,
		},
		"a duplicate taint": {
			spec: "taints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]",
			want: `spec.taints[1]: Duplicate value: {"effect":"NoSchedule","key":"a"}`,
		},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := dryRunCreate(t, newMemberCluster(t, test.spec))
			if err == nil {
				t.Fatal("the object is accepted")
			}
			checkMessage(t, strings.TrimPrefix(err.Error(), `MemberCluster.fleetwright.dev "east" is invalid: `), test.want)
		})
	}
}

func newMemberCluster(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "MemberCluster",
		"metadata":   map[string]any{"name": "east"},
		"spec":       parseYAML(t, spec),
	}}
}

func clusterNameList(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "  - member-%d\n", i)
	}
	return all.String()
}
