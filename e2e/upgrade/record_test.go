package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// restTime is how long the hub's objects do not change when a release is at rest.
const restTime = 10 * time.Second

// labels are the labels of the recorded members. The Secret of edge-1 is deleted before the
// recording, so its entries are Detached. testdata/rare.yaml selects by the label region, the samples
// by the standard one.
var labels = map[string]map[string]string{
	"north":  {"region": "eu", corev1.LabelTopologyRegion: "eu", "tier": "prod", "size": "large", "resolver": "own"},
	"south":  {"region": "us", corev1.LabelTopologyRegion: "us", "tier": "prod"},
	"edge-1": {"region": "us", corev1.LabelTopologyRegion: "us", "tier": "prod"},
}

// TestRecord records the release of the flag -record. It is not a test.
func TestRecord(t *testing.T) {
	if *recordFlag == "" {
		t.Skip("records a release only with -record")
	}
	f := newFleet(t, "north", "south", "edge-1")
	release := newRelease(t)
	f.installCRDs(t, "-k", config+"/crd")
	kubectl(t, f.Members["north"], "apply", "--server-side", "-f", "testdata/unmanaged.yaml")
	kubectl(t, f.Hub, "create", "namespace", environment.SecretNamespace)
	kubectl(t, f.Hub, "apply", "--server-side", "-f", filepath.Join(release, "samples.yaml"))
	for member, l := range labels {
		f.Join(t, member, l)
	}
	f.startOperator(t)
	f.awaitRest(t)

	for _, member := range f.Members {
		setLoadBalancerIPs(t, member)
	}
	f.editRare(t, "handed-over", framework.Image("registry.example/library/web:2"))
	f.editRare(t, "suspended", func(s *v1alpha1.AppServiceSpec) {
		s.Image, s.Placement.ClusterNames, s.Suspend = "registry.example/library/web:2", []string{"north"}, true
	})
	kubectl(t, f.Hub, "delete", "secret", "edge-1", "--namespace", environment.SecretNamespace)
	f.awaitRest(t)
	f.expectSettled(t)
	if err := f.Operator.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	record(t, f.Hub, release, hubKinds)
	record(t, f.Members["north"], release, memberKinds)
	record(t, f.Members["south"], release, memberKinds)
}

// newRelease replaces the directory of the last release by one with the CRDs and samples of the new
// release.
func newRelease(t *testing.T) (dir string) {
	t.Helper()
	before, err := filepath.Glob(releases)
	for _, dir := range before {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	dir = filepath.Join(filepath.Dir(releases), *recordFlag)
	if err := errors.Join(err, os.CopyFS(filepath.Join(dir, "crds"), os.DirFS(config+"/crd/bases"))); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(config + "/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		// They have the AppService of appservice.yaml, and would wait for an approval or for a permission.
		return filepath.Base(file) == "rollout.yaml" || filepath.Base(file) == "configuration.yaml"
	})
	var samples []byte
	for _, file := range append(files, "testdata/rare.yaml") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		samples = append(append(samples, "---\n"...), content...)
	}
	if err := os.WriteFile(filepath.Join(dir, "samples.yaml"), samples, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// awaitRest waits until the hub's objects do not change for restTime.
func (f *fleet) awaitRest(t *testing.T) {
	t.Helper()
	last, err := listObjects(t.Context(), f.Hub, hubKinds)
	since := time.Now()
	f.Eventually(t, "the hub to be at rest", func(ctx context.Context) error {
		if err != nil {
			return err
		}
		current, err := listObjects(ctx, f.Hub, hubKinds)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(last, current); diff != "" {
			last, since = current, time.Now()
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		if time.Since(since) < restTime {
			return fmt.Errorf("at rest since %s", since.Format(time.TimeOnly))
		}
		return nil
	})
}

// expectSettled logs all entries, and fails the test if one is Pending or Progressing.
func (f *fleet) expectSettled(t *testing.T) {
	t.Helper()
	apps := &v1alpha1.AppServiceList{}
	if err := f.Hub.Client.List(t.Context(), apps); err != nil {
		t.Fatal(err)
	}
	for i := range apps.Items {
		for _, c := range apps.Items[i].Status.Clusters {
			t.Logf("%s on %s: %s %s", apps.Items[i].Name, c.Name, c.Phase, c.Reason)
			if c.Phase == v1alpha1.ClusterPending || c.Phase == v1alpha1.ClusterProgressing {
				t.Errorf("%s on %s is not at rest: %s", apps.Items[i].Name, c.Name, c.Message)
			}
		}
	}
}

// setLoadBalancerIPs sets the addresses of all Services of type LoadBalancer.
func setLoadBalancerIPs(t *testing.T, c *framework.Cluster) {
	t.Helper()
	services := &corev1.ServiceList{}
	if err := c.Client.List(t.Context(), services); err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		if service := &services.Items[i]; service.Spec.Type == corev1.ServiceTypeLoadBalancer {
			c.SetLoadBalancerIP(t, client.ObjectKeyFromObject(service), fmt.Sprintf("192.0.2.%d", i+1))
		}
	}
}

// record writes the objects of a cluster to a file of the release.
func record(t *testing.T, c *framework.Cluster, release string, kinds []kind) {
	t.Helper()
	objects, err := listObjects(t.Context(), c, kinds)
	if err == nil {
		err = writeObjects(filepath.Join(release, c.Name()+".yaml"), objects)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d objects", c.Name(), len(objects))
}
