package diagnosis

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
)

// healthy are pods without a failure.
var healthy = map[string]corev1.PodStatus{
	"is ready":                     podtest.Running(corev1.ConditionTrue),
	"is being created":             podtest.Waiting("ContainerCreating", ""),
	"has completed":                podtest.Terminated(0, "Completed", ""),
	"is new":                       {Phase: corev1.PodPending},
	"is neither running nor ready": {Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}},
	"has a running init container": podtest.Initializing(podtest.Container(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})),
}

func pods(statuses ...corev1.PodStatus) []corev1.Pod {
	var all []corev1.Pod
	for _, status := range statuses {
		all = append(all, corev1.Pod{Status: status})
	}
	return all
}

type diagnosed struct{ Reason, Message string }

func mostSevereOf(statuses ...corev1.PodStatus) diagnosed {
	failure := MostSevere(pods(statuses...))
	return diagnosed{failure.Reason, failure.Message}
}

func TestMostSevere(t *testing.T) {
	for name, test := range podtest.Failures() {
		t.Run(name, func(t *testing.T) {
			want := Failure{test.Reason, "1 of 2 pods: " + test.Message, test.Container}
			if diff := cmp.Diff(want, MostSevere(pods(podtest.Running(corev1.ConditionTrue), test.Pod))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for name, pod := range healthy {
		t.Run("returns nothing for a pod that "+name, func(t *testing.T) {
			if diff := cmp.Diff(diagnosed{}, mostSevereOf(pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("returns nothing without pods", func(t *testing.T) {
		if diff := cmp.Diff(diagnosed{}, mostSevereOf()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("does not count pods that are being deleted", func(t *testing.T) {
		all := pods(podtest.Crashing(1, "Error"), podtest.Crashing(1, "Error"), podtest.Waiting("ErrImagePull", "no"))
		all[2].DeletionTimestamp = new(metav1.Now())
		want := Failure{v1alpha1.ReasonCrashLoopBackOff, "2 of 2 pods: container app: it terminated with exit code 1 (Error)", "app"}
		if diff := cmp.Diff(want, MostSevere(all)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("returns the most severe failure in any order", func(t *testing.T) {
		ordered := []corev1.PodStatus{
			podtest.Waiting("ErrImagePull", "no"), podtest.Waiting("CreateContainerConfigError", "no"), podtest.Crashing(1, "Error"), podtest.Unschedulable("no"), podtest.Running(corev1.ConditionFalse),
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
		a, b := podtest.Terminated(1, "Error", "a"), podtest.Terminated(2, "Error", "b")
		if first, second := mostSevereOf(a, b, a), mostSevereOf(b, a, a); first != second {
			t.Errorf("%v and %v", first, second)
		}
	})
}

// A reason that [podFailure] returns but bySeverity lacks would never be reported.
func TestMostSevere_knows_every_reason(t *testing.T) {
	for name, test := range podtest.Failures() {
		if got := mostSevereOf(test.Pod).Reason; got != test.Reason {
			t.Errorf("%s: got %q, want %q", name, got, test.Reason)
		}
	}
}
