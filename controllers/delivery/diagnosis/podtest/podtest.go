// Package podtest has the status of pods for tests, as a kubelet reports it. Only tests import it.
//
// Each pod has one container, "app", with image "web:1".
package podtest

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// NotFound is the error of a container runtime for an image that does not exist.
const NotFound = `rpc error: code = NotFound desc = failed to pull and unpack image "web:1": not found`

// Failure is a pod that is not ready, with its expected diagnosis.
type Failure struct {
	Pod                        corev1.PodStatus
	Reason, Message, Container string
}

// Failures returns a failure of each kind, by name.
func Failures() map[string]Failure {
	return map[string]Failure{
		"image pull in back-off": {
			Waiting("ImagePullBackOff", `Back-off pulling image "web:1": ErrImagePull: `+NotFound),
			v1alpha1.ReasonImagePullBackOff, `container app: image "web:1" cannot be pulled: ` + NotFound, "app",
		},
		"image pull failed": {
			Waiting("ErrImagePull", NotFound),
			v1alpha1.ReasonImagePullBackOff, `container app: image "web:1" cannot be pulled: ` + NotFound, "app",
		},
		"invalid image name": {
			Waiting("InvalidImageName", `Failed to apply default image tag "WEB"`),
			v1alpha1.ReasonImagePullBackOff, `container app: image "web:1" cannot be pulled: Failed to apply default image tag "WEB"`, "app",
		},
		"image pull of an init container failed": {
			Initializing(Waiting("ErrImagePull", NotFound)),
			v1alpha1.ReasonImagePullBackOff, `container init: image "web:1" cannot be pulled: ` + NotFound, "init",
		},
		"missing Secret": {
			Waiting("CreateContainerConfigError", `secret "db" not found`),
			v1alpha1.ReasonContainerConfig, `container app: secret "db" not found`, "app",
		},
		"crash loop": {
			Crashing(137, "OOMKilled"),
			v1alpha1.ReasonCrashLoopBackOff, "container app: it terminated with exit code 137 (OOMKilled)", "app",
		},
		"first crash": {
			Terminated(1, "Error", "panic: no"),
			v1alpha1.ReasonCrashLoopBackOff, "container app: it terminated with exit code 1 (Error): panic: no", "app",
		},
		"crash loop without an exit code": {
			Waiting("CrashLoopBackOff", "back-off"),
			v1alpha1.ReasonCrashLoopBackOff, "container app: it terminates repeatedly", "app",
		},
		"no node": {
			Unschedulable("0/3 nodes are available: 3 Insufficient cpu."),
			v1alpha1.ReasonPodsUnschedulable, "0/3 nodes are available: 3 Insufficient cpu.", "",
		},
		"running but not ready": {
			Running(corev1.ConditionFalse),
			v1alpha1.ReasonPodsNotReady, "the containers are running but not ready", "",
		},
	}
}

// Container returns the status of a pending pod with this state of its container.
func Container(state corev1.ContainerState) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "app", Image: "web:1", State: state}}}
}

// Waiting returns the status of a pod whose container waits.
func Waiting(reason, message string) corev1.PodStatus {
	return Container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
}

// Crashing returns the status of a pod whose container terminated and waits for its next start.
func Crashing(code int32, reason string) corev1.PodStatus {
	status := Waiting("CrashLoopBackOff", "back-off 5m0s restarting failed container=app pod=web-1")
	status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}
	return status
}

// Terminated returns the status of a pod whose container has terminated.
func Terminated(code int32, reason, message string) corev1.PodStatus {
	return Container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}})
}

// Unschedulable returns the status of a pod without a node.
func Unschedulable(message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: message,
	}}}
}

// Running returns the status of a running pod with this status of its condition Ready.
func Running(ready corev1.ConditionStatus) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}}
}

// Initializing returns a status with its container's state moved to an init container, "init".
func Initializing(status corev1.PodStatus) corev1.PodStatus {
	status.InitContainerStatuses, status.ContainerStatuses = status.ContainerStatuses, []corev1.ContainerStatus{{
		Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}},
	}}
	status.InitContainerStatuses[0].Name = "init"
	return status
}
