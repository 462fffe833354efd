package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const samples = "../config/samples"

// TestSamples applies all samples with kubectl, and deletes them. Each step continues where the
// previous one ended.
func TestSamples(t *testing.T) {
	f := testFleet(t)
	f.addLabels(t, "north", map[string]string{"tier": "prod", "size": "large", "resolver": "own"})
	f.addLabels(t, "south", map[string]string{"tier": "prod"})
	f.addLabels(t, "east", map[string]string{"tier": "prod"})
	for _, member := range f.Members {
		member.CreateVolumes(t, 4) // for the claims of the restricted sample, in both of its namespaces
	}
	strict := f.restrictedNamespace(t)
	placementSample, others := filepath.Join(samples, "placement.yaml"), sampleFiles(t, strict)
	t.Cleanup(func() { f.deleteAll(t, "default", strict) })
	all := []string{"north", "south", "east"}
	gateway := named("default", "gateway")

	t.Run("are Ready, except a load balancer without an address", func(t *testing.T) {
		f.Hub.Kubectl(t, *binFlag, append([]string{"apply", "--server-side"}, others...)...)
		pending := map[string]entry{}
		for _, member := range all {
			pending[member] = entry{v1alpha1.ClusterProgressing, v1alpha1.ReasonLoadBalancerPending}
		}
		f.awaitEntries(t, gateway, pending)
		for _, name := range []string{"api", "queue-worker", "secure", "shop", "steady", "web", "worker"} {
			f.awaitEntries(t, named("default", name), allReady(all...))
		}
		f.awaitEntries(t, named(strict, "secure"), allReady(all...))
	})

	t.Run("the load balancer is Ready when it has addresses, and reports them", func(t *testing.T) {
		want := map[string][]string{}
		for i, member := range all {
			address := fmt.Sprintf("192.0.2.%d", i+1)
			want[member] = []string{address}
			f.Members[member].SetLoadBalancerIP(t, client.ObjectKeyFromObject(gateway), address)
		}
		f.awaitEntries(t, gateway, allReady(all...))
		got := map[string][]string{}
		for _, c := range gateway.Status.Clusters {
			got[c.Name] = c.Addresses
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})

	t.Run("the placement sample tolerates a taint", func(t *testing.T) {
		f.setMemberSpec(t, "south", v1alpha1.MemberClusterSpec{Taints: []v1alpha1.Taint{{Key: "edge", Effect: v1alpha1.TaintNoSchedule}}})
		f.Hub.Kubectl(t, *binFlag, "apply", "--server-side", "-f", placementSample)
		f.awaitEntries(t, named("default", "cdn"), allReady("north", "south"))
	})

	t.Run("an AppService that violates the restricted Pod Security Standard is refused by the hub", func(t *testing.T) {
		violating := framework.NewAppService(strict, "violating")
		if err := f.Hub.Client.Create(t.Context(), violating); err != nil {
			t.Fatal(err)
		}
		refused := map[string]entry{}
		for _, member := range all {
			refused[member] = entry{v1alpha1.ClusterPending, v1alpha1.ReasonPodSecurityRefused}
		}
		f.awaitEntries(t, violating, refused)
		f.DeleteApp(t, violating)
	})

	t.Run("the divided sample runs three times as many replicas on the large cluster", func(t *testing.T) {
		f.awaitExactShares(t, named("default", "queue-worker"), map[string]int32{"north": 18, "south": 6, "east": 6})
	})

	t.Run("nothing is written at rest", func(t *testing.T) { f.expectNoWrites(t) })

	t.Run("are deleted with all their objects", func(t *testing.T) {
		f.Hub.Kubectl(t, *binFlag, append([]string{"delete", "--timeout=" + wait.Patience.String(), "-f", placementSample}, others...)...)
		for _, member := range all {
			if err := checkNothingManaged(t.Context(), f.Members[member]); err != nil {
				t.Errorf("the AppServices are gone, but: %v", err)
			}
		}
	})
}

// sampleFiles returns the arguments of kubectl for the samples, and for the restricted sample once
// more, in that namespace. The placement sample is applied later. rollout.yaml and
// configuration.yaml have the AppService of appservice.yaml.
func sampleFiles(t *testing.T, strict string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("found the samples %v (%v)", files, err)
	}
	var args []string
	for _, file := range files {
		if name := filepath.Base(file); name != "placement.yaml" && name != "rollout.yaml" && name != "configuration.yaml" {
			args = append(args, "-f", file)
		}
	}
	return append(args, "-f", inNamespace(t, filepath.Join(samples, "restricted.yaml"), strict))
}

// named returns an AppService with this name, for helpers that read it from the hub.
func named(namespace, name string) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = namespace, name
	return app
}

// inNamespace returns the path of a copy of a sample for another namespace.
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

// restrictedNamespace creates a namespace on the hub and on the members that enforces the
// restricted Pod Security Standard. The test waits at its end until it is gone.
func (f *fleet) restrictedNamespace(t *testing.T) string {
	t.Helper()
	const name = "restricted"
	clusters := f.All()
	for _, c := range clusters {
		strict := &corev1.Namespace{}
		strict.Name = name
		t.Cleanup(func() {
			f.Eventually(t, "namespace restricted to be gone", func(ctx context.Context) error { return c.CheckAbsent(ctx, strict) })
		})
	}
	for _, c := range clusters { // their clean-up deletes all of them before the test waits for one
		c.CreateNamespace(t, name, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	}
	return name
}

// deleteAll deletes the AppServices and the MemberCluster of the samples. They are gone unless the
// test failed.
func (f *fleet) deleteAll(t *testing.T, namespaces ...string) {
	t.Helper()
	sample := &v1alpha1.MemberCluster{}
	sample.Name = "edge-1"
	if err := f.Hub.Client.Delete(context.Background(), sample); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
	for _, namespace := range namespaces {
		apps := &v1alpha1.AppServiceList{}
		if err := f.Hub.Client.List(context.Background(), apps, client.InNamespace(namespace)); err != nil {
			t.Error(err)
		}
		for i := range apps.Items {
			f.DeleteApp(t, &apps.Items[i])
		}
	}
}

// expectNoWrites fails the test if the operator writes at rest.
func (f *fleet) expectNoWrites(t *testing.T) {
	t.Helper()
	f.awaitNoWrites(t)
	before := f.countWrites(t)
	f.AwaitLook(t)
	if diff := cmp.Diff(before, f.countWrites(t)); diff != "" {
		t.Errorf("written at rest (-before +after):\n%s", diff)
	}
}

// checkNothingManaged returns an error if a member has an object of Fleetwright.
func checkNothingManaged(ctx context.Context, member *framework.Cluster) error {
	lists := []client.ObjectList{
		&appsv1.DeploymentList{}, &corev1.ServiceList{}, &autoscalingv2.HorizontalPodAutoscalerList{}, &policyv1.PodDisruptionBudgetList{},
	}
	var errs []error
	for _, list := range lists {
		if err := member.Client.List(ctx, list, client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}); err != nil {
			errs = append(errs, err)
		} else if n := meta.LenList(list); n > 0 {
			errs = append(errs, fmt.Errorf("%s has %d in %T", member.Name(), n, list))
		}
	}
	return errors.Join(errs...)
}
