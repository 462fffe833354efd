package charts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A user of kustomize patches config/default. The values of the chart for the same render the same.
func TestValuesRenderWhatAPatchOfTheKustomizationDoes(t *testing.T) {
	for name, c := range map[string]struct{ values, kustomization string }{
		"affinity": {
			`affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"pool","operator":"In","values":["infra"]}]}]}}}`,
			patch("Deployment", "replace", "/spec/template/spec/affinity", `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"pool","operator":"In","values":["infra"]}]}]}}}`),
		},
		"topology spread constraints": {
			`topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule"}]`,
			patch("Deployment", "replace", "/spec/template/spec/topologySpreadConstraints", `[{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"DoNotSchedule"}]`),
		},
		"security context of pods": {
			`podSecurityContext={"runAsUser":1000,"fsGroup":1000,"runAsNonRoot":true}`,
			patch("Deployment", "add", "/spec/template/spec/securityContext/runAsUser", "1000") +
				patch("Deployment", "add", "/spec/template/spec/securityContext/fsGroup", "1000"),
		},
		"security context of containers": {
			`securityContext={"seLinuxOptions":{"level":"s0"},"privileged":false}`,
			patch("Deployment", "add", "/spec/template/spec/containers/0/securityContext/seLinuxOptions", `{"level":"s0"}`) +
				patch("Deployment", "add", "/spec/template/spec/containers/0/securityContext/privileged", "false"),
		},
		"annotations of the ServiceAccount": {
			`serviceAccount.annotations={"iam.example/role":"fleet"}`,
			patch("ServiceAccount", "add", "/metadata/annotations", `{"iam.example/role":"fleet"}`),
		},
		"volumes": {
			`volumes=[{"name":"ca","configMap":{"name":"corporate-ca"}}],volumeMounts=[{"name":"ca","mountPath":"/etc/ssl/corporate","readOnly":true}]`,
			patch("Deployment", "add", "/spec/template/spec/volumes", `[{"name":"ca","configMap":{"name":"corporate-ca"}}]`) +
				patch("Deployment", "add", "/spec/template/spec/containers/0/volumeMounts", `[{"name":"ca","mountPath":"/etc/ssl/corporate","readOnly":true}]`),
		},
		"disruption budget": {
			`podDisruptionBudget={"maxUnavailable":2}`,
			patch("PodDisruptionBudget", "replace", "/spec/maxUnavailable", "2"),
		},
		"disruption budget in percent": {
			`podDisruptionBudget={"maxUnavailable":"50%"}`,
			patch("PodDisruptionBudget", "replace", "/spec/maxUnavailable", `"50%"`),
		},
		"common labels": {
			`commonLabels={"team":"platform"}`,
			"labels: [{pairs: {team: platform}, includeTemplates: true}]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := kustomizeWith(t, c.kustomization)
			containerOf(t, find(t, want, "Deployment"))["image"] = image
			got := normalize(t, "fleetwright", render(t, "fleetwright", namespace, "--set-json", c.values))
			if diff := cmp.Diff(index(t, expect(t, namespace, want)), index(t, got)); diff != "" {
				t.Errorf("(-kustomize +chart):\n%s", diff)
			}
		})
	}
}

// patch returns an item of `patches` of a kustomization, in JSON patch (RFC 6902).
func patch(kind, operation, path, value string) string {
	return "- target: {kind: " + kind + "}\n  patch: '[{\"op\": \"" + operation + "\", \"path\": \"" + path + "\", \"value\": " + value + "}]'\n"
}

// kustomizeWith returns the objects of config/default in a kustomization that has more fields: items of
// `patches`, or the line of another field.
func kustomizeWith(t *testing.T, fields string) []*unstructured.Unstructured {
	t.Helper()
	config, err := filepath.Abs("../config/default")
	if err != nil {
		t.Fatal(err)
	}
	directory, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Rel(directory, config)
	if err != nil {
		t.Fatal(err)
	}
	if fields[0] == '-' {
		fields = "patches:\n" + fields
	}
	content := "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [" + base + "]\n" + fields
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return decode(t, run(t, "kubectl", "kustomize", directory))
}
