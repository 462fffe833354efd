package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestSlices tests an AppService whose entries are in AppServiceSlices, because the threshold is
// lower than the number of members. Each step continues where the previous one ended.
func TestSlices(t *testing.T) {
	f := testFleet(t, onKind)
	const threshold = "--slice-threshold=2"
	f.restartWith(t, 1, threshold)
	t.Cleanup(func() { f.restartWith(t, 1) })
	app := f.createApp(t, "sliced")
	selector := v1alpha1.LabelAppService + "=" + app.Name

	t.Run("has its entries in slices, which kubectl prints", func(t *testing.T) {
		f.awaitReady(t, app, "north", "south", "east")
		f.expectInSlices(t, app)
		var want, got []string
		for slot := range v1alpha1.SliceCount {
			count := 0
			for member := range regions {
				if v1alpha1.SlotOf(member) == int32(slot) {
					count++
				}
			}
			want = append(want, fmt.Sprintf("%s %d %d/%d 0 0", v1alpha1.SliceName(app.Name, int32(slot)), slot, count, count))
		}
		printed := f.Hub.Kubectl(t, *binFlag, "get", "appserviceslices", "--namespace", namespace, "--selector", selector, "--sort-by=.slot")
		lines := strings.Split(strings.TrimSpace(printed), "\n")
		for _, line := range lines[1:] {
			columns := strings.Fields(line)
			if age, err := time.ParseDuration(columns[len(columns)-1]); err != nil || age > 5*time.Minute {
				t.Errorf("the age in %q: %v, %v", line, age, err)
			}
			got = append(got, strings.Join(columns[:len(columns)-1], " "))
		}
		if header := strings.Join(strings.Fields(lines[0]), " "); header != "NAME SLOT CLUSTERS FAILED UNKNOWN AGE" {
			t.Error("the header is", header)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
	})

	t.Run("is not written at rest, nor after a restart", func(t *testing.T) {
		f.awaitNoWrites(t)
		before := f.countWrites(t)
		f.restartWith(t, 1, threshold)
		f.AwaitLook(t)
		if diff := cmp.Diff(before, f.countWrites(t)); diff != "" {
			t.Errorf("the restart wrote (-before +after):\n%s", diff)
		}
	})

	t.Run("changes nothing on a cluster whose slice was deleted, and writes it again", func(t *testing.T) {
		objects := f.deployments(t, app)
		slice := &v1alpha1.AppServiceSlice{}
		slice.Namespace, slice.Name = namespace, v1alpha1.SliceName(app.Name, v1alpha1.SlotOf("north"))
		if err := f.Hub.Client.Delete(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
		f.Eventually(t, "the slice to be written again", func(context.Context) error { return f.checkSlices(t, app, v1alpha1.SliceCount) })
		f.awaitReady(t, app, "north", "south", "east")
		if diff := cmp.Diff(objects, f.deployments(t, app)); diff != "" {
			t.Errorf("Deployments changed (-before +after):\n%s", diff)
		}
	})

	t.Run("explains a bad image in the AppService", func(t *testing.T) {
		fix := f.failImagePulls(t, app, "web:nosuch")
		f.Eventually(t, "the status to explain the image", func(context.Context) error {
			f.RefreshApp(t, app)
			got := map[string]string{}
			for _, entry := range app.Status.WorstClusters {
				got[entry.Name] = entry.Reason
			}
			want := map[string]string{"north": v1alpha1.ReasonImagePullBackOff, "south": v1alpha1.ReasonImagePullBackOff, "east": v1alpha1.ReasonImagePullBackOff}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("status.worstClusters (-want +got):\n%s", diff)
			}
			for _, text := range []string{"ImagePullBackOff on all 3 clusters", `image "web:nosuch" cannot be pulled`} {
				if message := readyMessage(app); !strings.Contains(message, text) {
					return fmt.Errorf("the message of Ready lacks %q: %s", text, message)
				}
			}
			return nil
		})
		f.expectInSlices(t, app)
		fix()
		f.EditApp(t, app, framework.Image("web:2"))
		f.awaitReady(t, app, "north", "south", "east")
		if left := app.Status.WorstClusters; len(left) > 0 {
			t.Errorf("status.worstClusters has %+v", left)
		}
	})

	t.Run("has its entries in its status again when few are left", func(t *testing.T) {
		f.EditApp(t, app, framework.OnClusters("east"))
		f.awaitReady(t, app, "east")
		f.Eventually(t, "the slices to be deleted", func(context.Context) error { return f.checkSlices(t, app, 0) })
		stored := &v1alpha1.AppService{}
		if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(app), stored); err != nil {
			t.Fatal(err)
		}
		if stored.Status.ClustersIn != "" || len(stored.Status.Clusters) != 1 {
			t.Errorf("the status is %+v", stored.Status)
		}
	})

	// A deletion in the foreground deletes the slices first, before the workloads are removed.
	t.Run("is removed from every member when it is deleted in the foreground, and leaves no slice", func(t *testing.T) {
		f.EditApp(t, app, framework.OnAllClusters)
		f.awaitReady(t, app, "north", "south", "east")
		f.expectInSlices(t, app)
		if err := f.Hub.Client.Delete(t.Context(), app, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
		f.DeleteApp(t, app)
		f.Eventually(t, "the slices to be deleted", func(context.Context) error { return f.checkSlices(t, app, 0) })
		for _, member := range f.Members {
			if err := checkRemoved(t.Context(), member, app); err != nil {
				t.Errorf("the AppService is gone, but: %v", err)
			}
		}
	})
}

// expectInSlices fails the test unless all entries of an AppService are in slices.
func (f *fleet) expectInSlices(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	stored := &v1alpha1.AppService{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(app), stored); err != nil {
		t.Fatal(err)
	}
	if stored.Status.ClustersIn != v1alpha1.ClustersInSlices || len(stored.Status.Clusters) > 0 {
		t.Errorf("clustersIn is %q, and status.clusters has %d entries", stored.Status.ClustersIn, len(stored.Status.Clusters))
	}
	if err := f.checkSlices(t, app, v1alpha1.SliceCount); err != nil {
		t.Error(err)
	}
}

// checkSlices returns an error unless an AppService has this number of slices.
func (f *fleet) checkSlices(t *testing.T, app *v1alpha1.AppService, want int) error {
	t.Helper()
	var list v1alpha1.AppServiceSliceList
	if err := f.Hub.Client.List(context.Background(), &list, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return err
	}
	for i := range list.Items {
		if slice := &list.Items[i]; slice.Labels[v1alpha1.LabelSlot] != strconv.Itoa(int(slice.Slot)) {
			return fmt.Errorf("slice %s has the labels %v", slice.Name, slice.Labels)
		}
	}
	if got := len(list.Items); got != want {
		return fmt.Errorf("AppService %s has %d slices, want %d", app.Name, got, want)
	}
	return nil
}

// failImagePulls changes the image of an AppService. On each member, it schedules the new pods and
// reports, as a kubelet does, that the image cannot be pulled: simulated nodes do not. It lasts until
// the test calls end or ends.
func (f *fleet) failImagePulls(t *testing.T, app *v1alpha1.AppService, image string) (end func()) {
	t.Helper()
	var uncordon []func()
	for member := range regions {
		uncordon = append(uncordon, f.cordon(t, member))
	}
	f.EditApp(t, app, framework.Image(image))
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// A pod on a node without a Node object is deleted within a minute, and another one is created.
		for ctx.Err() == nil {
			for member := range regions {
				if err := f.failPods(ctx, member, app, image); err != nil && ctx.Err() == nil {
					t.Logf("pods that cannot pull their image on %s: %v", member, err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}()
	end = sync.OnceFunc(func() {
		stop()
		<-ended
		for _, uncordon := range uncordon {
			uncordon()
		}
		for member := range regions {
			err := f.Members[member].Client.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(app.Namespace),
				client.MatchingLabels{v1alpha1.LabelAppService: app.Name}, client.MatchingFields{"spec.nodeName": nodeWithoutKubelet}, client.GracePeriodSeconds(0))
			if err != nil {
				t.Errorf("delete the pods without a kubelet on %s: %v", member, err)
			}
		}
	})
	t.Cleanup(end)
	return end
}

// failPods schedules the pods of an AppService that have the image and no node, and sets their status
// to that of a pod whose image cannot be pulled.
func (f *fleet) failPods(ctx context.Context, member string, app *v1alpha1.AppService, image string) error {
	api, pods := f.Members[member].Client, &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		name := pod.Spec.Containers[0].Name
		if pod.Spec.Containers[0].Image != image || pod.Spec.NodeName != "" && pod.Spec.NodeName != nodeWithoutKubelet || len(pod.Status.ContainerStatuses) > 0 {
			continue
		}
		if pod.Spec.NodeName == "" {
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodeWithoutKubelet}}
			if err := api.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
				return err
			}
		}
		before := pod.DeepCopy()
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: name, Image: image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}},
		}}
		if err := api.Status().Patch(ctx, pod, client.MergeFrom(before)); err != nil {
			return err
		}
	}
	return nil
}
