package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// PodsRefused returns why the cluster creates no pods of a Deployment, and whether that is so. A
// quota or an admission policy are examples.
func PodsRefused(deployment *appsv1.Deployment) (message string, refused bool) {
	i := slices.IndexFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return "", false
	}
	return deployment.Status.Conditions[i].Message, true
}

// bySeverity has the reasons of pods, the most severe first.
var bySeverity = []string{
	v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonContainerConfig, v1alpha1.ReasonCrashLoopBackOff,
	v1alpha1.ReasonPodsUnschedulable, v1alpha1.ReasonPodsNotReady,
}

// Failure is why pods are not ready. The zero value is no failure.
type Failure struct {
	Reason, Message string
	// Container is the container that fails, or "" if it is not a container.
	Container string
}

// MostSevere returns the most severe failure of the pods. Its message says how many pods have it. Pods
// that are being deleted do not count.
func MostSevere(pods []corev1.Pod) Failure {
	failures, counts, total := map[string]Failure{}, map[string]int{}, 0
	for i := range pods {
		if !pods[i].DeletionTimestamp.IsZero() {
			continue
		}
		total++
		failure := podFailure(&pods[i])
		if failure.Reason == "" {
			continue
		}
		counts[failure.Reason]++
		if first, found := failures[failure.Reason]; !found || failure.Message < first.Message { // the order of pods is arbitrary
			failures[failure.Reason] = failure
		}
	}
	for _, reason := range bySeverity {
		if failure, found := failures[reason]; found {
			failure.Message = fmt.Sprintf("%d of %d pods: %s", counts[reason], total, failure.Message)
			return failure
		}
	}
	return Failure{}
}

// podFailure returns why one pod is not ready.
func podFailure(pod *corev1.Pod) Failure {
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if reason, message := containerFailure(&container); reason != "" {
			return Failure{reason, fmt.Sprintf("container %s: %s", container.Name, message), container.Name}
		}
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return Failure{Reason: v1alpha1.ReasonPodsUnschedulable, Message: c.Message}
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && pod.Status.Phase == corev1.PodRunning:
			return Failure{Reason: v1alpha1.ReasonPodsNotReady, Message: "the containers are running but not ready"}
		}
	}
	return Failure{}
}

func containerFailure(container *corev1.ContainerStatus) (reason, message string) {
	waiting := container.State.Waiting
	if waiting == nil {
		if terminated := container.State.Terminated; terminated != nil && terminated.ExitCode != 0 {
			return v1alpha1.ReasonCrashLoopBackOff, termination(terminated)
		}
		return "", ""
	}
	switch waiting.Reason {
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
		return v1alpha1.ReasonImagePullBackOff, fmt.Sprintf("image %q cannot be pulled: %s", container.Image, pullError(waiting.Message))
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return v1alpha1.ReasonContainerConfig, waiting.Message
	case "CrashLoopBackOff":
		return v1alpha1.ReasonCrashLoopBackOff, termination(container.LastTerminationState.Terminated)
	}
	return "", ""
}

// pullError returns why an image cannot be pulled, without the mention of the back-off, which comes
// and goes.
func pullError(message string) string {
	if _, cause, found := strings.Cut(message, "ErrImagePull: "); found {
		return cause
	}
	return message
}

// termination describes how a container ended.
func termination(terminated *corev1.ContainerStateTerminated) string {
	if terminated == nil {
		return "it terminates repeatedly"
	}
	return strings.TrimSuffix(fmt.Sprintf("it terminated with exit code %d (%s): %s", terminated.ExitCode, terminated.Reason, terminated.Message), ": ")
}
