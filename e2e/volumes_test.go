package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestMissingConfigMap tests that the entry names the ConfigMap that a pod needs.
func TestMissingConfigMap(t *testing.T) {
	f := testFleet(t)
	app := f.createApp(t, "mounting", framework.OnClusters("north", "south"))
	f.awaitReady(t, app, "north", "south")
	fix := f.mountMissingConfigMap(t, "south", app)
	f.awaitEntries(t, app, map[string]entry{"north": {Phase: v1alpha1.ClusterReady}, "south": {v1alpha1.ClusterProgressing, v1alpha1.ReasonFailedMount}})
	if message := app.Status.Cluster("south").Message; !strings.Contains(message, `configmap "settings" not found`) {
		t.Errorf("the message of south is %q", message)
	}
	fix()
	f.awaitReady(t, app, "north", "south")
}

// mountMissingConfigMap adds a volume to an AppService. On one member, it schedules a pod of it and
// reports, as a kubelet does, that the ConfigMap is missing: simulated nodes do not. It lasts until
// the test calls end or ends.
func (f *fleet) mountMissingConfigMap(t *testing.T, member string, app *v1alpha1.AppService) (end func()) {
	t.Helper()
	uncordon := f.cordon(t, member)
	f.EditApp(t, app, func(s *v1alpha1.AppServiceSpec) {
		volume := v1alpha1.Volume{Name: "settings"}
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}
		s.Volumes = []v1alpha1.Volume{volume}
	})
	pod, deletePod := f.schedulePod(t, member, app, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "settings" })
	})
	api := f.Members[member].Client
	before := pod.DeepCopy()
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: app.Spec.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}}
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: "mount-"},
		Regarding:           corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Reason:              "FailedMount",
		Note:                `MountVolume.SetUp failed for volume "settings" : configmap "settings" not found`,
		Type:                corev1.EventTypeWarning,
		Action:              "Mount",
		ReportingController: "kubelet",
		ReportingInstance:   "e2e",
		EventTime:           metav1.NowMicro(),
	}
	if err := errors.Join(api.Status().Patch(t.Context(), pod, client.MergeFrom(before)), api.Create(t.Context(), event)); err != nil {
		t.Fatalf("set the status of a pod on %s: %v", member, err)
	}
	return func() {
		uncordon()
		deletePod()
	}
}

// nodeWithoutKubelet is a node that does not exist, so nothing changes the status of its pods.
const nodeWithoutKubelet = "without-kubelet"

// schedulePod waits for a pod of an AppService on a member whose nodes are cordoned, and schedules
// it to a node without a kubelet, so that the test can report the status of the pod. It returns the
// pod and a function that deletes it.
func (f *fleet) schedulePod(t *testing.T, member string, app *v1alpha1.AppService, isWanted func(*corev1.Pod) bool) (pod *corev1.Pod, deletePod func()) {
	t.Helper()
	api := f.Members[member].Client
	f.Eventually(t, "a new pod of "+app.Name+" on "+member, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := api.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
			return err
		}
		i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return isWanted(&p) })
		if i < 0 {
			return errors.New("the AppService has no such pod")
		}
		pod = &pods.Items[i]
		return nil
	})
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodeWithoutKubelet}}
	if err := api.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatalf("schedule a pod on %s: %v", member, err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	return pod, func() {
		if err := api.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete the pod without a kubelet: %v", err)
		}
	}
}
