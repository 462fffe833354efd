package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// awaitMember waits until a member is Ready.
func (f *fleet) awaitMember(t *testing.T, name string) {
	t.Helper()
	f.Eventually(t, "MemberCluster "+name+" to be Ready", func(ctx context.Context) error {
		return f.CheckMembersReady(ctx, name)
	})
}

// addCluster creates a cluster that has not joined yet. It is deleted when the test ends, after the
// AppServices that the test creates later.
func (f *fleet) addCluster(t *testing.T, name string) *framework.Cluster {
	t.Helper()
	f.addClusters(t, name)
	return f.Members[name]
}

// addClusters is addCluster for several clusters at once.
func (f *fleet) addClusters(t *testing.T, names ...string) {
	t.Helper()
	if err := f.AddClusters(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		created := f.Members[name]
		t.Cleanup(func() {
			delete(f.Members, name)
			if err := created.Delete(context.Background()); err != nil {
				t.Error(err)
			}
			f.removeMember(t, name)
		})
	}
}

// addMembers creates clusters in these regions and joins them. They are removed when the test ends.
func (f *fleet) addMembers(t *testing.T, regions map[string]string) {
	t.Helper()
	f.addClusters(t, slices.Sorted(maps.Keys(regions))...)
	for name, region := range regions {
		f.Join(t, name, map[string]string{corev1.LabelTopologyRegion: region})
	}
	for name := range regions {
		f.awaitMember(t, name)
	}
}

// detach deletes a member's Secret, and waits until its MemberCluster, if there is one, reports
// that.
func (f *fleet) detach(t *testing.T, name string) {
	t.Helper()
	secret, member := &corev1.Secret{}, &v1alpha1.MemberCluster{}
	secret.Namespace, secret.Name, member.Name = environment.SecretNamespace, name, name
	if err := f.Hub.Client.Delete(context.Background(), secret); client.IgnoreNotFound(err) != nil {
		t.Errorf("delete the Secret of %s: %v", name, err)
	}
	f.Eventually(t, "MemberCluster "+name+" to have no Secret", func(ctx context.Context) error {
		if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(member), member); client.IgnoreNotFound(err) != nil {
			return err
		} else if err == nil && member.HasSecret() && member.Annotations[v1alpha1.AnnotationSecret] != "" {
			return fmt.Errorf("its status is %+v", member.Status)
		}
		return nil
	})
}

// removeMember removes a member for good: it deletes the Secret and clears the spec of the
// MemberCluster. Then the operator deletes the MemberCluster.
func (f *fleet) removeMember(t *testing.T, name string) {
	t.Helper()
	f.detach(t, name)
	member := &v1alpha1.MemberCluster{}
	member.Name = name
	clearSpec := client.RawPatch(types.MergePatchType, []byte(`{"spec":null}`))
	if err := f.Hub.Client.Patch(context.Background(), member, clearSpec); client.IgnoreNotFound(err) != nil {
		t.Errorf("clear the spec of MemberCluster %s: %v", name, err)
	}
	f.Eventually(t, "MemberCluster "+name+" to be gone", func(ctx context.Context) error { return f.Hub.CheckAbsent(ctx, member) })
}

// rejoin restores the original kubeconfig of a member.
func (f *fleet) rejoin(t *testing.T, member string) {
	t.Helper()
	f.Join(t, member, map[string]string{corev1.LabelTopologyRegion: regions[member]})
	f.awaitMember(t, member)
}

// stopClusters stops the clusters of members until the test ends. It does not wait until the operator
// has noticed.
func (f *fleet) stopClusters(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		t.Cleanup(func() { f.startCluster(t, name) })
		if err := f.Members[name].Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// startCluster starts a member's cluster, if it is stopped, and waits until the member is Ready.
func (f *fleet) startCluster(t *testing.T, name string) {
	t.Helper()
	member := f.Members[name]
	if member.Ready(context.Background()) != nil {
		if err := member.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	f.awaitMember(t, name)
}

// addLabels adds labels to a member's Secret, and so to its MemberCluster, until the test ends.
func (f *fleet) addLabels(t *testing.T, member string, added map[string]string) {
	t.Helper()
	original := map[string]string{corev1.LabelTopologyRegion: regions[member]}
	labels := maps.Clone(original)
	maps.Copy(labels, added)
	f.setLabels(t, member, labels)
	t.Cleanup(func() { f.setLabels(t, member, original) })
}

func (f *fleet) setLabels(t *testing.T, member string, labels map[string]string) {
	t.Helper()
	f.Join(t, member, labels)
	f.Eventually(t, "MemberCluster "+member+" to have the labels of its Secret", func(ctx context.Context) error {
		m := &v1alpha1.MemberCluster{}
		if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: member}, m); err != nil {
			return err
		}
		got := maps.Clone(m.Labels)
		delete(got, environment.SecretLabel)
		if diff := cmp.Diff(labels, got); diff != "" {
			return fmt.Errorf("(-Secret +MemberCluster):\n%s", diff)
		}
		return nil
	})
}

// setMemberSpec sets the spec of a MemberCluster, as an administrator does, until the test ends.
func (f *fleet) setMemberSpec(t *testing.T, member string, spec v1alpha1.MemberClusterSpec) {
	t.Helper()
	f.patchMemberSpec(t, member, spec)
	t.Cleanup(func() { f.patchMemberSpec(t, member, v1alpha1.MemberClusterSpec{}) })
}

func (f *fleet) patchMemberSpec(t *testing.T, member string, spec v1alpha1.MemberClusterSpec) {
	t.Helper()
	m := &v1alpha1.MemberCluster{}
	if err := f.Hub.Client.Get(context.Background(), client.ObjectKey{Name: member}, m); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(m.DeepCopy())
	m.Spec = spec
	if err := f.Hub.Client.Patch(context.Background(), m, patch); err != nil {
		t.Fatalf("edit MemberCluster %s: %v", member, err)
	}
}

func tainted(effect v1alpha1.TaintEffect) v1alpha1.MemberClusterSpec {
	return v1alpha1.MemberClusterSpec{Taints: []v1alpha1.Taint{{Key: "e2e", Effect: effect}}}
}

// cordon cordons the nodes of a member, so that no new pod becomes ready there, until the test
// calls uncordon or ends.
func (f *fleet) cordon(t *testing.T, member string) (uncordon func()) {
	t.Helper()
	f.setUnschedulable(t, member, true)
	uncordon = sync.OnceFunc(func() { f.setUnschedulable(t, member, false) })
	t.Cleanup(uncordon)
	return uncordon
}

func (f *fleet) setUnschedulable(t *testing.T, member string, unschedulable bool) {
	t.Helper()
	ctx, api, nodes := context.Background(), f.Members[member].Client, &corev1.NodeList{}
	if err := api.List(ctx, nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		patch := client.MergeFrom(node.DeepCopy())
		node.Spec.Unschedulable = unschedulable
		if err := api.Patch(ctx, node, patch); err != nil {
			t.Fatalf("cordon node %s of %s: %v", node.Name, member, err)
		}
	}
}

// readyPods returns the number of an AppService's ready pods on a member, 0 without a Deployment.
func (f *fleet) readyPods(ctx context.Context, member string, app *v1alpha1.AppService) (int32, error) {
	deployment, err := f.Members[member].Deployment(ctx, app)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	return deployment.Status.ReadyReplicas, nil
}

// expectAtLeast checks continuously, until the test calls stop or ends, that the sum of the
// members' scores is not below a minimum. The score of a member is a function of its ready pods.
// List the members that lose pods first: pods that become ready elsewhere meanwhile are then
// counted too, and no sum is below the true one.
func (f *fleet) expectAtLeast(t *testing.T, app *v1alpha1.AppService, minimum int32, score func(ready int32) int32, members ...string) (stop func()) {
	t.Helper()
	app = app.DeepCopy() // the test changes its own
	end, ended := make(chan struct{}), make(chan struct{})
	var checks int
	var failure error
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; failure == nil; checks++ {
			select {
			case <-end:
				return
			case <-tick.C:
				failure = f.checkAtLeast(app, minimum, score, members)
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(end)
		<-ended
		if failure != nil {
			t.Errorf("AppService %s: %v", app.Name, failure)
		}
		t.Logf("checked %d times that at least %d are ready", checks, minimum)
	})
	t.Cleanup(stop)
	return stop
}

func (f *fleet) checkAtLeast(app *v1alpha1.AppService, minimum int32, score func(ready int32) int32, members []string) error {
	sum, readyOf := int32(0), map[string]int32{}
	for _, member := range members {
		ready, err := f.readyPods(context.Background(), member, app)
		if err != nil {
			return err
		}
		readyOf[member] = ready
		sum += score(ready)
	}
	if sum < minimum {
		return fmt.Errorf("fewer than %d are ready; ready pods by member: %v", minimum, readyOf)
	}
	return nil
}
