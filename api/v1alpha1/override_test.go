package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestOverride_is_accepted_and_stored(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"an override that changes nothing": {
			spec: least + "overrides: [{name: none}]",
		},
		"an override with all fields": {
			spec: least + `
overrides:
- name: eu
  clusterNames: [east]
  clusterSelector: {matchExpressions: [{key: region, operator: In, values: [eu]}]}
  imageRegistry: registry.example:5000/mirror
  imageTag: "1.2"
  env:
  - {name: REGION, value: eu}
  - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  resources: {requests: {cpu: 2, memory: 1Gi}, limits: {memory: 2Gi}}
  replicas: 0
  serviceType: LoadBalancer
  patches:
  - target: Deployment
    operations:
    - {op: add, path: /spec/template/spec/hostAliases, value: [{ip: 10.0.0.1, hostnames: [db]}]}
    - {op: remove, path: /spec/template/spec/affinity}
    - {op: move, from: /spec/a, path: /spec/b}
    - {op: copy, from: /spec/b, path: /spec/c}
    - {op: test, path: /spec/paused, value: false}
    - {op: replace, path: /spec/minReadySeconds, value: 5}
  - {target: Service, operations: [{op: add, path: /spec/externalTrafficPolicy, value: Local}]}
  - {target: HorizontalPodAutoscaler, operations: [{op: replace, path: /spec/maxReplicas, value: 9}]}
  - {target: PodDisruptionBudget, operations: [{op: replace, path: /spec/maxUnavailable, value: 50%}]}
`,
		},
		"an image, by digest": {
			spec: least + "overrides: [{name: a, image: registry.example/other@sha256:0123}]",
		},
		"a digest": {
			spec: least + "overrides: [{name: a, imageTag: 'sha256:" + strings.Repeat("0f", 32) + "'}]",
		},
		"a registry at an address": {
			spec: least + `overrides: [{name: a, imageRegistry: "10.0.0.1:5000"}, {name: b, imageRegistry: "[fd00::1]:5000/mirror"}, {name: c, imageRegistry: registry.example}]`,
		},
		"replicas beside a policy that does not divide": {
			spec: least + "replicaPolicy: {type: Duplicated, weights: Static}\noverrides: [{name: a, replicas: 2}]",
		},
	})
}

func TestOverride_is_refused_with_a_message(t *testing.T) {
	const (
		images   = "spec.overrides[0]: Invalid value: an override cannot have image together with imageRegistry or imageTag: remove image, or remove the others"
		registry = "imageRegistry must be a registry, such as registry.example:5000 or registry.example/mirror, without a scheme"
		tag      = "imageTag must be a tag, such as 1.2, or a digest, sha256: and 64 digits of 0-9 and a-f"
		from     = "spec.overrides[0].patches[0].operations[0]: Invalid value: op copy and move need from, other operations must not have it: set from to the JSON pointer of the source, or remove it"
	)
	patch := func(operation string) string {
		return image + "overrides: [{name: a, patches: [{target: Deployment, operations: [" + operation + "]}]}]"
	}
	testRefused(t, map[string]refused{
		"an override without a name": {
			spec: image + "overrides: [{replicas: 1}]",
			want: "[spec.overrides[0].name: Required value" + unchecked,
		},
		"two overrides with the same name": {
			spec: image + "overrides: [{name: a}, {name: a}]",
			want: `spec.overrides[1]: Duplicate value: {"name":"a"}`,
		},
		"an image and a tag": {
			spec: image + "overrides: [{name: a, image: b, imageTag: c}]",
			want: images,
		},
		"an image and a registry": {
			spec: image + "overrides: [{name: a, image: b, imageRegistry: c}]",
			want: images,
		},
		"an image with a space": {
			spec: image + `overrides: [{name: a, image: "b c"}]`,
			want: `spec.overrides[0].image: Invalid value: "b c": image must name a container image, such as registry.example/team/app:1.2, without spaces, control characters and letters that are not ASCII`,
		},
		"a registry with a scheme": {
			spec: image + `overrides: [{name: a, imageRegistry: "https://registry.example"}]`,
			want: `spec.overrides[0].imageRegistry: Invalid value: "https://registry.example": ` + registry,
		},
		"a registry that ends with a slash": {
			spec: image + `overrides: [{name: a, imageRegistry: registry.example/}]`,
			want: `spec.overrides[0].imageRegistry: Invalid value: "registry.example/": ` + registry,
		},
		"a tag with its colon": {
			spec: image + `overrides: [{name: a, imageTag: ":1.2"}]`,
			want: `spec.overrides[0].imageTag: Invalid value: ":1.2": ` + tag,
		},
		"a digest that is too short": {
			spec: image + `overrides: [{name: a, imageTag: "sha256:0123"}]`,
			want: `spec.overrides[0].imageTag: Invalid value: "sha256:0123": ` + tag,
		},
		"negative replicas": {
			spec: image + "overrides: [{name: a, replicas: -1}]",
			want: "spec.overrides[0].replicas: Invalid value: -1: replicas must be zero or more",
		},
		"an unknown type of Service": {
			spec: image + "overrides: [{name: a, serviceType: ExternalName}]",
			want: `[spec.overrides[0].serviceType: Unsupported value: "ExternalName": supported values: "ClusterIP", "NodePort", "LoadBalancer"` + unchecked,
		},
		"a claim among the resources": {
			spec: image + "overrides: [{name: a, resources: {claims: [{name: a}]}}]",
			want: `AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.overrides[0].resources.claims"`,
		},
		"an unknown operator": {
			spec: image + "overrides: [{name: a, clusterSelector: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}]",
			want: `[spec.overrides[0].clusterSelector.matchExpressions[0].operator: Unsupported value: "Gt": supported values: "In", "NotIn", "Exists", "DoesNotExist"` + unchecked,
		},
		"a patch of a kind that a member does not get": {
			spec: image + "overrides: [{name: a, patches: [{target: Pod, operations: [{op: remove, path: /a}]}]}]",
			want: `[spec.overrides[0].patches[0].target: Unsupported value: "Pod": supported values: "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"` + unchecked,
		},
		"a patch that does nothing": {
			spec: patch(""),
			want: "spec.overrides[0].patches[0].operations: Invalid value: 0: spec.overrides[0].patches[0].operations in body should have at least 1 items",
		},
		"an unknown op": {
			spec: patch("{op: merge, path: /a, value: 1}"),
			want: `[spec.overrides[0].patches[0].operations[0].op: Unsupported value: "merge": supported values: "add", "remove", "replace", "move", "copy", "test"` + unchecked,
		},
		"an op without a path": {
			spec: patch("{op: remove}"),
			want: "[spec.overrides[0].patches[0].operations[0].path: Required value" + unchecked,
		},
		"a path with dots": {
			spec: patch("{op: remove, path: spec.replicas}"),
			want: `spec.overrides[0].patches[0].operations[0].path: Invalid value: "spec.replicas": path must be a JSON pointer, such as /spec/template/spec/hostAliases`,
		},
		"the path of the whole object": {
			spec: patch(`{op: replace, path: "", value: {}}`),
			want: `spec.overrides[0].patches[0].operations[0].path: Invalid value: "": path must be a JSON pointer, such as /spec/template/spec/hostAliases`,
		},
		"a move without from": {
			spec: patch("{op: move, path: /a}"),
			want: from,
		},
		"a removal with from": {
			spec: patch("{op: remove, path: /a, from: /b}"),
			want: from,
		},
		"a move from a path with dots": {
			spec: patch("{op: move, path: /a, from: b}"),
			want: `spec.overrides[0].patches[0].operations[0].from: Invalid value: "b": from must be a JSON pointer, such as /spec/template/metadata/labels`,
		},
	})
}

// The value of an operation can be any value of a field.
func TestPatch_keeps_any_JSON_value(t *testing.T) {
	for title, value := range map[string]string{
		"a string":             `"s"`,
		"an empty string":      `""`,
		"a number":             `5`,
		"zero":                 `0`,
		"a fraction":           `0.5`,
		"the largest number":   `9223372036854775807`,
		"true":                 `true`,
		"false":                `false`,
		"an object":            `{"a":{"b":[1,null,"c"],"d":null}}`,
		"an empty object":      `{}`,
		"a list":               `[{"a":1},[],null,"b"]`,
		"an empty list":        `[]`,
		"the string null":      `"null"`,
		"non-ASCII characters": `"é→\n"`,
	} {
		t.Run(title, func(t *testing.T) {
			app := &v1alpha1.AppService{}
			app.Namespace, app.GenerateName = "default", "patch-"
			app.Spec.Image = "registry.example/web:1"
			app.Spec.Overrides = []v1alpha1.Override{{Name: "a", Patches: []v1alpha1.Patch{{
				Target:     v1alpha1.PatchDeployment,
				Operations: []v1alpha1.PatchOperation{{Op: "add", Path: "/x", Value: &v1alpha1.JSON{Raw: []byte(value)}}},
			}}}}
			if err := hub.Create(t.Context(), app); err != nil {
				t.Fatal(err)
			}
			got := &v1alpha1.AppService{}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), got); err != nil {
				t.Fatal(err)
			}
			stored := got.Spec.Overrides[0].Patches[0].Operations[0].Value
			if stored == nil {
				t.Fatal("the value is missing")
			}
			if diff := cmp.Diff(value, string(stored.Raw)); diff != "" {
				t.Errorf("value (-written +read):\n%s", diff)
			}
			// A typed client writes back the same value.
			if err := hub.Update(t.Context(), got); err != nil {
				t.Fatal(err)
			}
			if got.Generation != 1 {
				t.Errorf("generation %d after it was written back", got.Generation)
			}
		})
	}
}

// A missing value and null are the same, because some clients write one as the other. A rule of the
// CRD cannot check a field of any type: the entry of the cluster reports a missing value.
func TestPatch_treats_null_as_no_value(t *testing.T) {
	tests := map[string]accepted{}
	for _, op := range []string{"add", "replace", "test"} {
		spec := least + "overrides: [{name: a, patches: [{target: Deployment, operations: [%s]}]}]"
		tests[op] = accepted{
			spec: fmt.Sprintf(spec, "{op: "+op+", path: /x, value: null}"),
			want: fmt.Sprintf(spec, "{op: "+op+", path: /x}"),
		}
	}
	testAccepted(t, tests)
}

// The API server limits the cost of the rules. An object that exceeds the limit cannot be written.
func TestAppService_of_a_megabyte_stays_within_the_cost_limit_of_the_rules(t *testing.T) {
	requirements := strings.Repeat("{key: a, operator: In, values: [b]}, ", 64)
	operations := strings.Repeat("{op: add, path: /spec/template/spec/hostAliases, value: 1}, ", 64)
	patches := strings.Repeat("{target: Deployment, operations: ["+operations+"]}, ", 2)
	var overrides strings.Builder
	for i := range 64 {
		fmt.Fprintf(&overrides, "- {name: o%d, clusterSelector: {matchExpressions: [%s]}, image: %s, patches: [%s]}\n", i, requirements, strings.Repeat("a", 1024), patches)
	}
	object := newManifest(t, "large", image+"ports:\n"+ports(32)+"placement:\n  clusterNames:\n"+clusterNameList(1000)+"overrides:\n"+overrides.String())
	t.Logf("%d bytes", len(asYAML(t, object.Object["spec"])))
	if _, err := dryRunCreate(t, object); err != nil {
		t.Error(err)
	}
}
