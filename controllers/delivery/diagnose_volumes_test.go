package delivery

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
)

// createMountingPod creates a pod with a ConfigMap volume that has not started, and the kubelet's
// events about it, in ascending order of time.
func (s *setup) createMountingPod(says ...eventsv1.Event) {
	s.Helper()
	pod := s.newPod()
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:1"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "config"}}
	pod.Spec.Volumes[0].ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}
	s.must(onMember.Create(s.Context(), pod))
	s.setPodStatus(pod, podtest.Waiting("ContainerCreating", ""))
	for i, event := range says {
		event.Namespace, event.GenerateName = pod.Namespace, pod.Name+"-"
		event.Regarding = corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
		event.Type, event.Action, event.ReportingController, event.ReportingInstance = corev1.EventTypeWarning, "Mount", "kubelet", "node-1"
		event.EventTime = metav1.NewMicroTime(time.Now().Add(time.Duration(i) * time.Minute))
		s.must(onMember.Create(s.Context(), &event))
	}
}

func kubeletEvent(reason, note string) eventsv1.Event {
	return eventsv1.Event{Reason: reason, Note: note}
}

func TestEntry_names_the_missing_object_of_a_volume(t *testing.T) {
	t.Parallel()
	const (
		missing = `MountVolume.SetUp failed for volume "config" : configmap "settings" not found`
		timeout = `Unable to attach or mount volumes: unmounted volumes=[config], unattached volumes=[], failed to process volumes=[]: context deadline exceeded`
	)
	tests := map[string]struct {
		events []eventsv1.Event
		want   reasonAndMessage
	}{
		"a ConfigMap": {
			[]eventsv1.Event{kubeletEvent("Scheduled", "Successfully assigned"), kubeletEvent("FailedMount", missing)},
			reasonAndMessage{v1alpha1.ReasonFailedMount, `1 of 1 pods are being created: volume "config": configmap "settings" not found`},
		},
		"a ConfigMap, with a later timeout": {
			[]eventsv1.Event{kubeletEvent("FailedMount", missing), kubeletEvent("FailedMount", timeout)},
			reasonAndMessage{v1alpha1.ReasonFailedMount, `1 of 1 pods are being created: volume "config": configmap "settings" not found`},
		},
		"a timeout alone": {
			[]eventsv1.Event{kubeletEvent("FailedMount", timeout)},
			reasonAndMessage{v1alpha1.ReasonFailedMount, "1 of 1 pods are being created: " + timeout},
		},
		"nothing after a later event": {
			[]eventsv1.Event{kubeletEvent("FailedMount", missing), kubeletEvent("Pulling", "Pulling image")},
			reasonAndMessage{v1alpha1.ReasonRollingOut, "Replicas: 0/1"},
		},
		"nothing without events": {nil, reasonAndMessage{v1alpha1.ReasonRollingOut, "Replicas: 0/1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := unreadySetup(t)
			s.createMountingPod(test.events...)
			seen := s.newReconciler().reportWithPods()
			got := reasonAndMessage{seen.Reason, seen.Message}
			if test.want.Reason == v1alpha1.ReasonRollingOut {
				got.Message = test.want.Message // the message of the Deployment itself
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A member that joined under an older release grants fewer permissions.
func TestEntry_reports_that_listing_events_is_forbidden(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t)
	s.createMountingPod()
	s.sent.answers(func(request string) (*http.Response, error) {
		if request != "GET events" {
			return nil, nil
		}
		return refuse(request, http.StatusForbidden, "no")(request)
	})
	seen := s.newReconciler().reportWithPods()
	want := reasonAndMessage{v1alpha1.ReasonRollingOut, "1 of 1 pods may wait for a volume; the cause is unknown: the credentials do not allow listing events; apply config/member to the member"}
	if diff := cmp.Diff(want, reasonAndMessage{seen.Reason, seen.Message}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEvents_are_not_listed_for_pods_without_volumes(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t, podtest.Waiting("ContainerCreating", ""))
	s.newReconciler().reportWithPods()
	if s.sent.count("GET events") > 0 {
		t.Error("events were listed")
	}
}
