package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The manifests of one AppService in the repositories of two teams.
const (
	shops = `
image: registry.example/web:1
env:
- {name: A, value: a}
envFrom: [{configMapRef: {name: common}}]
ports:
- {name: http, port: 80}
- {name: dns, port: 53, protocol: UDP}
resources: {requests: {cpu: 1}}
volumes: [{name: a, emptyDir: {}}]
volumeMounts: [{name: a, mountPath: /a}]
imagePullSecrets: [{name: shop}]
podLabels: {team: shop}
topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}]
replicaPolicy:
  type: Divided
  rules: [{name: big, clusterNames: [east], weight: 2}]
placement:
  clusterNames: [east]
  clusterSelector: {matchLabels: {tier: prod}}
overrides:
- {name: eu, clusterNames: [east], env: [{name: A, value: b}]}
`
	platforms = `
env:
- {name: B, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
ports:
- {name: metrics, port: 9090}
- {name: dns-tcp, port: 53}
service: {annotations: {service.example/internal: "true"}}
resources: {requests: {memory: 1Gi}}
volumes: [{name: b, secret: {secretName: b}}]
volumeMounts: [{name: b, mountPath: /b}]
imagePullSecrets: [{name: platform}]
podLabels: {tier: web}
topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]
replicaPolicy:
  rules: [{name: rest, maxReplicas: 5}]
placement:
  clusterNames: [west]
  clusterSelector: {matchLabels: {region: eu}}
overrides:
- {name: eu, env: [{name: C, value: c}]}
- {name: us, clusterNames: [west], imageTag: "2"}
`
	both = `
image: registry.example/web:1
replicas: 1
env:
- {name: A, value: a}
- {name: B, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
envFrom: [{configMapRef: {name: common}}]
ports:
- {name: http, port: 80, protocol: TCP}
- {name: dns, port: 53, protocol: UDP}
- {name: metrics, port: 9090, protocol: TCP}
- {name: dns-tcp, port: 53, protocol: TCP}
service: {annotations: {service.example/internal: "true"}}
resources: {requests: {cpu: 1, memory: 1Gi}}
volumes: [{name: a, emptyDir: {}}, {name: b, secret: {secretName: b}}]
volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]
imagePullSecrets: [{name: shop}, {name: platform}]
podLabels: {team: shop, tier: web}
topologySpreadConstraints:
- {topologyKey: zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}
- {topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
replicaPolicy:
  type: Divided
  weights: Static
  rules: [{name: big, clusterNames: [east], weight: 2}, {name: rest, maxReplicas: 5}]
placement:
  clusterNames: [east, west]
  clusterSelector: {matchLabels: {tier: prod, region: eu}}
overrides:
- {name: eu, clusterNames: [east], env: [{name: A, value: b}, {name: C, value: c}]}
- {name: us, clusterNames: [west], imageTag: "2"}
conflictPolicy: Fail
deletionPolicy: Delete
`
)

func TestAppService_keeps_the_fields_of_two_owners(t *testing.T) {
	const name = "two-owners"
	mustApply(t, name, "shop", shops)
	got := mustApply(t, name, "platform", platforms)
	if diff := cmp.Diff(asYAML(t, parseYAML(t, both)), asYAML(t, got.Object["spec"])); diff != "" {
		t.Errorf("spec of both owners (-want +got):\n%s", diff)
	}

	t.Run("writes nothing when they apply again", func(t *testing.T) {
		for owner, spec := range map[string]string{"shop": shops, "platform": platforms} {
			if again := mustApply(t, name, owner, spec); again.GetResourceVersion() != got.GetResourceVersion() {
				t.Errorf("the AppService was written again for %s", owner)
			}
		}
	})
	t.Run("removes only the fields that an owner no longer applies", func(t *testing.T) {
		got := mustApply(t, name, "platform", "podLabels: {tier: web}")
		want := parseYAML(t, shops)
		want["podLabels"] = map[string]any{"team": "shop", "tier": "web"}
		alone := mustApply(t, "one-owner", "shop", asYAML(t, want))
		if diff := cmp.Diff(asYAML(t, alone.Object["spec"]), asYAML(t, got.Object["spec"])); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	})
}

func TestAppService_with_conflicting_owners_names_the_field(t *testing.T) {
	mustApply(t, "disagree", "shop", shops)
	for title, test := range map[string]struct{ spec, want string }{
		"one variable":   {"env: [{name: A, value: other}]", `.spec.env[name="A"].value`},
		"one port":       {"ports: [{name: other, port: 80}]", `.spec.ports[port=80,protocol="TCP"].name`},
		"one rule":       {"replicaPolicy: {rules: [{name: big, weight: 3}]}", `.spec.replicaPolicy.rules[name="big"].weight`},
		"one override":   {"overrides: [{name: eu, env: [{name: A, value: c}]}]", `.spec.overrides[name="eu"].env[name="A"].value`},
		"an atomic list": {"envFrom: [{secretRef: {name: keys}}]", ".spec.envFrom"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := apply(t, "disagree", "platform", test.spec)
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "shop": `+test.want) {
				t.Errorf("%v, want a conflict about %s", err, test.want)
			}
		})
	}
}

// The cases of docs/fields.md: `kubectl scale` or an autoscaler, and a manifest with or without
// replicas.
func TestAppService_that_is_scaled(t *testing.T) {
	const two = "image: registry.example/web:2\n"
	t.Run("keeps its replicas if the manifest has none", func(t *testing.T) {
		checkReplicas(t, 1, mustApply(t, "scaled-1", "git", image))
		scaleApp(t, "scaled-1", 5)
		checkReplicas(t, 5, mustApply(t, "scaled-1", "git", two))
	})
	t.Run("refuses a manifest with replicas because of a conflict", func(t *testing.T) {
		mustApply(t, "scaled-2", "git", image+"replicas: 3")
		scaleApp(t, "scaled-2", 5)
		_, err := apply(t, "scaled-2", "git", image+"replicas: 3")
		if want := `conflict with "kubectl" with subresource "scale"`; !apierrors.IsConflict(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".spec.replicas") {
			t.Errorf("%v, want a %s", err, want)
		}
	})
	t.Run("keeps its replicas when they are removed from the manifest", func(t *testing.T) {
		mustApply(t, "scaled-3", "git", image+"replicas: 3")
		scaleApp(t, "scaled-3", 5)
		checkReplicas(t, 5, mustApply(t, "scaled-3", "git", two))
	})
	t.Run("has one replica when they are removed from the manifest before it is scaled", func(t *testing.T) {
		mustApply(t, "scaled-4", "git", image+"replicas: 3")
		checkReplicas(t, 1, mustApply(t, "scaled-4", "git", two))
	})
	t.Run("keeps its replicas when another owner applied them before that", func(t *testing.T) {
		mustApply(t, "scaled-5", "git", image+"replicas: 3")
		mustApply(t, "scaled-5", "handover", "replicas: 3")
		checkReplicas(t, 3, mustApply(t, "scaled-5", "git", two))
		scaleApp(t, "scaled-5", 5)
		checkReplicas(t, 5, mustApply(t, "scaled-5", "git", image))
	})
	// The API server records who scaled only if the replicas had an owner before:
	// https://github.com/kubernetes/kubernetes/issues/131892
	t.Run("does not refuse a manifest that adds replicas", func(t *testing.T) {
		mustApply(t, "scaled-6", "git", image)
		scaleApp(t, "scaled-6", 5)
		checkReplicas(t, 3, mustApply(t, "scaled-6", "git", image+"replicas: 3"))
	})
	t.Run("keeps the replicas that an autoscaler set", func(t *testing.T) {
		mustApply(t, "scaled-7", "git", image+"replicas: 3")
		autoscaleApp(t, "scaled-7", 5)
		checkReplicas(t, 5, mustApply(t, "scaled-7", "git", two))
		autoscaleApp(t, "scaled-7", 6)
		checkReplicas(t, 6, mustApply(t, "scaled-7", "git", image))
	})
	t.Run("does not refuse a manifest with replicas after an autoscaler scaled", func(t *testing.T) {
		mustApply(t, "scaled-8", "git", image+"replicas: 3")
		autoscaleApp(t, "scaled-8", 5)
		checkReplicas(t, 3, mustApply(t, "scaled-8", "git", image+"replicas: 3"))
	})
}

// scaleApp scales like `kubectl scale`.
func scaleApp(t *testing.T, name string, replicas int32) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := hub.SubResource("scale").Patch(t.Context(), newManifest(t, name, image), patch, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
}

// autoscaleApp scales like a HorizontalPodAutoscaler.
func autoscaleApp(t *testing.T, name string, replicas int32) {
	t.Helper()
	app, scale := &v1alpha1.AppService{}, &autoscalingv1.Scale{}
	app.Namespace, app.Name = "default", name
	if err := hub.SubResource("scale").Get(t.Context(), app, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = replicas
	if err := hub.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(scale), client.FieldOwner("autoscaler")); err != nil {
		t.Fatal(err)
	}
}

func checkReplicas(t *testing.T, want int64, app *unstructured.Unstructured) {
	t.Helper()
	if got, _, err := unstructured.NestedInt64(app.Object, "spec", "replicas"); err != nil || got != want {
		t.Errorf("%d replicas, want %d (%v)", got, want, err)
	}
}

// mustApply returns the AppService after an owner has applied a part of its spec.
func mustApply(t *testing.T, name, owner, spec string) *unstructured.Unstructured {
	t.Helper()
	object, err := apply(t, name, owner, spec)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func apply(t *testing.T, name, owner, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	object := newManifest(t, name, spec)
	return object, hub.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner))
}
