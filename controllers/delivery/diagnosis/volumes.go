package diagnosis

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
)

// kubeletFailedMount is the reason of the kubelet's event for a volume that it cannot mount.
const kubeletFailedMount = "FailedMount"

// WaitingForVolumes returns the pod to read the events of, and how many pods may wait for their
// volumes. The status of a pod does not say that a volume is missing: only the kubelet's events do.
func WaitingForVolumes(pods []corev1.Pod) (first *corev1.Pod, count int) {
	for i := range pods {
		if !waitsForVolumes(&pods[i]) {
			continue
		}
		count++
		if first == nil || pods[i].Name < first.Name {
			first = &pods[i]
		}
	}
	return first, count
}

// waitsForVolumes reports whether a pod has volumes that can be missing, and none of its containers
// has started.
func waitsForVolumes(pod *corev1.Pod) bool {
	canBeMissing := func(v corev1.Volume) bool {
		return v.EmptyDir == nil && v.DownwardAPI == nil && !strings.HasPrefix(v.Name, "kube-api-access-")
	}
	if !pod.DeletionTimestamp.IsZero() || !slices.ContainsFunc(pod.Spec.Volumes, canBeMissing) {
		return false
	}
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return len(containers) > 0 && !slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.State.Waiting.Reason != "ContainerCreating" && c.State.Waiting.Reason != "PodInitializing"
	})
}

// MountFailure returns what the kubelet reports about the volumes of a pod, or nothing if its
// latest event is about something else. A message that names a missing object is preferred, because
// the others only say that mounting takes long.
func MountFailure(events []eventsv1.Event) string {
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

// mountError returns a message of the kubelet without its fixed beginning.
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
