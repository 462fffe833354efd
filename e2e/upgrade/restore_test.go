package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// upgradedFleet is a fleet that is restored from a recorded release.
type upgradedFleet struct {
	*fleet
	release string
	before  map[string][]unstructured.Unstructured // the recorded objects, by cluster
}

// lastRelease returns the directory of the recorded release.
func lastRelease(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(releases)
	if err != nil || len(found) != 1 {
		t.Fatalf("want one release in testdata, found %v (%v)", found, err)
	}
	return found[0]
}

// restore restores the fleet as the release left it, with its CRDs and without an operator.
func (f *upgradedFleet) restore(t *testing.T) {
	t.Helper()
	f.installCRDs(t, "-f", filepath.Join(f.release, "crds"))
	f.before = map[string][]unstructured.Unstructured{}
	for _, name := range []string{framework.HubName, "north", "south"} {
		objects, err := readObjects(filepath.Join(f.release, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		f.before[name] = objects
	}
	labels := map[string]map[string]string{} // by member
	for _, before := range f.before[framework.HubName] {
		if member := f.Members[before.GetName()]; member != nil && before.GetKind() == "MemberCluster" {
			labels[member.Name()] = before.GetLabels()
			// The API servers of the tests may be newer than at the recording.
			if err := unstructured.SetNestedField(before.Object, serverVersion(t, member), "status", "version"); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.restoreObjects(t, f.Hub, hubKinds)
	for _, member := range f.Members {
		f.restoreObjects(t, member, memberKinds)
	}
	kubectl(t, f.Hub, "create", "namespace", environment.SecretNamespace)
	for member, l := range labels {
		f.Join(t, member, l)
	}
	for name := range f.Members {
		f.Eventually(t, name+" to run the restored Deployments", func(ctx context.Context) error { return f.checkPods(ctx, name) })
	}
}

// checkPods returns an error unless the Deployments of a member have as many pods as at the
// recording. It counts the pods of their ReplicaSets too, because the status of a Deployment is
// restored.
func (f *upgradedFleet) checkPods(ctx context.Context, member string) error {
	api := f.Members[member].Client
	sets, deployments := &appsv1.ReplicaSetList{}, &appsv1.DeploymentList{}
	if err := errors.Join(api.List(ctx, sets), api.List(ctx, deployments)); err != nil {
		return err
	}
	type pods struct{ Total, Ready, Available, Updated, ReadyOfSets int64 }
	want, got := map[types.UID]pods{}, map[types.UID]pods{}
	for _, before := range f.before[member] {
		if before.GetKind() == "Deployment" {
			number := func(field string) int64 {
				n, _, _ := unstructured.NestedInt64(before.Object, "status", field) // 0 if missing
				return n
			}
			want[before.GetUID()] = pods{number("replicas"), number("readyReplicas"), number("availableReplicas"), number("updatedReplicas"), number("readyReplicas")}
		}
	}
	for _, d := range deployments.Items {
		p := pods{int64(d.Status.Replicas), int64(d.Status.ReadyReplicas), int64(d.Status.AvailableReplicas), int64(d.Status.UpdatedReplicas), 0}
		for i := range sets.Items {
			if metav1.IsControlledBy(&sets.Items[i], &d) {
				p.ReadyOfSets += int64(sets.Items[i].Status.ReadyReplicas)
			}
		}
		got[d.UID] = p
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("(-recorded +got):\n%s", diff)
	}
	return nil
}

// restoreObjects writes the recorded objects of a cluster into its etcd.
func (f *upgradedFleet) restoreObjects(t *testing.T, c *framework.Cluster, kinds []kind) {
	t.Helper()
	objects := f.before[c.Name()]
	for i := range objects {
		content, err := objects[i].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		k := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupVersionKind == objects[i].GroupVersionKind() })
		if k < 0 {
			t.Fatalf("%s has a %s, which is not a recorded kind", c.Name(), objects[i].GroupVersionKind())
		}
		key := filepath.Join(kinds[k].key, objects[i].GetNamespace(), objects[i].GetName())
		if err := env.Store(t.Context(), c, key, content); err != nil {
			t.Fatal(err)
		}
	}
	// The API server gets the objects from its watch of etcd.
	f.Eventually(t, c.Name()+" to serve the restored objects", func(ctx context.Context) error {
		for i := range objects {
			found := objects[i].DeepCopy()
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
				return err
			}
			if found.GetUID() != objects[i].GetUID() {
				return fmt.Errorf("%s %s has another UID", found.GetKind(), found.GetName())
			}
		}
		return nil
	})
}

// serverVersion returns the version of a cluster's API server.
func serverVersion(t *testing.T, c *framework.Cluster) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	api, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := api.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return version.GitVersion
}
