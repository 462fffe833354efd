package delivery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxEvents is how many events of one pod are read.
const maxEvents = 50

// kubeletFailedMount is the reason of the kubelet's event for a volume that cannot be mounted.
const kubeletFailedMount = "FailedMount"

// mountFailure returns why pods wait for their volumes, such as for a ConfigMap that the member lacks. A pod's status does not say
// so: only the kubelet's events do. They are read for one pod, and only of pods that have volumes.
func (r *reconciler) mountFailure(ctx context.Context, pods []corev1.Pod) (reason, message string) {
	creating := slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !waitsForVolumes(&pod) })
	if len(creating) == 0 {
		return "", ""
	}
	first := slices.MinFunc(creating, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	var events eventsv1.EventList
	err := r.live.List(ctx, &events, client.InNamespace(first.Namespace), client.MatchingFields{"regarding.uid": string(first.UID)}, client.Limit(maxEvents))
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Sprintf("%d of %d pods are being created; whether a volume lacks something is not known: the credentials may not list events (config/member grants it)", len(creating), len(pods))
	case err != nil:
		return "", "" // it is asked again
	}
	if failure := failedMount(events.Items); failure != "" {
		return v1alpha1.ReasonFailedMount, fmt.Sprintf("%d of %d pods are being created: %s", len(creating), len(pods), failure)
	}
	return "", ""
}

// waitsForVolumes reports whether a pod has volumes that are more than a directory, and none of its containers has begun.
func waitsForVolumes(pod *corev1.Pod) bool {
	needs := func(v corev1.Volume) bool {
		return v.EmptyDir == nil && v.DownwardAPI == nil && !strings.HasPrefix(v.Name, "kube-api-access-")
	}
	if !pod.DeletionTimestamp.IsZero() || !slices.ContainsFunc(pod.Spec.Volumes, needs) {
		return false
	}
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return len(containers) > 0 && !slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.State.Waiting.Reason != "ContainerCreating" && c.State.Waiting.Reason != "PodInitializing"
	})
}

// failedMount returns what the kubelet says of the volumes of a pod, or nothing when it has gone on to something else. Of several
// messages that come and go it takes one that says what is not found, and always the same.
func failedMount(events []eventsv1.Event) string {
	if len(events) == 0 {
		return ""
	}
	last := slices.MaxFunc(events, func(a, b eventsv1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	if last.Reason != kubeletFailedMount {
		return ""
	}
	var missing, others []string
	for _, event := range events {
		switch {
		case event.Reason != kubeletFailedMount:
		case strings.Contains(event.Note, "not found"):
			missing = append(missing, mountError(event.Note))
		default:
			others = append(others, mountError(event.Note))
		}
	}
	if len(missing) == 0 {
		return slices.Min(others)
	}
	return slices.Min(missing)
}

// mountError returns a message of the kubelet without the words that are the same in each.
func mountError(note string) string {
	rest, found := strings.CutPrefix(note, "MountVolume.SetUp failed for ")
	if !found {
		return note
	}
	return strings.Replace(rest, " : ", ": ", 1)
}

func lastSeen(event *eventsv1.Event) time.Time {
	last := event.CreationTimestamp.Time
	for _, t := range []time.Time{event.EventTime.Time, event.DeprecatedLastTimestamp.Time} {
		if t.After(last) {
			last = t
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	return last
}
