package delivery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

const (
	// The pods of a workload that is not ready are looked at after firstLook, for a rollout that goes well takes no longer; then
	// after twice that each time, and at most maxLook.
	firstLook, maxLook = 5 * time.Second, time.Minute
	// maxPods is how many pods are looked at.
	maxPods = 50
)

// explain adds to an observation why the workload is not ready, in the member's own words, and returns when to look again; 0 for
// when the watch tells of something.
func (r *reconciler) explain(ctx context.Context, t task, seen observation.Observation) (observation.Observation, time.Duration) {
	if seen.Phase == v1alpha1.ClusterReady {
		t.memory.pods = podDiagnosis{}
		return seen, 0
	}
	if message, refused := podsRefused(t.objects.deployment); refused {
		seen.Reason, seen.Message = v1alpha1.ReasonPodsRefused, message
		return seen, 0
	}
	now := time.Now()
	last := t.memory.pods.forGeneration(t.row.Generation, now)
	if !now.Before(last.next) {
		last.interval = min(2*last.interval, maxLook)
		last.next = now.Add(last.interval)
		last.reason, last.message = r.look(ctx, t.objects.deployment)
	}
	t.memory.pods = last
	if last.message != "" {
		seen.Reason, seen.Message = cmp.Or(last.reason, seen.Reason), last.message
	}
	return seen, last.next.Sub(now)
}

// look lists the pods once, and says what is worst of them. They are not cached: that would cost more than all the rest.
func (r *reconciler) look(ctx context.Context, deployment *appsv1.Deployment) (reason, message string) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector) // an adopted one has its own
	if err != nil {
		return "", ""
	}
	var pods corev1.PodList
	err = r.live.List(ctx, &pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.Limit(maxPods))
	switch {
	case apierrors.IsForbidden(err):
		return "", "why is not known: the credentials may not list pods (config/member grants it)"
	case err != nil:
		return "", "" // it is asked again
	}
	switch reason, message = worst(pods.Items); reason {
	case "", v1alpha1.ReasonPodsUnschedulable, v1alpha1.ReasonPodsNotReady:
		if cause, says := r.mountFailure(ctx, pods.Items); cause != "" || reason == "" {
			return cause, says
		}
	}
	return reason, message
}

// podsRefused is why the member makes no pods: quota, say, or an admission policy.
func podsRefused(deployment *appsv1.Deployment) (message string, refused bool) {
	i := slices.IndexFunc(deployment.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return "", false
	}
	return deployment.Status.Conditions[i].Message, true
}

// worse has the reasons, what is worst first.
var worse = []string{
	v1alpha1.ReasonImagePullBackOff, v1alpha1.ReasonContainerConfig, v1alpha1.ReasonCrashLoopBackOff,
	v1alpha1.ReasonPodsUnschedulable, v1alpha1.ReasonPodsNotReady,
}

// worst says what is worst of the pods that are not ready, and of how many it is true. It says the same while that stays the same.
func worst(pods []corev1.Pod) (reason, message string) {
	messages, counts, total := map[string]string{}, map[string]int{}, 0
	for i := range pods {
		if !pods[i].DeletionTimestamp.IsZero() {
			continue
		}
		total++
		why, says := ailment(&pods[i])
		if why == "" {
			continue
		}
		counts[why]++
		if first, found := messages[why]; !found || says < first { // the order of pods says nothing
			messages[why] = says
		}
	}
	for _, why := range worse {
		if counts[why] > 0 {
			return why, fmt.Sprintf("%d of %d pods: %s", counts[why], total, messages[why])
		}
	}
	return "", ""
}

// ailment is what keeps one pod from being ready; nothing for one that is.
func ailment(pod *corev1.Pod) (reason, message string) {
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if reason, message = containerAilment(&container); reason != "" {
			return reason, fmt.Sprintf("container %s: %s", container.Name, message)
		}
	}
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse:
			return v1alpha1.ReasonPodsUnschedulable, c.Message
		case c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && pod.Status.Phase == corev1.PodRunning:
			return v1alpha1.ReasonPodsNotReady, "the containers run and are not ready"
		}
	}
	return "", ""
}

func containerAilment(container *corev1.ContainerStatus) (reason, message string) {
	waiting := container.State.Waiting
	if waiting == nil {
		if ended := container.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return v1alpha1.ReasonCrashLoopBackOff, ending(ended)
		}
		return "", ""
	}
	switch waiting.Reason {
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
		return v1alpha1.ReasonImagePullBackOff, fmt.Sprintf("image %q cannot be pulled: %s", container.Image, pullError(waiting.Message))
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return v1alpha1.ReasonContainerConfig, waiting.Message
	case "CrashLoopBackOff":
		return v1alpha1.ReasonCrashLoopBackOff, ending(container.LastTerminationState.Terminated)
	}
	return "", ""
}

// pullError is why an image cannot be pulled, without the word of the back-off, which comes and goes.
func pullError(message string) string {
	if _, cause, found := strings.Cut(message, "ErrImagePull: "); found {
		return cause
	}
	return message
}

// ending says how a container ended. It names no times and no counts, which are never the same twice.
func ending(ended *corev1.ContainerStateTerminated) string {
	if ended == nil {
		return "it ends again and again"
	}
	return strings.TrimSuffix(fmt.Sprintf("it ended with exit code %d (%s): %s", ended.ExitCode, ended.Reason, ended.Message), ": ")
}
