package workload_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/controllers/workload"
)

// The message for an override that stops a cluster contains everything needed to fix it: the
// override, the operation, the problem and the reason.
func TestRender_refuses_an_override(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		override string
		want     string
	}{
		"with an invalid selector": {
			`clusterSelector: {matchLabels: {"-": x}}`,
			`clusterSelector: matchLabels: key: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
		},
		"with an unknown variable":             {`env: [{name: A, value: $(cluster.region)}]`, `env[name=A]: unknown variable $(cluster.region): use $(cluster.name) or $(cluster.labels['KEY']), or write $$(cluster.region) for the literal text`},
		"with a label that the member lacks":   {`env: [{name: A, value: "$(cluster.labels['no'])"}]`, `env[name=A]: $(cluster.labels['no']): the MemberCluster has no label "no"`},
		"with an unclosed variable":            {`env: [{name: A, value: "$(cluster.name"}]`, `env[name=A]: "$(cluster.name" has no closing )`},
		"with unbalanced quotes":               {`env: [{name: A, value: "$(cluster.labels['region\"])"}]`, `env[name=A]: unknown variable $(cluster.labels['region"]): use $(cluster.name) or $(cluster.labels['KEY']), or write $$(cluster.labels['region"]) for the literal text`},
		"with a serviceType without nodePorts": {`serviceType: ClusterIP`, `serviceType ClusterIP allows no nodePort: remove nodePort 30080 of port 80 from spec.ports`},
		"of a missing autoscaler":              {patch("HorizontalPodAutoscaler", `{op: remove, path: /spec/metrics}`), `patches[0]: there is no HorizontalPodAutoscaler to patch, because spec.autoscaling is not set`},
		"of a missing disruption budget":       {patch("PodDisruptionBudget", `{op: remove, path: /spec/minAvailable}`), `patches[0]: there is no PodDisruptionBudget to patch, because spec.disruptionBudget is not set`},

		"of apiVersion":                   onDeployment(`{op: replace, path: /apiVersion, value: v1}`, `replace /apiVersion`, `apiVersion must not be changed: it identifies the kind of the object`),
		"of kind":                         onDeployment(`{op: replace, path: /kind, value: Pod}`, `replace /kind`, `kind must not be changed: it identifies the kind of the object`),
		"of the name":                     onDeployment(`{op: replace, path: /metadata/name, value: x}`, `replace /metadata/name`, `metadata.name must not be changed: in metadata, a patch may change only labels and annotations`),
		"of the namespace":                onDeployment(`{op: remove, path: /metadata/namespace}`, `remove /metadata/namespace`, `metadata.namespace must not be changed: in metadata, a patch may change only labels and annotations`),
		"of the owners":                   onDeployment(`{op: add, path: /metadata/ownerReferences, value: []}`, `add /metadata/ownerReferences`, `metadata.ownerReferences must not be changed: in metadata, a patch may change only labels and annotations`),
		"of the finalizers":               onDeployment(`{op: add, path: /metadata/finalizers, value: [x]}`, `add /metadata/finalizers`, `metadata.finalizers must not be changed: in metadata, a patch may change only labels and annotations`),
		"of all metadata":                 onDeployment(`{op: remove, path: /metadata}`, `remove /metadata`, `metadata.name must not be changed: in metadata, a patch may change only labels and annotations`),
		"of the AppService label":         onDeployment(`{op: replace, path: /metadata/labels/fleetwright.dev~1appservice, value: x}`, `replace /metadata/labels/fleetwright.dev~1appservice`, `metadata.labels[fleetwright.dev/appservice] must not be changed: it belongs to Fleetwright`),
		"of managed-by":                   onDeployment(`{op: remove, path: /metadata/labels/app.kubernetes.io~1managed-by}`, `remove /metadata/labels/app.kubernetes.io~1managed-by`, `metadata.labels[app.kubernetes.io/managed-by] must not be changed: it belongs to Fleetwright`),
		"of all labels":                   onDeployment(`{op: replace, path: /metadata/labels, value: {a: b}}`, `replace /metadata/labels`, `metadata.labels[app.kubernetes.io/managed-by] must not be changed: it belongs to Fleetwright`),
		"of the hub annotation":           onDeployment(`{op: replace, path: /metadata/annotations/fleetwright.dev~1hub, value: x}`, `replace /metadata/annotations/fleetwright.dev~1hub`, `metadata.annotations[fleetwright.dev/hub] must not be changed: it belongs to Fleetwright`),
		"of the generation":               onDeployment(`{op: add, path: /metadata/annotations/fleetwright.dev~1generation, value: "99"}`, `add /metadata/annotations/fleetwright.dev~1generation`, `metadata.annotations[fleetwright.dev/generation] must not be changed: it belongs to Fleetwright`),
		"of the selector":                 onDeployment(`{op: add, path: /spec/selector/matchLabels/a, value: b}`, `add /spec/selector/matchLabels/a`, `spec.selector must not be changed: it selects the pods of the AppService`),
		"of a pod's label":                onDeployment(`{op: remove, path: /spec/template/metadata/labels/app.kubernetes.io~1name}`, `remove /spec/template/metadata/labels/app.kubernetes.io~1name`, `spec.template.metadata.labels[app.kubernetes.io/name] must not be changed: it belongs to Fleetwright`),
		"of all pods' labels":             onDeployment(`{op: replace, path: /spec/template/metadata, value: {}}`, `replace /spec/template/metadata`, `spec.template.metadata.labels[app.kubernetes.io/managed-by] must not be changed: it belongs to Fleetwright`),
		"of the replicas":                 onDeployment(`{op: replace, path: /spec/replicas, value: 9}`, `replace /spec/replicas`, `spec.replicas must not be changed: set replicas of the override, or replicaPolicy of the AppService`),
		"that removes the replicas":       onDeployment(`{op: remove, path: /spec/replicas}`, `remove /spec/replicas`, `spec.replicas must not be changed: set replicas of the override, or replicaPolicy of the AppService`),
		"of the whole spec":               onDeployment(`{op: replace, path: /spec, value: {}}`, `replace /spec`, `spec.selector must not be changed: it selects the pods of the AppService`),
		"of the status":                   onDeployment(`{op: add, path: /status, value: {}}`, `add /status`, `status must not be changed: the member sets it`),
		"of an unknown field":             onDeployment(`{op: add, path: /spec/template/spec/hostaliases, value: []}`, `add /spec/template/spec/hostaliases`, `strict decoding error: unknown field "spec.template.spec.hostaliases"`),
		"in the wrong case":               onDeployment(`{op: add, path: /spec/Paused, value: true}`, `add /spec/Paused`, `strict decoding error: unknown field "spec.Paused"`),
		"of the wrong type":               onDeployment(`{op: add, path: /spec/paused, value: "yes"}`, `add /spec/paused`, `spec.paused must be a boolean, not a string`),
		"with a number that is too large": onDeployment(`{op: add, path: /spec/revisionHistoryLimit, value: 4294967297}`, `add /spec/revisionHistoryLimit`, `spec.revisionHistoryLimit must be an integer of 32 bits, not the number 4294967297`),
		"with a bad quantity":             onDeployment(`{op: add, path: /spec/template/spec/containers/0/resources, value: {limits: {cpu: many}}}`, `add /spec/template/spec/containers/0/resources`, `quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`),
		"with a path without a parent":    onDeployment(`{op: add, path: /spec/template/spec/nodeSelector/a, value: b}`, `add /spec/template/spec/nodeSelector/a`, `add operation does not apply: doc is missing path: "/spec/template/spec/nodeSelector/a": missing value`),
		"with a negative index":           onDeployment(`{op: remove, path: /spec/template/spec/containers/-1}`, `remove /spec/template/spec/containers/-1`, `error in remove for path: '/spec/template/spec/containers/-1': Unable to access invalid index: -1: invalid index referenced`),
		"with a failing test":             onDeployment(`{op: test, path: /spec/template/spec/containers/0/image, value: x}`, `test /spec/template/spec/containers/0/image`, `testing value /spec/template/spec/containers/0/image failed: test failed`),
		"with a test for null":            onDeployment(`{op: test, path: /spec/template/spec/containers, value: [null]}`, `test /spec/template/spec/containers`, `value contains null: remove it`),
		"without a value":                 onDeployment(`{op: add, path: /spec/paused}`, `add /spec/paused`, `needs a value that is not null; to remove a field, use op remove`),
		"with a null inside the value":    onDeployment(`{op: add, path: /spec/template/spec/nodeSelector, value: {a: null}}`, `add /spec/template/spec/nodeSelector`, `value contains null: remove it`),
		"of the whole object":             onDeployment(`{op: replace, path: /, value: {}}`, `replace /`, `path "/" must be a JSON pointer to a field, such as /spec/template`),
		"with an empty path segment":      onDeployment(`{op: replace, path: //spec/replicas, value: 3}`, `replace //spec/replicas`, `path "//spec/replicas" must be a JSON pointer to a field, such as /spec/template`),
		"with a copy without a source":    onDeployment(`{op: copy, path: /spec/paused}`, `copy /spec/paused`, `from "" must be a JSON pointer to a field, such as /spec/template`),
		"with an unknown operation":       onDeployment(`{op: merge, path: /spec/paused, value: true}`, `merge /spec/paused`, `op must be add, remove, replace, move, copy or test`),
		"with a duplicate container":      onDeployment(`{op: copy, from: /spec/template/spec/containers/0, path: /spec/template/spec/containers/-}`, `copy /spec/template/spec/containers/-`, `containers contains app twice`),
		"with a duplicate variable":       onDeployment(`{op: add, path: /spec/template/spec/containers/0/env, value: [{name: A}, {name: A}]}`, `add /spec/template/spec/containers/0/env`, `env contains A twice`),

		"of the Service's selector":           {patch("Service", `{op: replace, path: /spec/selector, value: {a: b}}`), `patches[0] of the Service: operations[0] (replace /spec/selector): spec.selector must not be changed: it selects the pods of the AppService`},
		"with a duplicate port":               {patch("Service", `{op: add, path: /spec/ports/-, value: {name: again, port: 80}}`), `patches[0] of the Service: operations[0] (add /spec/ports/-): spec.ports contains port 80, protocol TCP twice`},
		"with a targetPort of the wrong type": {patch("Service", `{op: replace, path: /spec/ports/0/targetPort, value: true}`), `patches[0] of the Service: operations[0] (replace /spec/ports/0/targetPort): spec.ports.targetPort must be an integer of 32 bits, not a boolean`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := "image: registry.example/web:1\nports: [{port: 80, nodePort: 30080}]\noverrides: [{name: bad, " + test.override + "}]"
			refused(t, spec, test.want)
		})
	}
}

func patch(target, operation string) string {
	return fmt.Sprintf("patches: [{target: %s, operations: [%s]}]", target, operation)
}

func onDeployment(operation, which, want string) struct{ override, want string } {
	return struct{ override, want string }{
		patch("Deployment", operation), fmt.Sprintf("patches[0] of the Deployment: operations[0] (%s): %s", which, want),
	}
}

func refused(t *testing.T, spec, want string) {
	t.Helper()
	_, err := workload.Render(app(t, spec), entry(1), member(), "hub-1", nil)
	var override *workload.OverrideError
	if !errors.As(err, &override) {
		t.Fatalf("error %v is no OverrideError", err)
	}
	if diff := cmp.Diff("bad", override.Override); diff != "" {
		t.Errorf("override (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(`override "bad": `+want, err.Error()); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
	if !workload.IsInvalid(err) {
		t.Error("IsInvalid reports false")
	}
}

func TestRender_refuses_a_patch_of_an_autoscaler(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		`{op: replace, path: /spec/minReplicas, value: 2}`:          `operations[0] (replace /spec/minReplicas): spec.minReplicas must not be changed: set autoscaling.minReplicas of the AppService`,
		`{op: replace, path: /spec/maxReplicas, value: 2}`:          `operations[0] (replace /spec/maxReplicas): spec.maxReplicas must not be changed: set autoscaling.maxReplicas of the AppService`,
		`{op: replace, path: /spec/scaleTargetRef/name, value: x}`:  `operations[0] (replace /spec/scaleTargetRef/name): spec.scaleTargetRef must not be changed: it scales the AppService's Deployment`,
		`{op: add, path: /spec/metrics, value: [{type: Resource}]}`: ``,
	} {
		t.Run(operation, func(t *testing.T) {
			spec := "{image: web, autoscaling: {maxReplicas: 4}, overrides: [{name: bad, " + patch("HorizontalPodAutoscaler", operation) + "}]}"
			entry := entry(1)
			entry.MinReplicas, entry.MaxReplicas = 1, 4
			_, err := workload.Render(app(t, spec), entry, member(), "hub-1", nil)
			if want == "" && err == nil {
				return
			}
			if diff := cmp.Diff(fmt.Sprintf("override \"bad\": patches[0] of the HorizontalPodAutoscaler: %s", want), fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRender_refuses_a_patch_of_a_missing_object(t *testing.T) {
	t.Parallel()
	t.Run("a Service without ports", func(t *testing.T) {
		refused(t, `{image: web, overrides: [{name: bad, `+patch("Service", `{op: add, path: /spec/sessionAffinity, value: ClientIP}`)+`}]}`,
			`patches[0]: there is no Service to patch, because spec.ports is empty`)
	})
	t.Run("a type of a Service without ports", func(t *testing.T) {
		refused(t, `{image: web, overrides: [{name: bad, serviceType: LoadBalancer}]}`,
			`serviceType LoadBalancer: there is no Service, because spec.ports is empty`)
	})
	t.Run("replicas of an autoscaled AppService", func(t *testing.T) {
		refused(t, `{image: web, externallyScaled: true, overrides: [{name: bad, `+patch("Deployment", `{op: add, path: /spec/replicas, value: 1}`)+`}]}`,
			`patches[0] of the Deployment: operations[0] (add /spec/replicas): spec.replicas must not be changed: set replicas of the override, or replicaPolicy of the AppService`)
	})
}

// The message names the operation that causes the problem. Problems that a later operation fixes do
// not count.
func TestRender_names_the_failing_operation(t *testing.T) {
	t.Parallel()
	operations := []string{
		`{op: remove, path: /spec/replicas}`,
		`{op: add, path: /spec/replicas, value: 1}`, // restores the field
		`{op: add, path: /spec/paused, value: "no"}`,
		`{op: replace, path: /spec/paused, value: false}`,
		`{op: add, path: /spec/selector/matchLabels/a, value: b}`, // the first problem that stays
		`{op: add, path: /spec/revisionHistoryLimit, value: 1}`,
	}
	refused(t, `{image: web, overrides: [{name: bad, `+patch("Deployment", strings.Join(operations, ", "))+`}]}`,
		`patches[0] of the Deployment: operations[4] (add /spec/selector/matchLabels/a): spec.selector must not be changed: it selects the pods of the AppService`)
	operations = append(operations[:4], `{op: remove, path: /spec/minReadySeconds}`, operations[4])
	refused(t, `{image: web, overrides: [{name: bad, `+patch("Deployment", strings.Join(operations, ", "))+`}]}`,
		`patches[0] of the Deployment: operations[4] (remove /spec/minReadySeconds): error in remove for path: '/spec/minReadySeconds': unable to remove nonexistent key: minReadySeconds: missing value`)
}

// Parsing such a number would use all time and memory.
func TestRender_refuses_impossible_numbers(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"1e-2000000000"`, `"1234567890123456789e2147483639"`} {
		refused(t, `{image: web, overrides: [{name: bad, `+patch("Deployment", `{op: add, path: /spec/template/spec/overhead, value: {cpu: `+value+`}}`)+`}]}`,
			`patches[0] of the Deployment: operations[0] (add /spec/template/spec/overhead): value contains the impossible number "`+strings.Trim(value, `"`)+`"`)
	}
}

// A few short operations could create an object that does not fit into memory.
func TestRender_limits_the_size_of_patched_objects(t *testing.T) {
	t.Parallel()
	operations := []string{`{op: add, path: /spec/template/metadata/annotations, value: {a: ` + strings.Repeat("x", 100_000) + `}}`}
	for i := range 40 {
		operations = append(operations, fmt.Sprintf(`{op: copy, from: /spec/template/metadata/annotations/a, path: /spec/template/metadata/annotations/a%d}`, i))
	}
	refused(t, `{image: web, overrides: [{name: bad, `+patch("Deployment", strings.Join(operations, ", "))+`}]}`,
		`patches[0] of the Deployment: operations[11] (copy /spec/template/metadata/annotations/a10): the copies of the patch add more than 1048576 bytes: copy less`)
	operations = operations[:1]
	for range 12 {
		operations = append(operations, `{op: copy, from: /spec/template/metadata/annotations/a, path: /metadata/annotations/a}`)
	}
	// The object is small after this operation.
	operations = append(operations, `{op: remove, path: /metadata/annotations/a}`)
	refused(t, `{image: web, overrides: [{name: bad, `+patch("Deployment", strings.Join(operations, ", "))+`}]}`,
		`patches[0] of the Deployment: operations[11] (copy /metadata/annotations/a): the copies of the patch add more than 1048576 bytes: copy less`)
	large := strings.Repeat("x", 1<<20)
	refused(t, `{image: web, overrides: [{name: bad, `+patch("Deployment", `{op: add, path: /spec/template/metadata/annotations, value: {a: `+large+`}}`)+`}]}`,
		`patches[0] of the Deployment: the object would have 1049184 bytes, and the limit is 1048576: make the patches smaller`)
}

func TestRender_refuses_a_variable_of_the_spec(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		`env: [{name: A, value: $(cluster.uid)}]`:                                                   `spec.env[name=A]: unknown variable $(cluster.uid): use $(cluster.name) or $(cluster.labels['KEY']), or write $$(cluster.uid) for the literal text`,
		`podAnnotations: {b: "$(cluster.labels['no'])", a: "$(cluster.labels['no'])"}`:              `spec.podAnnotations[a]: $(cluster.labels['no']): the MemberCluster has no label "no"`,
		`initContainers: [{name: i, image: i, env: [{name: A, value: "$(cluster.labels['no'])"}]}]`: `spec.initContainers[name=i].env[name=A]: $(cluster.labels['no']): the MemberCluster has no label "no"`,
		`deployment: {annotations: {a: "$(cluster.labels['no'])"}}`:                                 `spec.deployment.annotations[a]: $(cluster.labels['no']): the MemberCluster has no label "no"`,
		`ports: [{port: 80}], service: {annotations: {a: $(cluster.Name)}}`:                         `spec.service.annotations[a]: unknown variable $(cluster.Name): use $(cluster.name) or $(cluster.labels['KEY']), or write $$(cluster.Name) for the literal text`,
	} {
		t.Run(spec, func(t *testing.T) {
			_, err := workload.Render(app(t, "{image: web, "+spec+"}"), entry(1), member(), "hub-1", nil)
			var variable *workload.VariableError
			if !errors.As(err, &variable) {
				t.Fatalf("error %v is no VariableError", err)
			}
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if !workload.IsInvalid(fmt.Errorf("wrapped: %w", err)) {
				t.Error("IsInvalid reports false")
			}
		})
	}
	if workload.IsInvalid(errors.New("another")) {
		t.Error("IsInvalid reports true for any error")
	}
}

func TestRender_refuses_a_variable_of_the_configuration(t *testing.T) {
	t.Parallel()
	copies := workload.Copies{{Kind: workload.ConfigMap, Name: "settings"}: "web-settings-5hc9dk2m7t"}
	unlisted := `$(configuration.secret['settings']): spec.configuration has no Secret "settings": add it there, or write $$(configuration.secret['settings']) for the literal text`
	unknown := "unknown variable $(configuration.settings): use $(configuration.configMap['NAME']) or $(configuration.secret['NAME']), or write $$(configuration.settings) for the literal text"
	for spec, want := range map[string]string{
		`env: [{name: A, value: "$(configuration.secret['settings'])"}]`:                                                                                     `spec.env[name=A]: ` + unlisted,
		`env: [{name: A, value: $(configuration.settings)}]`:                                                                                                 `spec.env[name=A]: ` + unknown,
		`command: [web, "$(configuration.secret['settings'])"]`:                                                                                              `spec.command[1]: ` + unlisted,
		`args: ["--settings=$(configuration.settings)"]`:                                                                                                     `spec.args[0]: ` + unknown,
		`args: [$(configuration.]`:                                                                                                                           `spec.args[0]: "$(configuration." has no closing )`,
		`args: ["$(configuration.configMap['settings\"])"]`:                                                                                                  `spec.args[0]: unknown variable $(configuration.configMap['settings"]): use $(configuration.configMap['NAME']) or $(configuration.secret['NAME']), or write $$(configuration.configMap['settings"]) for the literal text`,
		`podAnnotations: {a: "$(configuration.secret['settings'])"}`:                                                                                         `spec.podAnnotations[a]: ` + unlisted,
		`initContainers: [{name: i, image: i, env: [{name: A, value: "$(configuration.secret['settings'])"}]}]`:                                              `spec.initContainers[name=i].env[name=A]: ` + unlisted,
		`initContainers: [{name: h, image: h}, {name: i, image: i, command: [i, i, "$(configuration.secret['settings'])"]}]`:                                 `spec.initContainers[name=i].command[2]: ` + unlisted,
		`initContainers: [{name: i, image: i, args: ["$(configuration.configMap['settings'])", $(configuration.settings)]}]`:                                 `spec.initContainers[name=i].args[1]: ` + unknown,
		`overrides: [{name: bad, env: [{name: A, value: "$(configuration.secret['settings'])"}]}]`:                                                           `override "bad": env[name=A]: ` + unlisted,
		`env: [{name: A, value: $(configuration.settings)}], overrides: [{name: bad, env: [{name: A, value: it is replaced}]}]`:                              ``,
		`deployment: {annotations: {a: $(configuration.settings)}}, ports: [{port: 80}], service: {annotations: {a: "$(configuration.secret['settings'])"}}`: ``,
	} {
		t.Run(spec, func(t *testing.T) {
			in := app(t, "{image: web, "+spec+"}")
			_, err := workload.Render(in, entry(1), member(), "hub-1", copies)
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if !workload.IsInvalid(err) {
				t.Error("IsInvalid reports false")
			}
			if _, err := workload.Render(in, entry(1), member(), "hub-1", nil); err != nil {
				t.Errorf("without copies, the text belongs to Kubernetes: %v", err)
			}
		})
	}
}

func TestRender_images(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, test := range []struct{ image, override, want string }{
		{"nginx", `imageRegistry: mirror.example`, "mirror.example/nginx"},
		{"library/nginx:1", `imageRegistry: mirror.example`, "mirror.example/library/nginx:1"},
		{"registry.example/library/nginx:1", `imageRegistry: mirror.example/hub`, "mirror.example/hub/library/nginx:1"},
		{"localhost/web:1", `imageRegistry: "mirror:5000"`, "mirror:5000/web:1"},
		{"registry:5000/web", `imageRegistry: mirror`, "mirror/web"},
		{"nginx:1", `imageRegistry: mirror.example`, "mirror.example/nginx:1"},
		{"nginx", `imageTag: "1"`, "nginx:1"},
		{"registry:5000/web", `imageTag: "1"`, "registry:5000/web:1"},
		{"registry:5000/web:1", `imageTag: "2"`, "registry:5000/web:2"},
		{"registry:5000/web@" + digest, `imageTag: "2"`, "registry:5000/web:2"},
		{"web:1@" + digest, `imageTag: "2"`, "web:2"},
		{"web:1", `imageTag: "` + digest + `"`, "web@" + digest},
		{"web:1", `imageRegistry: mirror, imageTag: "` + digest + `"`, "mirror/web@" + digest},
	} {
		t.Run(test.image+" "+test.override, func(t *testing.T) {
			rendered, err := workload.Render(app(t, fmt.Sprintf("{image: %q, overrides: [{name: a, %s}]}", test.image, test.override)), entry(1), member(), "hub-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			containers := rendered.Deployment.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)["containers"]
			if diff := cmp.Diff(test.want, containers.([]any)[0].(map[string]any)["image"]); diff != "" {
				t.Errorf("image (-want +got):\n%s", diff)
			}
		})
	}
}
