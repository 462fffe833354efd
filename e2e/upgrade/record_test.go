package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// calm is how long the hub's objects stay as they are when a release is at rest.
const calm = 10 * time.Second

// labels are those of the recorded members. The last one's Secret is taken away again: its row is Detached.
var labels = map[string]map[string]string{
	"north":  {"region": "eu", "tier": "prod", "size": "large", "resolver": "own"},
	"south":  {"region": "us", "tier": "prod"},
	"edge-1": {"region": "us", "tier": "prod"},
}

// It is no test: it records the release that is given.
func TestRecord(t *testing.T) {
	if *recordFlag == "" {
		t.Skip("without -record there is nothing to record")
	}
	f := newFleet(t, "north", "south", "edge-1")
	release := newRelease(t)
	f.installCRDs(t, "-k", config+"/crd")
	f.members["north"].kubectl(t, "apply", "--server-side", "-f", "testdata/strangers.yaml")
	f.hub.kubectl(t, "create", "namespace", environment.SecretNamespace)
	f.hub.kubectl(t, "apply", "--server-side", "-f", filepath.Join(release, "samples.yaml"))
	f.join(t, labels)
	operator := f.startOperator(t)
	f.awaitCalm(t)

	for _, member := range f.members {
		member.giveAddresses(t)
	}
	f.edit(t, "handed-over", func(s *v1alpha1.AppServiceSpec) { s.Image = "registry.example/library/web:2" })
	f.edit(t, "suspended", func(s *v1alpha1.AppServiceSpec) {
		s.Image, s.Placement.ClusterNames, s.Suspend = "registry.example/library/web:2", []string{"north"}, true
	})
	f.hub.kubectl(t, "delete", "secret", "edge-1", "--namespace", environment.SecretNamespace)
	f.awaitCalm(t)
	f.wantSettled(t)
	if err := operator.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.hub.record(t, release, kindsOfHub)
	f.members["north"].record(t, release, kindsOfMember)
	f.members["south"].record(t, release, kindsOfMember)
}

// newRelease begins the directory of a release with its CRDs and samples, in the place of the one before.
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

// awaitCalm waits until the hub's objects say the same for a while.
func (f *fleet) awaitCalm(t *testing.T) {
	t.Helper()
	last, err := f.hub.objects(t.Context(), kindsOfHub)
	since := time.Now()
	eventually(t, "the hub to be at rest", func(ctx context.Context) error {
		if err != nil {
			return err
		}
		now, err := f.hub.objects(ctx, kindsOfHub)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(last, now); diff != "" {
			last, since = now, time.Now()
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		if time.Since(since) < calm {
			return fmt.Errorf("it is since %s", since.Format(time.TimeOnly))
		}
		return nil
	})
}

// wantSettled shows all rows, and fails the test if one is on its way: a release is recorded at rest.
func (f *fleet) wantSettled(t *testing.T) {
	t.Helper()
	apps := &v1alpha1.AppServiceList{}
	if err := f.hub.api.List(t.Context(), apps); err != nil {
		t.Fatal(err)
	}
	for i := range apps.Items {
		for _, row := range apps.Items[i].Status.Clusters {
			t.Logf("%s on %s: %s %s", apps.Items[i].Name, row.Name, row.Phase, row.Reason)
			if row.Phase == v1alpha1.ClusterPending || row.Phase == v1alpha1.ClusterProgressing {
				t.Errorf("%s on %s is not at rest: %s", apps.Items[i].Name, row.Name, row.Message)
			}
		}
	}
}

// giveAddresses does what a cloud does for Services of type LoadBalancer.
func (c *cluster) giveAddresses(t *testing.T) {
	t.Helper()
	services := &corev1.ServiceList{}
	if err := c.api.List(t.Context(), services); err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		service := &services.Items[i]
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		patch := client.MergeFrom(service.DeepCopy())
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprintf("192.0.2.%d", i+1)}}
		if err := c.api.Status().Patch(t.Context(), service, patch); err != nil {
			t.Fatal(err)
		}
	}
}

// edit changes one of the rare AppServices.
func (f *fleet) edit(t *testing.T, name string, change func(*v1alpha1.AppServiceSpec)) {
	t.Helper()
	app := &v1alpha1.AppService{}
	if err := f.hub.api.Get(t.Context(), client.ObjectKey{Namespace: "rare", Name: name}, app); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(app.DeepCopy())
	change(&app.Spec)
	if err := f.hub.api.Patch(t.Context(), app, patch); err != nil {
		t.Fatal(err)
	}
}

// record writes down what the cluster holds.
func (c *cluster) record(t *testing.T, release string, kinds []kind) {
	t.Helper()
	objects, err := c.objects(t.Context(), kinds)
	if err == nil {
		err = write(filepath.Join(release, c.Name()+".yaml"), objects)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d objects", c.Name(), len(objects))
}
