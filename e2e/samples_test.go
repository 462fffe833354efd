package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const samples = "../config/samples"

// rest is how long nothing may be written while all samples are there.
const rest = 10 * time.Second

// What a user does first: all samples, applied by kubectl, and deleted. Each step goes on from the one before.
func TestSamples(t *testing.T) {
	f := theFleet
	f.label(t, "north", map[string]string{"tier": "prod", "size": "large", "resolver": "own"})
	f.label(t, "south", map[string]string{"tier": "prod"})
	f.label(t, "east", map[string]string{"tier": "prod"})
	f.giveStorage(t)
	strict := f.restrictedNamespace(t)
	edge, others := filepath.Join(samples, "placement.yaml"), f.sampleFiles(t, strict)
	t.Cleanup(func() { f.removeAll(t, "default", strict) })
	all := []string{"north", "south", "east"}
	gateway := named("default", "gateway")

	t.Run("are applied, and are Ready but for a load balancer without an address", func(t *testing.T) {
		kubectl(t, f.hub, append([]string{"apply", "--server-side"}, others...)...)
		pending := map[string]row{}
		for _, member := range all {
			pending[member] = row{v1alpha1.ClusterProgressing, v1alpha1.ReasonLoadBalancerPending}
		}
		f.awaitRows(t, gateway, pending)
		for _, name := range []string{"api", "queue-worker", "secure", "shop", "steady", "web", "worker"} {
			f.awaitRows(t, named("default", name), allReady(all...))
		}
		f.awaitRows(t, named(strict, "secure"), allReady(all...))
	})

	t.Run("the load balancer is Ready when it has addresses, and they are in the rows", func(t *testing.T) {
		want := map[string][]string{}
		for i, member := range all {
			address := fmt.Sprintf("192.0.2.%d", i+1)
			want[member] = []string{address}
			f.giveAddress(t, member, gateway, address)
		}
		f.awaitRows(t, gateway, allReady(all...))
		got := map[string][]string{}
		for _, row := range gateway.Status.Clusters {
			got[row.Name] = row.Addresses
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})

	t.Run("the one for the edge goes where a taint keeps all others away", func(t *testing.T) {
		f.govern(t, "south", v1alpha1.MemberClusterSpec{Taints: []v1alpha1.Taint{{Key: "edge", Effect: v1alpha1.TaintNoSchedule}}})
		kubectl(t, f.hub, "apply", "--server-side", "-f", edge)
		f.awaitRows(t, named("default", "cdn"), allReady("north", "south"))
	})

	t.Run("where the restricted standard is enforced, what is not restricted is refused, and its rows say so", func(t *testing.T) {
		lax := appService("lax")
		lax.Namespace = strict
		if err := f.hub.api.Create(t.Context(), lax); err != nil {
			t.Fatal(err)
		}
		refused := map[string]row{}
		for _, member := range all {
			refused[member] = row{v1alpha1.ClusterProgressing, v1alpha1.ReasonPodsRefused}
		}
		f.awaitRows(t, lax, refused)
		f.remove(t, lax)
	})

	t.Run("the big cluster of the divided one has three times the share of the others", func(t *testing.T) {
		f.wantShares(t, named("default", "queue-worker"), map[string]int32{"north": 18, "south": 6, "east": 6})
	})

	t.Run("nothing is written while they are all there", func(t *testing.T) { f.wantRest(t) })

	t.Run("are deleted, and nothing is left of them", func(t *testing.T) {
		kubectl(t, f.hub, append([]string{"delete", "--timeout=" + patience.String(), "-f", edge}, others...)...)
		for _, member := range all {
			if err := f.leftovers(member); err != nil {
				t.Errorf("the AppServices are gone, but: %v", err)
			}
		}
	})
}

// sampleFiles are kubectl's arguments for all samples but the one for the edge, and for the restricted one once more, in that namespace.
func (f *fleet) sampleFiles(t *testing.T, strict string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the samples are %v (%v)", files, err)
	}
	var args []string
	for _, file := range files {
		if filepath.Base(file) != "placement.yaml" {
			args = append(args, "-f", file)
		}
	}
	return append(args, "-f", inNamespace(t, filepath.Join(samples, "restricted.yaml"), strict))
}

func named(namespace, name string) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = namespace, name
	return app
}

// inNamespace is a copy of a sample for another namespace than its own.
func inNamespace(t *testing.T, file, namespace string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	moved := bytes.Replace(content, []byte("namespace: default"), []byte("namespace: "+namespace), 1)
	to := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(to, moved, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// restrictedNamespace is there on the hub and the members, and on these admits only pods that the restricted Pod Security Standard allows.
func (f *fleet) restrictedNamespace(t *testing.T) string {
	t.Helper()
	clusters := maps.Clone(f.members)
	clusters["hub"] = f.hub
	for _, c := range clusters {
		strict := &corev1.Namespace{}
		strict.Name, strict.Labels = "restricted", map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
		if err := c.api.Create(t.Context(), strict); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		t.Cleanup(func() { eventually(t, "namespace restricted to be gone", func() error { return f.absent(c, strict) }) })
	}
	t.Cleanup(func() { // of all of them, before any is waited for
		for _, c := range clusters {
			strict := &corev1.Namespace{}
			strict.Name = "restricted"
			if err := c.api.Delete(background, strict); err != nil {
				t.Errorf("%s: %v", c.Name(), err)
			}
		}
	})
	return "restricted"
}

// removeAll takes the AppServices, and the MemberCluster of the samples, away that a test has left because it failed.
func (f *fleet) removeAll(t *testing.T, namespaces ...string) {
	t.Helper()
	sample := &v1alpha1.MemberCluster{}
	sample.Name = "edge-1"
	if err := f.hub.api.Delete(background, sample); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	for _, namespace := range namespaces {
		apps := &v1alpha1.AppServiceList{}
		if err := f.hub.api.List(background, apps, client.InNamespace(namespace)); err != nil {
			t.Error(err)
		}
		for i := range apps.Items {
			f.remove(t, &apps.Items[i])
		}
	}
}

// giveStorage gives each member volumes for the claims of the restricted sample, in both of its namespaces.
func (f *fleet) giveStorage(t *testing.T) {
	t.Helper()
	for name, member := range f.members {
		for i := range 4 {
			volume := &corev1.PersistentVolume{}
			volume.Name = fmt.Sprintf("e2e-%d", i)
			volume.Spec = corev1.PersistentVolumeSpec{
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			}
			if err := member.api.Create(t.Context(), volume); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			t.Cleanup(func() {
				if err := member.api.Delete(background, volume); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
	}
}

// giveAddress does what a cloud does for a Service of type LoadBalancer.
func (f *fleet) giveAddress(t *testing.T, member string, app *v1alpha1.AppService, address string) {
	t.Helper()
	service := &corev1.Service{}
	if err := f.members[member].api.Get(t.Context(), client.ObjectKeyFromObject(app), service); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(service.DeepCopy())
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	if err := f.members[member].api.Status().Patch(t.Context(), service, patch); err != nil {
		t.Fatal(err)
	}
}

// wantRest fails the test when something is written by the operator, or because of it.
func (f *fleet) wantRest(t *testing.T) {
	t.Helper()
	f.awaitSilence(t)
	before := f.writes(t)
	time.Sleep(rest)
	if diff := cmp.Diff(before, f.writes(t)); diff != "" {
		t.Errorf("within %s at rest (-before +after):\n%s", rest, diff)
	}
}

// leftovers is nil when a member has nothing that Fleetwright made.
func (f *fleet) leftovers(member string) error {
	lists := []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{},
	}
	var problems []error
	for _, list := range lists {
		if err := f.members[member].api.List(background, list, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}); err != nil {
			problems = append(problems, err)
		} else if n := meta.LenList(list); n > 0 {
			problems = append(problems, fmt.Errorf("%s has %d in %T", member, n, list))
		}
	}
	return errors.Join(problems...)
}
