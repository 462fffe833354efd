package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

func overrides(all ...v1alpha1.Override) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Overrides = all }
}

// override returns the override with a name, for one cluster.
func override(member string, o v1alpha1.Override) v1alpha1.Override {
	o.Name, o.ClusterNames = "for-"+member, []string{member}
	return o
}

// deploymentPatch returns an override that adds a value to the Deployment.
func deploymentPatch(path, value string) v1alpha1.Override {
	operation := v1alpha1.PatchOperation{Op: "add", Path: path, Value: &v1alpha1.JSON{Raw: []byte(value)}}
	return v1alpha1.Override{Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{operation}}}}
}

// overridden has the fields of a member's objects that overrides change.
type overridden struct {
	Image    string
	Env      map[string]string
	Replicas int32
	Memory   string
	Type     corev1.ServiceType
	DNS      corev1.DNSPolicy
}

func (f *fleet) overridden(ctx context.Context, member string, app *v1alpha1.AppService) (overridden, error) {
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	for _, object := range []client.Object{deployment, service} {
		if err := f.Members[member].Client.Get(ctx, client.ObjectKeyFromObject(app), object); err != nil {
			return overridden{}, fmt.Errorf("%s: %w", member, err)
		}
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	o := overridden{
		Image: container.Image, Env: map[string]string{}, Replicas: ptr.Deref(deployment.Spec.Replicas, 1),
		Memory: container.Resources.Requests.Memory().String(), Type: service.Spec.Type, DNS: pod.DNSPolicy,
	}
	for _, variable := range container.Env {
		o.Env[variable.Name] = variable.Value
	}
	return o, nil
}

// TestOverrides tests overrides for each of three clusters. Each step continues where the previous
// one ended.
func TestOverrides(t *testing.T) {
	f := testFleet(t, onKind)
	north := override("north", v1alpha1.Override{
		ImageRegistry: "registry.example/mirror", ImageTag: "2",
		Env: []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}, {Name: "ONLY", Value: "$(cluster.name)"}},
	})
	south := override("south", v1alpha1.Override{
		Replicas: new(int32(3)), ServiceType: corev1.ServiceTypeNodePort,
		Resources: &v1alpha1.ResourceOverride{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
	})
	east := override("east", deploymentPatch("/spec/template/spec/dnsPolicy", `"Default"`))
	noPatch := override("east", deploymentPatch("/spec/template/spec/hostAliases/0", `{}`))
	noVariable := override("east", v1alpha1.Override{Env: []corev1.EnvVar{{Name: "REGION", Value: "$(cluster.region)"}}})
	base := func(member string) overridden {
		return overridden{
			Image: "registry.example/library/web:1", Env: map[string]string{"LEVEL": "info", "REGION": regions[member]}, Replicas: 2,
			Memory: "32Mi", Type: corev1.ServiceTypeClusterIP, DNS: corev1.DNSClusterFirst,
		}
	}
	want := map[string]overridden{"north": base("north"), "south": base("south"), "east": base("east")}
	set := func(member string, change func(*overridden)) {
		o := want[member]
		o.Env = maps.Clone(o.Env)
		change(&o)
		want[member] = o
	}
	set("north", func(o *overridden) {
		o.Image, o.Env["LEVEL"], o.Env["ONLY"] = "registry.example/mirror/library/web:2", "debug", "north"
	})
	set("south", func(o *overridden) { o.Replicas, o.Type, o.Memory = 3, corev1.ServiceTypeNodePort, "64Mi" })
	set("east", func(o *overridden) { o.DNS = corev1.DNSDefault })

	app := f.createApp(t, "overridden", framework.Image("registry.example/library/web:1"), framework.AddEnv("LEVEL", "info"), framework.AddEnv("REGION", "$(cluster.labels['topology.kubernetes.io/region'])"),
		requests32Mi, overrides(north, south, east))
	t.Run("apply to image, env, resources, replicas, the Service's type and, as a patch, to anything", func(t *testing.T) {
		f.awaitEntries(t, app, allReady("north", "south", "east"))
		f.expectOverridden(t, app, want)
	})

	tests := []struct {
		name string
		bad  v1alpha1.Override
		text string
	}{
		{name: "an invalid patch blocks only its cluster", bad: noPatch, text: "/spec/template/spec/hostAliases/0"},
		{name: "an unknown variable blocks only its cluster", bad: noVariable, text: "unknown variable $(cluster.region)"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tag := fmt.Sprintf("registry.example/library/web:bad-%d", i)
			f.EditApp(t, app, framework.Image(tag), overrides(north, south, test.bad))
			entries := allReady("north", "south")
			entries["east"] = entry{v1alpha1.ClusterFailed, v1alpha1.ReasonInvalidOverride}
			f.awaitEntries(t, app, entries)
			if message := app.Status.Cluster("east").Message; !strings.Contains(message, "for-east") || !strings.Contains(message, test.text) {
				t.Errorf("want a message of east that names override for-east and contains %q, got %q", test.text, message)
			}
			set("south", func(o *overridden) { o.Image = tag })
			f.expectOverridden(t, app, want) // east keeps what it runs
		})
		t.Run(test.name+" until it is fixed", func(t *testing.T) {
			f.EditApp(t, app, overrides(north, south, east))
			f.awaitEntries(t, app, allReady("north", "south", "east"))
			set("east", func(o *overridden) { o.Image = want["south"].Image })
			f.expectOverridden(t, app, want)
		})
	}
	t.Run("pods that are ready are not available before minReadySeconds of their Deployment", func(t *testing.T) {
		slow := *east.DeepCopy()
		wait := v1alpha1.PatchOperation{Op: "add", Path: "/spec/minReadySeconds", Value: &v1alpha1.JSON{Raw: []byte("300")}}
		slow.Patches[0].Operations = append(slow.Patches[0].Operations, wait)
		f.expectAvailable(t, app, 7, nil)
		f.EditApp(t, app, overrides(north, south, slow))
		f.expectAvailable(t, app, 5, new(int32(0)))
		f.EditApp(t, app, overrides(north, south, east))
		f.expectAvailable(t, app, 7, nil)
	})
}

// expectAvailable waits until seven pods are ready, and this many of them are available: those of north
// and south, and those of the entry of east, which has no number if all of its two ready pods are.
func (f *fleet) expectAvailable(t *testing.T, app *v1alpha1.AppService, want int32, east *int32) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("AppService %s to have %d available pods", app.Name, want), func(context.Context) error {
		f.RefreshApp(t, app)
		status := &app.Status
		entry := status.Cluster("east")
		if status.Summary.ReadyReplicas != 7 || !ptr.Equal(status.AvailableReplicas, &want) || entry == nil || !ptr.Equal(entry.ObservedAvailableReplicas, east) {
			return fmt.Errorf("%d pods are ready and %d available; the entry of east: %+v", status.Summary.ReadyReplicas, ptr.Deref(status.AvailableReplicas, -1), entry)
		}
		return framework.IsObserved(app)
	})
}

func requests32Mi(s *v1alpha1.AppServiceSpec) {
	s.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
}

func (f *fleet) expectOverridden(t *testing.T, app *v1alpha1.AppService, want map[string]overridden) {
	t.Helper()
	got := map[string]overridden{}
	for member := range want {
		o, err := f.overridden(t.Context(), member, app)
		if err != nil {
			t.Error(err)
		}
		got[member] = o
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
