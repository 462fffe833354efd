package e2e

import (
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
)

func overridden(overrides ...v1alpha1.Override) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Overrides = overrides }
}

// override is one for a single cluster, which bears its name.
func override(member string, says v1alpha1.Override) v1alpha1.Override {
	says.Name, says.ClusterNames = "for-"+member, []string{member}
	return says
}

func patch(path, value string) v1alpha1.Override {
	operation := v1alpha1.PatchOperation{Op: "add", Path: path, Value: &v1alpha1.JSON{Raw: []byte(value)}}
	return v1alpha1.Override{Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{operation}}}}
}

// shown is what overrides change, as a member's objects show it.
type shown struct {
	Image    string
	Env      map[string]string
	Replicas int32
	Memory   string
	Type     corev1.ServiceType
	DNS      corev1.DNSPolicy
}

func (f *fleet) shown(member string, app *v1alpha1.AppService) (shown, error) {
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	for _, object := range []client.Object{deployment, service} {
		if err := f.members[member].api.Get(background, client.ObjectKeyFromObject(app), object); err != nil {
			return shown{}, fmt.Errorf("%s: %w", member, err)
		}
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	s := shown{
		Image: container.Image, Env: map[string]string{}, Replicas: ptr.Deref(deployment.Spec.Replicas, 1),
		Memory: container.Resources.Requests.Memory().String(), Type: service.Spec.Type, DNS: pod.DNSPolicy,
	}
	for _, variable := range container.Env {
		s.Env[variable.Name] = variable.Value
	}
	return s, nil
}

// What differs between clusters. Each step goes on from the one before.
func TestOverrides(t *testing.T) {
	f := theFleet
	north := override("north", v1alpha1.Override{
		ImageRegistry: "registry.example/mirror", ImageTag: "2",
		Env: []corev1.EnvVar{{Name: "LEVEL", Value: "debug"}, {Name: "ONLY", Value: "$(cluster.name)"}},
	})
	south := override("south", v1alpha1.Override{
		Replicas: new(int32(3)), ServiceType: corev1.ServiceTypeNodePort,
		Resources: &v1alpha1.ResourceOverride{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
	})
	east := override("east", patch("/spec/template/spec/dnsPolicy", `"Default"`))
	noPatch := override("east", patch("/spec/template/spec/hostAliases/0", `{}`))
	noVariable := override("east", v1alpha1.Override{Env: []corev1.EnvVar{{Name: "REGION", Value: "$(cluster.region)"}}})
	base := func(member string) shown {
		return shown{
			Image: "registry.example/library/web:1", Env: map[string]string{"LEVEL": "info", "REGION": regions[member]}, Replicas: 2,
			Memory: "32Mi", Type: corev1.ServiceTypeClusterIP, DNS: corev1.DNSClusterFirst,
		}
	}
	want := map[string]shown{"north": base("north"), "south": base("south"), "east": base("east")}
	set := func(member string, change func(*shown)) {
		s := want[member]
		s.Env = maps.Clone(s.Env)
		change(&s)
		want[member] = s
	}
	set("north", func(s *shown) {
		s.Image, s.Env["LEVEL"], s.Env["ONLY"] = "registry.example/mirror/library/web:2", "debug", "north"
	})
	set("south", func(s *shown) { s.Replicas, s.Type, s.Memory = 3, corev1.ServiceTypeNodePort, "64Mi" })
	set("east", func(s *shown) { s.DNS = corev1.DNSDefault })

	app := f.declare(t, "mosaic", image("registry.example/library/web:1"), env("LEVEL", "info"), env("REGION", "$(cluster.labels['region'])"),
		requests32Mi, overridden(north, south, east))
	t.Run("change the image's parts, env, resources, replicas, the Service's type, and the rest by a patch", func(t *testing.T) {
		f.awaitRows(t, app, allReady("north", "south", "east"))
		f.wantShown(t, app, want)
	})

	tests := []struct {
		name string
		bad  v1alpha1.Override
		says string
	}{
		{name: "a patch that does not fit stops its cluster, and no other", bad: noPatch, says: "/spec/template/spec/hostAliases/0"},
		{name: "a variable that is not known stops its cluster, and no other", bad: noVariable, says: "unknown variable $(cluster.region)"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tag := fmt.Sprintf("registry.example/library/web:bad-%d", i)
			f.edit(t, app, image(tag), overridden(north, south, test.bad))
			rows := allReady("north", "south")
			rows["east"] = row{v1alpha1.ClusterFailed, v1alpha1.ReasonInvalidOverride}
			f.awaitRows(t, app, rows)
			if message := app.Status.Cluster("east").Message; !strings.Contains(message, "for-east") || !strings.Contains(message, test.says) {
				t.Errorf("want a row of east that names override for-east and says %q, got %q", test.says, message)
			}
			set("south", func(s *shown) { s.Image = tag })
			f.wantShown(t, app, want) // east keeps what it runs
		})
		t.Run(test.name+", until it is mended", func(t *testing.T) {
			f.edit(t, app, overridden(north, south, east))
			f.awaitRows(t, app, allReady("north", "south", "east"))
			set("east", func(s *shown) { s.Image = want["south"].Image })
			f.wantShown(t, app, want)
		})
	}
}

func requests32Mi(s *v1alpha1.AppServiceSpec) {
	s.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("32Mi")}
}

func (f *fleet) wantShown(t *testing.T, app *v1alpha1.AppService, want map[string]shown) {
	t.Helper()
	got := map[string]shown{}
	for member := range want {
		s, err := f.shown(member, app)
		if err != nil {
			t.Error(err)
		}
		got[member] = s
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +there):\n%s", diff)
	}
}
