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

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// upgraded is a fleet that was restored, and what it was.
type upgraded struct {
	*fleet
	release string
	were    map[string][]unstructured.Unstructured // by cluster
}

// lastRelease is the directory of the only one that is kept.
func lastRelease(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(releases)
	if err != nil || len(found) != 1 {
		t.Fatalf("want one release in testdata, found %v (%v)", found, err)
	}
	return found[0]
}

// restore brings the fleet to where the release has left it, with its CRDs, and with no operator.
func (f *upgraded) restore(t *testing.T) {
	t.Helper()
	f.installCRDs(t, "-f", filepath.Join(f.release, "crds"))
	f.were = map[string][]unstructured.Unstructured{}
	for _, name := range []string{"hub", "north", "south"} {
		objects, err := read(filepath.Join(f.release, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		f.were[name] = objects
	}
	labels := map[string]map[string]string{}
	for _, was := range f.were["hub"] {
		if member := f.members[was.GetName()]; member != nil && was.GetKind() == "MemberCluster" {
			labels[member.Name()] = was.GetLabels()
			// The API servers of the tests may have become newer since.
			if err := unstructured.SetNestedField(was.Object, member.version(t), "status", "version"); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.hub.restore(t, f.were["hub"], kindsOfHub)
	for name, member := range f.members {
		member.restore(t, f.were[name], kindsOfMember)
	}
	f.hub.kubectl(t, "create", "namespace", environment.SecretNamespace)
	f.join(t, labels)
	for name := range f.members {
		eventually(t, name+" to run what was restored", func(ctx context.Context) error { return f.runs(ctx, name) })
	}
}

// runs is nil when the Deployments of a member have as many pods as when they were recorded. Before they have ReplicaSets they only say so.
func (f *upgraded) runs(ctx context.Context, member string) error {
	api := f.members[member].api
	sets, deployments := &appsv1.ReplicaSetList{}, &appsv1.DeploymentList{}
	if err := errors.Join(api.List(ctx, sets), api.List(ctx, deployments)); err != nil {
		return err
	}
	type pods struct{ There, Ready, Available, Updated, ReadyOfSets int64 }
	want, got := map[types.UID]pods{}, map[types.UID]pods{}
	for _, was := range f.were[member] {
		if was.GetKind() == "Deployment" {
			number := func(field string) int64 {
				n, _, _ := unstructured.NestedInt64(was.Object, "status", field) // none where it is left out
				return n
			}
			want[was.GetUID()] = pods{number("replicas"), number("readyReplicas"), number("availableReplicas"), number("updatedReplicas"), number("readyReplicas")}
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
		return fmt.Errorf("(-recorded +there):\n%s", diff)
	}
	return nil
}

// restore gives a cluster what was recorded of its predecessor.
func (c *cluster) restore(t *testing.T, objects []unstructured.Unstructured, kinds []kind) {
	t.Helper()
	for i := range objects {
		content, err := objects[i].MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		of := slices.IndexFunc(kinds, func(k kind) bool { return k.GroupVersionKind == objects[i].GroupVersionKind() })
		if of < 0 {
			t.Fatalf("%s has a %s, which is not known to be restored", c.Name(), objects[i].GroupVersionKind())
		}
		key := filepath.Join(kinds[of].key, objects[i].GetNamespace(), objects[i].GetName())
		if err := theEnvironment.Store(t.Context(), c, key, content); err != nil {
			t.Fatal(err)
		}
	}
	// The API server is told of it by etcd, a moment later.
	eventually(t, c.Name()+" to serve what was restored", func(ctx context.Context) error {
		for i := range objects {
			found := objects[i].DeepCopy()
			if err := c.api.Get(ctx, client.ObjectKeyFromObject(found), found); err != nil {
				return err
			}
			if found.GetUID() != objects[i].GetUID() {
				return fmt.Errorf("%s %s has another UID", found.GetKind(), found.GetName())
			}
		}
		return nil
	})
}

// version is that of the cluster's API server.
func (c *cluster) version(t *testing.T) string {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	version, err := asked.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return version.GitVersion
}
