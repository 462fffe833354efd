package e2e

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestMissingConfigMapIsNamed(t *testing.T) {
	f := theFleet
	app := f.declare(t, "mounting", onClusters("north", "south"))
	f.awaitReady(t, app, "north", "south")
	uncordon := f.lacksConfigMap(t, "south", app)
	f.awaitRows(t, app, map[string]row{"north": {Phase: v1alpha1.ClusterReady}, "south": {v1alpha1.ClusterProgressing, v1alpha1.ReasonFailedMount}})
	if message := app.Status.Cluster("south").Message; !strings.Contains(message, `configmap "settings" not found`) {
		t.Errorf("south says %q", message)
	}
	uncordon()
	f.awaitReady(t, app, "north", "south")
}

// lacksConfigMap gives an AppService a volume, and does on one member what the scheduler, and then a kubelet that does not find the ConfigMap, do
// with its pod: no simulated node does so by itself. It lasts until the function that it returns is called or the test ends.
func (f *fleet) lacksConfigMap(t *testing.T, member string, app *v1alpha1.AppService) (end func()) {
	t.Helper()
	uncordon := f.cordon(t, member)
	f.edit(t, app, func(s *v1alpha1.AppServiceSpec) {
		volume := v1alpha1.Volume{Name: "settings"}
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}
		s.Volumes = []v1alpha1.Volume{volume}
	})
	api := f.members[member].api
	var pod *corev1.Pod
	eventually(t, "a pod of "+app.Name+" on "+member+" with the volume", func() error {
		pods := &corev1.PodList{}
		if err := api.List(t.Context(), pods, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
			return err
		}
		i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool {
			return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == "settings" })
		})
		if i < 0 {
			return errors.New("there is none")
		}
		pod = &pods.Items[i]
		return nil
	})
	end = func() {
		uncordon()
		if err := api.Delete(background, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete the pod that no kubelet runs: %v", err)
		}
	}
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "without-kubelet"}}
	if err := api.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatalf("be the scheduler of %s: %v", member, err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
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
		t.Fatalf("be the kubelet of %s: %v", member, err)
	}
	return end
}
