package diagnosis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func container(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "web:1", State: state}}}
}

func waiting(reason, message string) corev1.PodStatus {
	return container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

func crashing(code int32, reason string) corev1.PodStatus {
	status := waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=app pod=web-1")
	status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
	return status
}

func ended(code int32, reason, message string) corev1.PodStatus {
	return container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
}

func unschedulable(message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
	}}}
}

func runningPod(ready corev1.ConditionStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}
}

func inInit(status corev1.PodStatus) corev1.PodStatus {
	status.InitContainerStatuses, status.ContainerStatuses = status.ContainerStatuses, []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
	}}
	status.InitContainerStatuses[0].Name = "init"
	return status
}

const notFound = `rpc error: code = NotFound desc = failed to pull and unpack image "web:1": not found`

// failing are pods that are not ready, and what is reported for one.
var failing = map[string]struct {
	pod             corev1.PodStatus
	reason, message string
}{
	"an image that is pulled again later": {
		waiting("ImagePullBackOff", `Back-off pulling image "web:1": ErrImagePull: `+notFound),
		v1alpha1.ReasonImagePullBackOff, `container app: image "web:1" cannot be pulled: ` + notFound,
	},
	"an image that was just tried": {
		waiting("ErrImagePull", notFound),
		v1alpha1.ReasonImagePullBackOff, `container app: image "web:1" cannot be pulled: ` + notFound,
	},
	"an image whose name is none": {
		waiting("InvalidImageName", `Failed to apply default image tag "WEB"`),
		v1alpha1.ReasonImagePullBackOff, `container app: image "web:1" cannot be pulled: Failed to apply default image tag "WEB"`,
	},
	"an init container's image": {
		inInit(waiting("ErrImagePull", notFound)),
		v1alpha1.ReasonImagePullBackOff, `container init: image "web:1" cannot be pulled: ` + notFound,
	},
	"a Secret that is missing": {
		waiting("CreateContainerConfigError", `secret "db" not found`),
		v1alpha1.ReasonContainerConfig, `container app: secret "db" not found`,
	},
	"a container that crashes":         {crashing(137, "OOMKilled"), v1alpha1.ReasonCrashLoopBackOff, "container app: it terminated with exit code 137 (OOMKilled)"},
	"a container that has just":        {ended(1, "Error", "panic: no"), v1alpha1.ReasonCrashLoopBackOff, "container app: it terminated with exit code 1 (Error): panic: no"},
	"a container that crashes somehow": {waiting("CrashLoopBackOff", "back-off"), v1alpha1.ReasonCrashLoopBackOff, "container app: it terminates repeatedly"},
	"a pod without a node":             {unschedulable("0/3 nodes are available: 3 Insufficient cpu."), v1alpha1.ReasonPodsUnschedulable, "0/3 nodes are available: 3 Insufficient cpu."},
	"a pod that runs and is not ready": {runningPod(corev1.ConditionFalse), v1alpha1.ReasonPodsNotReady, "the containers are running but not ready"},
}

// healthy are pods without a failure.
var healthy = map[string]corev1.PodStatus{
	"is ready":                    runningPod(corev1.ConditionTrue),
	"is being started":            waiting("ContainerCreating", ""),
	"has done its work":           ended(0, "Completed", ""),
	"is new":                      {Phase: corev1.PodPending},
	"is not ready and not run":    {Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
	"waits for an init container": inInit(container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})),
}

func pods(statuses ...corev1.PodStatus) []corev1.Pod {
	var all []corev1.Pod
	for _, status := range statuses {
		all = append(all, corev1.Pod{Status: status})
	}
	return all
}

type said struct{ Reason, Message string }

func mostSevereOf(statuses ...corev1.PodStatus) said {
	reason, message := MostSevere(pods(statuses...))
	return said{reason, message}
}

func TestMostSevere(t *testing.T) {
	for name, test := range failing {
		t.Run(name, func(t *testing.T) {
			want := said{test.reason, "1 of 2 pods: " + test.message}
			if diff := cmp.Diff(want, mostSevereOf(runningPod(corev1.ConditionTrue), test.pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, pod := range healthy {
		t.Run("returns nothing for a pod that "+name, func(t *testing.T) {
			if diff := cmp.Diff(said{}, mostSevereOf(pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("returns nothing without pods", func(t *testing.T) {
		if diff := cmp.Diff(said{}, mostSevereOf()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("does not count pods that are being deleted", func(t *testing.T) {
		all := pods(crashing(1, "Error"), crashing(1, "Error"), waiting("ErrImagePull", "no"))
		all[2].DeletionTimestamp = new(metav1.Now())
		reason, message := MostSevere(all)
		if diff := cmp.Diff(said{v1alpha1.ReasonCrashLoopBackOff, "2 of 2 pods: container app: it terminated with exit code 1 (Error)"}, said{reason, message}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("returns the most severe failure in any order", func(t *testing.T) {
		ordered := []corev1.PodStatus{
			waiting("ErrImagePull", "no"), waiting("CreateContainerConfigError", "no"), crashing(1, "Error"), unschedulable("no"), runningPod(corev1.ConditionFalse),
		}
		for i := range ordered {
			for j := i + 1; j < len(ordered); j++ {
				alone, either, other := mostSevereOf(ordered[i]), mostSevereOf(ordered[i], ordered[j]), mostSevereOf(ordered[j], ordered[i])
				if either != other || either.Reason != alone.Reason || !strings.HasPrefix(either.Message, "1 of 2 pods: ") {
					t.Errorf("of %d and %d: %v and %v, alone %v", i, j, either, other, alone)
				}
			}
		}
	})
	t.Run("returns the same for the same pods in another order", func(t *testing.T) {
		a, b := ended(1, "Error", "a"), ended(2, "Error", "b")
		if first, second := mostSevereOf(a, b, a), mostSevereOf(b, a, a); first != second {
			t.Errorf("%v and %v", first, second)
		}
	})
}

// A reason that [podFailure] returns and bySeverity lacks would never be reported.
func TestMostSevere_knows_every_reason(t *testing.T) {
	for name, test := range failing {
		if got := mostSevereOf(test.pod).Reason; got != test.reason {
			t.Errorf("%s: got %q, want %q", name, got, test.reason)
		}
	}
}
