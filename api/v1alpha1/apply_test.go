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

// What one team has in its repository, and another in its own, of one AppService.
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

func TestAppService_of_two_owners_keeps_what_is_of_each(t *testing.T) {
	const name = "two-owners"
	applied(t, name, "shop", shops)
	got := applied(t, name, "platform", platforms)
	if diff := cmp.Diff(document(t, parse(t, both)), document(t, got.Object["spec"])); diff != "" {
		t.Errorf("both have applied (-want +got):\n%s", diff)
	}

	t.Run("applied again, nothing is written", func(t *testing.T) {
		for owner, spec := range map[string]string{"shop": shops, "platform": platforms} {
			if again := applied(t, name, owner, spec); again.GetResourceVersion() != got.GetResourceVersion() {
				t.Errorf("%s: is written again", owner)
			}
		}
	})
	t.Run("what one has no more goes, and nothing else", func(t *testing.T) {
		got := applied(t, name, "platform", "podLabels: {tier: web}")
		want := parse(t, shops)
		want["podLabels"] = map[string]any{"team": "shop", "tier": "web"}
		alone := applied(t, "one-owner", "shop", document(t, want))
		if diff := cmp.Diff(document(t, alone.Object["spec"]), document(t, got.Object["spec"])); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	})
}

func TestAppService_of_two_owners_that_disagree_names_the_field(t *testing.T) {
	applied(t, "disagree", "shop", shops)
	for title, test := range map[string]struct{ spec, want string }{
		"one variable":     {"env: [{name: A, value: other}]", `.spec.env[name="A"].value`},
		"one port":         {"ports: [{name: other, port: 80}]", `.spec.ports[port=80,protocol="TCP"].name`},
		"one rule":         {"replicaPolicy: {rules: [{name: big, weight: 3}]}", `.spec.replicaPolicy.rules[name="big"].weight`},
		"one override":     {"overrides: [{name: eu, env: [{name: A, value: c}]}]", `.spec.overrides[name="eu"].env[name="A"].value`},
		"a list that is 1": {"envFrom: [{secretRef: {name: keys}}]", ".spec.envFrom"},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := apply(t, "disagree", "platform", test.spec)
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "shop": `+test.want) {
				t.Errorf("%v, want a conflict about %s", err, test.want)
			}
		})
	}
}

// An autoscaler, or `kubectl scale`, and a manifest without replicas keep out of each other's way. What docs/fields.md says of the others is tried here.
func TestAppService_that_is_scaled(t *testing.T) {
	const two = "image: registry.example/web:2\n"
	t.Run("keeps its replicas when its manifest has none", func(t *testing.T) {
		is(t, 1, applied(t, "scaled-1", "git", image))
		scaled(t, "scaled-1", 5)
		is(t, 5, applied(t, "scaled-1", "git", two))
	})
	t.Run("tells a manifest that has replicas that they are another's", func(t *testing.T) {
		applied(t, "scaled-2", "git", image+"replicas: 3")
		scaled(t, "scaled-2", 5)
		_, err := apply(t, "scaled-2", "git", image+"replicas: 3")
		if want := `conflict with "kubectl" with subresource "scale"`; !apierrors.IsConflict(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), ".spec.replicas") {
			t.Errorf("%v, want a %s", err, want)
		}
	})
	t.Run("keeps its replicas when its manifest has them no more", func(t *testing.T) {
		applied(t, "scaled-3", "git", image+"replicas: 3")
		scaled(t, "scaled-3", 5)
		is(t, 5, applied(t, "scaled-3", "git", two))
	})
	t.Run("has one replica when its manifest has them no more before it was scaled", func(t *testing.T) {
		applied(t, "scaled-4", "git", image+"replicas: 3")
		is(t, 1, applied(t, "scaled-4", "git", two))
	})
	t.Run("keeps its replicas when another took them on before that", func(t *testing.T) {
		applied(t, "scaled-5", "git", image+"replicas: 3")
		applied(t, "scaled-5", "handover", "replicas: 3")
		is(t, 3, applied(t, "scaled-5", "git", two))
		scaled(t, "scaled-5", 5)
		is(t, 5, applied(t, "scaled-5", "git", image))
	})
	// https://github.com/kubernetes/kubernetes/issues/131892: that somebody scaled it is written down only where the replicas had an owner before.
	t.Run("does not tell a manifest that has replicas anew", func(t *testing.T) {
		applied(t, "scaled-6", "git", image)
		scaled(t, "scaled-6", 5)
		is(t, 3, applied(t, "scaled-6", "git", image+"replicas: 3"))
	})
	t.Run("by an autoscaler keeps its replicas as well", func(t *testing.T) {
		applied(t, "scaled-7", "git", image+"replicas: 3")
		autoscaled(t, "scaled-7", 5)
		is(t, 5, applied(t, "scaled-7", "git", two))
		autoscaled(t, "scaled-7", 6)
		is(t, 6, applied(t, "scaled-7", "git", image))
	})
	t.Run("by an autoscaler does not tell a manifest that has replicas", func(t *testing.T) {
		applied(t, "scaled-8", "git", image+"replicas: 3")
		autoscaled(t, "scaled-8", 5)
		is(t, 3, applied(t, "scaled-8", "git", image+"replicas: 3"))
	})
}

// scaled does as `kubectl scale` does.
func scaled(t *testing.T, name string, replicas int32) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := hub.SubResource("scale").Patch(t.Context(), manifest(t, name, image), patch, client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
}

// autoscaled does as a HorizontalPodAutoscaler does.
func autoscaled(t *testing.T, name string, replicas int32) {
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

func is(t *testing.T, want int64, app *unstructured.Unstructured) {
	t.Helper()
	if got, _, err := unstructured.NestedInt64(app.Object, "spec", "replicas"); err != nil || got != want {
		t.Errorf("%d replicas, want %d (%v)", got, want, err)
	}
}

// applied is the AppService when an owner has applied what it has of its spec.
func applied(t *testing.T, name, owner, spec string) *unstructured.Unstructured {
	t.Helper()
	object, err := apply(t, name, owner, spec)
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func apply(t *testing.T, name, owner, spec string) (*unstructured.Unstructured, error) {
	t.Helper()
	object := manifest(t, name, spec)
	return object, hub.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner))
}
