package v1alpha1_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRollout_is_accepted_and_defaulted(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"an empty rollout is one stage that is rolled back": {
			spec: least + "rollout: {}",
			want: least + "rollout: {onFailure: Rollback}",
		},
		"no stages": {
			spec: least + "rollout: {stages: [], onFailure: Pause, paused: true}",
		},
		"a stage of all clusters": {
			spec: least + "rollout: {stages: [{name: all}], onFailure: Rollback}",
		},
		"all fields": {
			spec: least + `
progressDeadlineSeconds: 30
rollout:
  maxUnavailable: 25%
  minReadySeconds: 60
  maxFailures: 5%
  progressDeadlineSeconds: 121
  onFailure: Pause
  paused: true
  stages:
  - name: canary
    clusterNames: [east]
    clusterSelector: {matchLabels: {tier: canary}, matchExpressions: [{key: region, operator: In, values: [eu]}]}
    limit: 2
    spreadKey: region
    approval: Required
    soakSeconds: 3600
    maxUnavailable: 1
    minReadySeconds: 120
    maxFailures: 1
`,
		},
		"the lowest values": {
			spec: least + `
rollout:
  maxUnavailable: 1
  minReadySeconds: 0
  maxFailures: 0
  onFailure: Rollback
  stages: [{name: a, limit: 1, soakSeconds: 0, maxUnavailable: 1%, minReadySeconds: 0, maxFailures: 0%}, {name: b, limit: 1%}]
`,
		},
		"the highest values": {
			spec: least + `
rollout:
  maxUnavailable: 2147483647
  minReadySeconds: 2147483646
  maxFailures: 2147483647
  progressDeadlineSeconds: 2147483647
  onFailure: Rollback
  stages:
  - {name: a, limit: 2147483647, soakSeconds: 2147483647, maxUnavailable: 100%, maxFailures: 100%}
  - {name: b, limit: 100%}
  - {name: ` + strings.Repeat("c", 63) + `}
`,
		},
		"percentages of two digits": {
			spec: least + "rollout: {maxUnavailable: 10%, maxFailures: 99%, onFailure: Rollback}",
		},
		"a minimum just below the default of the deadline": {
			spec: least + "rollout: {minReadySeconds: 899, onFailure: Rollback, stages: [{name: a}]}",
		},
		"a deadline just above the default": {
			spec: least + "rollout: {progressDeadlineSeconds: 601, onFailure: Rollback}",
		},
		"no deadline of the rollout": {
			spec: least + "progressDeadlineSeconds: 100000\nrollout: {onFailure: Rollback}",
		},
		"sixteen stages of a thousand clusters": {
			spec: least + "rollout: {onFailure: Rollback, stages: " + stages(16, 1000) + "}",
		},
	})
}

func TestRollout_is_refused_with_a_message(t *testing.T) {
	const (
		duplicate = `[spec.rollout.stages[2]: Duplicate value: {"name":"eu"}, spec.rollout: Invalid value: two stages have the same name: rename one of them]`
		label     = "the name of a stage must be lower-case letters, digits and '-', and start and end with a letter or digit, such as eu-west"
		clusters  = " must be a number of clusters, 1 or more, without quotes, or a percentage from 1% to 100%"
		failures  = "maxFailures must be a number of clusters, 0 or more, without quotes, or a percentage from 0% to 100%"
		deadline  = "spec: Invalid value: rollout.progressDeadlineSeconds must be more than progressDeadlineSeconds (600 if it is not set): increase it, or lower progressDeadlineSeconds"
		available = "spec: Invalid value: rollout.progressDeadlineSeconds must be more than each minReadySeconds, because a cluster has to be available by then; by default, it is 300 more than progressDeadlineSeconds (900): increase it, or lower minReadySeconds"
	)
	tests := map[string]refused{
		"two stages with the same name": {
			spec: image + "rollout: {stages: [{name: eu}, {name: us}, {name: eu}]}",
			want: duplicate,
		},
		"a stage without a name": {
			spec: image + "rollout: {stages: [{soakSeconds: 5}]}",
			want: "[spec.rollout.stages[0].name: Required value" + unchecked,
		},
		"a name that is too long": {
			spec: image + "rollout: {stages: [{name: " + strings.Repeat("a", 64) + "}]}",
			want: "[spec.rollout.stages[0].name: Too long: may not be more than 63 bytes" + unchecked,
		},
		"a spread without a limit": {
			spec: image + "rollout: {stages: [{name: a, spreadKey: region}]}",
			want: "spec.rollout.stages[0]: Invalid value: spreadKey needs limit: set limit, or remove spreadKey",
		},
		"an approval that is not Required": {
			spec: image + "rollout: {stages: [{name: a, approval: Optional}]}",
			want: `[spec.rollout.stages[0].approval: Unsupported value: "Optional": supported values: "Required"` + unchecked,
		},
		"an approval in lower case": {
			spec: image + "rollout: {stages: [{name: a, approval: required}]}",
			want: `[spec.rollout.stages[0].approval: Unsupported value: "required": supported values: "Required"` + unchecked,
		},
		"an unknown consequence of a failure": {
			spec: image + "rollout: {onFailure: Ignore}",
			want: `[spec.rollout.onFailure: Unsupported value: "Ignore": supported values: "Rollback", "Pause"` + unchecked,
		},
		"a deadline that equals that of the Deployments": {
			spec: image + "progressDeadlineSeconds: 30\nrollout: {progressDeadlineSeconds: 30}",
			want: deadline,
		},
		"a deadline that equals the default of the Deployments": {
			spec: image + "rollout: {progressDeadlineSeconds: 600}",
			want: deadline,
		},
		"a negative deadline": {
			spec: image + "rollout: {progressDeadlineSeconds: -1}",
			want: "[" + deadline + ", " + available + "]",
		},
		"a minimum that equals the default of the deadline": {
			spec: image + "rollout: {minReadySeconds: 900}",
			want: available,
		},
		"a minimum of a stage that equals the deadline": {
			spec: image + "progressDeadlineSeconds: 30\nrollout: {progressDeadlineSeconds: 60, minReadySeconds: 5, stages: [{name: a, minReadySeconds: 60}]}",
			want: available,
		},
		"a minimum that applies to one of the stages": {
			spec: image + "progressDeadlineSeconds: 30\nrollout: {progressDeadlineSeconds: 60, minReadySeconds: 60, stages: [{name: a, minReadySeconds: 5}, {name: b}]}",
			want: available,
		},
		"a negative soak": {
			spec: image + "rollout: {stages: [{name: a, soakSeconds: -1}]}",
			want: "spec.rollout.stages[0].soakSeconds: Invalid value: -1: soakSeconds must be zero or more",
		},
		"a negative time to be available": {
			spec: image + "rollout: {minReadySeconds: -1}",
			want: "spec.rollout.minReadySeconds: Invalid value: -1: minReadySeconds must be zero or more",
		},
		"a negative time to be available in a stage": {
			spec: image + "rollout: {stages: [{name: a, minReadySeconds: -1}]}",
			want: "spec.rollout.stages[0].minReadySeconds: Invalid value: -1: minReadySeconds must be zero or more",
		},
		"a number that a client cannot decode": {
			spec: image + "rollout: {maxUnavailable: 2147483648}",
			want: "spec.rollout.maxUnavailable: Invalid value: 2147483648: spec.rollout.maxUnavailable in body should be less than or equal to 2147483647",
		},
		"too many stages": {
			spec: image + "rollout: {stages: " + stages(17, 0) + "}",
			want: "[spec.rollout.stages: Too many: 17: must have at most 16 items" + unchecked,
		},
		"a selector without values": {
			spec: image + "rollout: {stages: [{name: a, clusterSelector: {matchExpressions: [{key: a, operator: In}]}}]}",
			want: "spec.rollout.stages[0].clusterSelector.matchExpressions[0]: Invalid value: In and NotIn need values, Exists and DoesNotExist must not have values: add or remove values, or change the operator",
		},
		"an unknown field": {
			spec: image + "rollout: {stages: [{name: a, approvals: 2}]}",
			want: `AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.rollout.stages[0].approvals"`,
		},
	}
	for _, name := range []string{"", "EU", "eu_west", "-eu", "eu-", "eu.west", "eu west", "(rest)", "7/eu"} {
		tests[fmt.Sprintf("the name %q", name)] = refused{
			spec: image + fmt.Sprintf("rollout: {stages: [{name: %q}]}", name),
			want: fmt.Sprintf("spec.rollout.stages[0].name: Invalid value: %q: %s", name, label),
		}
	}
	// Numbers and percentages, as they are in a manifest.
	for _, value := range []string{"0", "-1", `"0%"`, `"00%"`, `"101%"`, `"-5%"`, `"5"`, `"0.5%"`, `"%"`, `"all"`, `""`} {
		tests["limit "+value] = refused{
			spec: image + "rollout: {stages: [{name: a, limit: " + value + "}]}",
			want: "spec.rollout.stages[0].limit: Invalid value: " + value + ": limit" + clusters,
		}
		tests["maxUnavailable "+value] = refused{
			spec: image + "rollout: {maxUnavailable: " + value + "}",
			want: "spec.rollout.maxUnavailable: Invalid value: " + value + ": maxUnavailable" + clusters,
		}
		tests["maxUnavailable "+value+" of a stage"] = refused{
			spec: image + "rollout: {stages: [{name: a, maxUnavailable: " + value + "}]}",
			want: "spec.rollout.stages[0].maxUnavailable: Invalid value: " + value + ": maxUnavailable" + clusters,
		}
	}
	for _, value := range []string{"-1", `"101%"`, `"5"`, `"a%"`, `"%"`} {
		tests["maxFailures "+value] = refused{
			spec: image + "rollout: {maxFailures: " + value + "}",
			want: "spec.rollout.maxFailures: Invalid value: " + value + ": " + failures,
		}
	}
	testRefused(t, tests)
}

// Two field managers can each have stages of their own. The order of the stages is their meaning,
// so it must be that of the manifest that was applied last.
func TestRollout_stages_are_merged_by_name_and_keep_their_order(t *testing.T) {
	apply := func(manager, list string) []string {
		t.Helper()
		manifest := newManifest(t, "staged", image+"rollout: {stages: "+list+"}")
		if err := hub.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(manifest), client.FieldOwner(manager)); err != nil {
			t.Fatal(err)
		}
		stored := newManifest(t, "staged", "{}")
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
			t.Fatal(err)
		}
		all, _, err := unstructured.NestedSlice(stored.Object, "spec", "rollout", "stages")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range all {
			stage := one.(map[string]any)
			names = append(names, fmt.Sprint(stage["name"], " ", stage["soakSeconds"], " ", stage["approval"]))
		}
		return names
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), newManifest(t, "staged", "{}")); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []struct {
		title, manager, stages string
		want                   []string
	}{
		{"a first manifest", "git", "[{name: canary, soakSeconds: 5}, {name: world}]",
			[]string{"canary 5 <nil>", "world <nil> <nil>"}},
		{"a stage in between", "git", "[{name: canary, soakSeconds: 5}, {name: eu}, {name: world}]",
			[]string{"canary 5 <nil>", "eu <nil> <nil>", "world <nil> <nil>"}},
		{"another order", "git", "[{name: world}, {name: eu}, {name: canary, soakSeconds: 5}]",
			[]string{"world <nil> <nil>", "eu <nil> <nil>", "canary 5 <nil>"}},
		{"an approval of another manager", "sre", "[{name: eu, approval: Required}]",
			[]string{"world <nil> <nil>", "eu <nil> Required", "canary 5 <nil>"}},
		{"a stage less", "git", "[{name: canary, soakSeconds: 5}, {name: eu}]",
			[]string{"canary 5 <nil>", "eu <nil> Required"}},
	} {
		if diff := cmp.Diff(step.want, apply(step.manager, step.stages)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.title, diff)
		}
	}
}

// stages returns stages, each with that number of long cluster names.
func stages(number, clusterNames int) string {
	var all []string
	for i := range number {
		var names []string
		for k := range clusterNames {
			names = append(names, fmt.Sprintf("%s-%04d", strings.Repeat("c", 50), k))
		}
		all = append(all, fmt.Sprintf("{name: stage-%d, clusterNames: [%s]}", i, strings.Join(names, ", ")))
	}
	return "[" + strings.Join(all, ", ") + "]"
}
