package workload_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

// onMember is a client of a member's API server. Only a real API server shows which defaults it
// sets and what it refuses.
var (
	memberServer = servertest.New()
	onMember     client.Client
)

// release is the member's Kubernetes version.
var release *version.Version

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // some tests wait for the API server, others for a lock
		panic(err)
	}
	os.Exit(servertest.Run(m.Run, connect, memberServer))
}

func connect() (err error) {
	if onMember, err = client.New(memberServer.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	release, err = releaseOf(memberServer.Config)
	return err
}

func releaseOf(config *rest.Config) (*version.Version, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	server, err := discoverer.ServerVersion()
	if err != nil {
		return nil, err
	}
	return version.ParseGeneric(server.GitVersion)
}

// tooNew reports whether a golden needs a newer Kubernetes than the member's.
func tooNew(g golden) bool {
	return g.since != "" && release.LessThan(version.MustParseGeneric(g.since))
}

// testingT is the common interface of tests and property tests.
type testingT interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func namespace(t *testing.T, name string) string {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := onMember.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	return name
}

func inNamespace(want *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	moved := want.DeepCopy()
	moved.SetNamespace(namespace)
	return moved
}

// applied returns an object as the API server returns it after an apply.
func applied(t *testing.T, want *unstructured.Unstructured, namespace string, options ...client.ApplyOption) (*unstructured.Unstructured, error) {
	sent := inNamespace(want, namespace)
	options = append(options, client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership)
	err := onMember.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(sent), options...)
	return sent, err
}

var types = applyconfigurations.NewTypeConverter(scheme.Scheme)

// lacks returns the fields of want that an object lacks, compared as in delivery.
func lacks(t testingT, existing, want *unstructured.Unstructured) string {
	t.Helper()
	wanted, err := types.ObjectToTyped(inNamespace(want, existing.GetNamespace()))
	if err != nil {
		t.Fatal(err)
	}
	holds, err := types.ObjectToTyped(existing)
	if err != nil {
		t.Fatal(err)
	}
	fields, err := wanted.ToFieldSet()
	if err != nil {
		t.Fatal(err)
	}
	difference, err := wanted.Compare(holds.ExtractItems(fields))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	difference.Added.Union(difference.Modified).Union(difference.Removed).Iterate(func(path fieldpath.Path) { paths = append(paths, path.String()) })
	return strings.Join(paths, "\n")
}

// Invariant 5: an applied object equals the desired one, and applying it again is no write. The test
// runs alone, because no other Service may have its node ports.
func TestServer_keeps_all_rendered_fields(t *testing.T) {
	for _, test := range goldens {
		t.Run(test.golden, func(t *testing.T) {
			if tooNew(test) {
				t.Skipf("it has fields of Kubernetes %s, and this is %s", test.since, release)
			}
			namespace := namespace(t, test.golden)
			for _, want := range objects(test.render(t)) {
				first, err := applied(t, want, namespace)
				if err != nil {
					t.Fatal(err)
				}
				if lacking := lacks(t, first, want); lacking != "" {
					t.Errorf("%s lacks\n%s", want.GetKind(), lacking)
				}
				second, err := applied(t, want, namespace)
				if err != nil {
					t.Fatal(err)
				}
				if first.GetResourceVersion() != second.GetResourceVersion() {
					t.Errorf("applying the %s again changed it", want.GetKind())
				}
				if err := onMember.Delete(t.Context(), second); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// An AppService can change to any other: the API server's defaults for the old one do not block the
// new one, and no field of the old one remains.
func TestServer_accepts_each_golden_after_each_other(t *testing.T) {
	t.Parallel()
	fresh := namespace(t, "fresh")
	var rendered []*appliedGolden
	for _, g := range goldens {
		if tooNew(g) {
			continue
		}
		objects := objects(g.render(t))
		alone, err := applied(t, objects[0], fresh, client.DryRunAll)
		if err != nil {
			t.Fatal(err)
		}
		rendered = append(rendered, &appliedGolden{g.golden, objects, specOf(alone)})
	}
	namespace := namespace(t, "one-after-the-other")
	for i, from := range rendered {
		for _, to := range rendered[i+1:] {
			from.apply(t, namespace)
			existing := to.apply(t, namespace)
			if diff := cmp.Diff(to.alone, specOf(existing)); diff != "" {
				t.Errorf("%s after %s (-alone +after):\n%s", to.golden, from.golden, diff)
			}
		}
	}
}

// appliedGolden is a golden with its objects, and the spec of its Deployment if nothing else was
// applied before.
type appliedGolden struct {
	golden  string
	objects []*unstructured.Unstructured
	alone   map[string]any
}

// specOf returns the spec without the replicas, because delivery keeps replicas that an autoscaler
// has set.
func specOf(deployment *unstructured.Unstructured) map[string]any {
	spec, _, _ := unstructured.NestedMap(deployment.Object, "spec")
	delete(spec, "replicas")
	return spec
}

// apply applies the objects, and returns the Deployment.
func (g *appliedGolden) apply(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	var deployment *unstructured.Unstructured
	for _, want := range g.objects {
		// The API server would keep the defaulted rollingUpdate. Delivery removes it first.
		if g.golden == "recreate" {
			if err := onMember.Delete(t.Context(), inNamespace(want, namespace)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
		existing, err := applied(t, want, namespace)
		if err != nil {
			t.Fatalf("%s: %v", g.golden, err)
		}
		if lacking := lacks(t, existing, want); lacking != "" {
			t.Errorf("%s: the %s lacks\n%s", g.golden, want.GetKind(), lacking)
		}
		if want.GetKind() == "Deployment" {
			deployment = existing
		}
	}
	return deployment
}

// The API server accepts everything that the schema permits, and no field differs afterwards.
func TestServer_accepts_any_AppService(t *testing.T) {
	t.Parallel()
	namespace := namespace(t, "any")
	checkProperty(t, func(r *rapid.T) {
		for _, want := range objects(anyInput.Draw(r, "input").render(r)) {
			existing, err := applied(t, want, namespace, client.DryRunAll)
			if err != nil {
				r.Fatal(err)
			}
			if lacking := lacks(r, existing, want); lacking != "" {
				r.Fatalf("the %s lacks\n%s", want.GetKind(), lacking)
			}
		}
	})
}

// One AppService becomes any other, and the API server's defaults for the first do not block the
// change.
func TestServer_accepts_any_AppService_after_any_other(t *testing.T) {
	t.Parallel()
	namespace := namespace(t, "any-after-any-other")
	checkProperty(t, func(r *rapid.T) {
		in := anyInput.Draw(r, "input")
		in.app.Name = "web"
		want := in.render(r).Deployment
		if in.app.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
			r.Skip("delivery takes away the rollingUpdate first")
		}
		existing, err := applied(t, want, namespace)
		if err != nil {
			r.Fatal(err)
		}
		if lacking := lacks(r, existing, want); lacking != "" {
			r.Fatalf("the %s lacks\n%s", want.GetKind(), lacking)
		}
	})
}

// A choice without a value, such as a probe without a handler, reaches the member and is refused
// there. It can come from a patch, or from an AppService that is older than the schema's check.
func TestServer_refuses_a_choice_without_a_value(t *testing.T) {
	t.Parallel()
	namespace := namespace(t, "choices")
	patched := func(path, value string) string {
		return fmt.Sprintf("overrides: [{name: a, patches: [{target: Deployment, operations: [{op: add, path: /spec/template/spec/%s, value: %s}]}]}]", path, value)
	}
	for name, spec := range map[string]string{
		"a liveness probe":                `livenessProbe: {}`,
		"a readiness probe":               `readinessProbe: {}`,
		"a startup probe":                 `startupProbe: {}`,
		"a probe without a command":       `livenessProbe: {exec: {}}`,
		"a preStop":                       `lifecycle: {preStop: {}}`,
		"a postStart":                     `lifecycle: {postStart: {}}`,
		"a preStop without a command":     `lifecycle: {preStop: {exec: {command: []}}}`,
		"a variable":                      `env: [{name: A, valueFrom: {}}]`,
		"variables":                       `envFrom: [{}]`,
		"a required node affinity":        `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}`,
		"a CSI Secret":                    `volumes: [{name: a, csi: {driver: a.example, nodePublishSecretRef: {}}}]`,
		"a liveness probe by a patch":     patched("containers/0/livenessProbe", "{}"),
		"a preStop by a patch":            patched("containers/0/lifecycle", "{preStop: {}}"),
		"a variable by a patch":           patched("containers/0/env", "[{name: A, valueFrom: {}}]"),
		"a node affinity by a patch":      patched("affinity", "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}"),
		"a probe of a sidecar by a patch": patched("initContainers", `[{name: a, image: a, restartPolicy: Always, startupProbe: {}}]`),
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := workload.Render(app(t, "image: web:1\n"+spec), entry(1), member(), "hub-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := applied(t, rendered.Deployment, namespace, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("the member answers %v, want a refusal", err)
			}
		})
	}
	t.Run("an empty volume selector is kept", func(t *testing.T) {
		rendered, err := workload.Render(app(t, "image: web:1\n"+
			`volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], selector: {}, resources: {requests: {storage: 1Gi}}}}}}]`), entry(1), member(), "hub-1", nil)
		if err != nil {
			t.Fatal(err)
		}
		existing, err := applied(t, rendered.Deployment, namespace, client.DryRunAll)
		if err != nil {
			t.Fatal(err)
		}
		volumes, _, _ := unstructured.NestedSlice(existing.Object, "spec", "template", "spec", "volumes")
		if _, found, _ := unstructured.NestedMap(volumes[0].(map[string]any), "ephemeral", "volumeClaimTemplate", "spec", "selector"); !found {
			t.Errorf("the claim lost its selector: %v", volumes[0])
		}
	})
}

// The references that are left alone because a Deployment cannot have them are refused.
func TestServer_refuses_references_that_are_left_alone(t *testing.T) {
	t.Parallel()
	namespace := namespace(t, "left-alone")
	container := func(fields string) string {
		return "{op: add, path: /spec/template/spec/ephemeralContainers, value: [{name: a, image: a, " + fields + "}]}"
	}
	claim := func(metadata, spec string) string {
		return "{op: add, path: /spec/template/spec/volumes, value: [{name: a, ephemeral: {volumeClaimTemplate: {metadata: {" + metadata + "}, " +
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}" + spec + "}}}}]}"
	}
	tests := map[string]struct{ operation, field string }{
		"ephemeralContainers.env.valueFrom.configMapKeyRef.name":              {container("env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: a}}}]"), "spec.template.spec.ephemeralContainers"},
		"ephemeralContainers.env.valueFrom.secretKeyRef.name":                 {container("env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: a}}}]"), "spec.template.spec.ephemeralContainers"},
		"ephemeralContainers.envFrom.configMapRef.name":                       {container("envFrom: [{configMapRef: {name: a}}]"), "spec.template.spec.ephemeralContainers"},
		"ephemeralContainers.envFrom.secretRef.name":                          {container("envFrom: [{secretRef: {name: a}}]"), "spec.template.spec.ephemeralContainers"},
		"volumes.ephemeral.volumeClaimTemplate.metadata.ownerReferences.name": {claim("ownerReferences: [{apiVersion: v1, kind: Secret, name: a, uid: a}]", ""), "volumeClaimTemplate.metadata.ownerReferences"},
		"volumes.ephemeral.volumeClaimTemplate.spec.dataSource.name":          {claim("", ", dataSource: {kind: Secret, name: a}"), "volumeClaimTemplate.spec.dataSource"},
		"volumes.ephemeral.volumeClaimTemplate.spec.dataSourceRef.name":       {claim("", ", dataSourceRef: {kind: ConfigMap, name: a}"), "volumeClaimTemplate.spec.dataSourceRef"},
	}
	for path, reason := range leftAlone {
		test, isTested := tests[path]
		if isTested != (reason == refusedByServer) {
			t.Errorf("%s is tested here: %t", path, isTested)
		}
		if !isTested {
			continue
		}
		t.Run(path, func(t *testing.T) {
			rendered, err := workload.Render(app(t, "{image: web, overrides: [{name: a, "+patch("Deployment", test.operation)+"}]}"), entry(1), member(), "hub-1", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = applied(t, rendered.Deployment, namespace, client.DryRunAll)
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.field+": ") {
				t.Errorf("the member answers %v, want a refusal of %s", err, test.field)
			}
		})
	}
}
