package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/workload"
	"github.com/fleetwright/fleetwright/internal/wait"
)

type reasonAndMessage struct{ Reason, Message string }

// unreadySetup returns a setup whose Deployment does not become ready, with pods that the test
// creates. Only the test reconciles.
func unreadySetup(t *testing.T, statuses ...corev1.PodStatus) *setup {
	t.Helper()
	s := newSetup(t, withReplicas(int32(max(1, len(statuses)))))
	s.connect()
	s.plan()
	_, _, err := s.reconcileOnce()
	s.must(err)
	s.makeUnavailable()
	for _, status := range statuses {
		s.createPod(status)
	}
	return s
}

// makeUnavailable sets the status of the Deployment to no available pods.
func (s *setup) makeUnavailable(conditions ...appsv1.DeploymentCondition) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		d := s.deployment()
		if d.Status.ObservedGeneration != d.Generation {
			return errors.New("the Deployment has not rolled out yet")
		}
		return nil
	})
	d := s.deployment()
	before := d.DeepCopy()
	pods := *d.Spec.Replicas
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: pods, UpdatedReplicas: pods, UnavailableReplicas: pods, Conditions: conditions}
	s.must(onMember.Status().Patch(s.Context(), d, client.MergeFrom(before)))
}

// createPod creates a pod of the AppService on the member.
func (s *setup) createPod(status corev1.PodStatus) *corev1.Pod {
	s.Helper()
	pod := s.newPod()
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:1"}}
	s.must(onMember.Create(s.Context(), pod))
	s.setPodStatus(pod, status)
	return pod
}

// newPod returns a pod of the AppService's Deployment.
func (s *setup) newPod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, GenerateName: s.app.Name + "-", Labels: workload.Selector(s.app.Name)}}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: s.app.Name, UID: "replica-set", Controller: new(true)}}
	return pod
}

func (s *setup) setPodStatus(pod *corev1.Pod, status corev1.PodStatus) {
	s.Helper()
	pod.Status = status
	s.must(onMember.Status().Update(s.Context(), pod))
}

// makeListingDue makes the next listing of the pods due now.
func (w *testReconciler) makeListingDue() {
	w.Helper()
	memory := w.memories.of(w.app)
	if memory.pods.interval == 0 {
		w.Fatal("no listing of the pods is planned")
	}
	memory.pods.next = time.Now()
}

// reportWithPods returns the report after the pods were listed.
func (w *testReconciler) reportWithPods() observation.Observation {
	w.Helper()
	w.reconcileOnce()
	w.makeListingDue()
	seen, _ := w.reconcileOnce()
	return seen
}

func TestEntry_reports_why_it_is_not_ready(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t)
	pod, w := s.createPod(corev1.PodStatus{}), s.newReconciler()
	w.reconcileOnce()
	for name, failure := range podtest.Failures() {
		t.Run(name, func(t *testing.T) {
			s.setPodStatus(pod, failure.Pod)
			w.makeListingDue()
			seen, _ := w.reconcileOnce()
			want := observation.Observation{
				UID: s.app.UID, Generation: s.app.Generation, Revision: 1, Planned: 1, Phase: v1alpha1.ClusterProgressing, Applied: s.app.Generation, Replicas: 1,
				Reason: failure.Reason, Message: "1 of 1 pods: " + failure.Message, Container: failure.Container,
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntry_has_a_stable_message_while_an_image_is_retried(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t)
	failures := podtest.Failures()
	backOff, failed := failures["image pull in back-off"].Pod, failures["image pull failed"].Pod
	pod, w := s.createPod(backOff), s.newReconciler()
	first := w.reportWithPods()
	for _, status := range []corev1.PodStatus{failed, backOff} {
		s.setPodStatus(pod, status)
		w.makeListingDue()
		if again, _ := w.reconcileOnce(); !first.Same(again) {
			t.Errorf("reported %+v, then %+v", first, again)
		}
	}
}

func TestEntry_reports_why_pods_are_refused(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t)
	quota := `pods "web-1" is forbidden: exceeded quota: small`
	s.makeUnavailable(appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: quota})
	seen, _, err := s.reconcileOnce()
	s.must(err)
	if diff := cmp.Diff(reasonAndMessage{v1alpha1.ReasonPodsRefused, quota}, reasonAndMessage{seen.Reason, seen.Message}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s.sent.count("GET pods") > 0 {
		t.Error("the pods were listed")
	}
}

// The member's text appears in an entry that people read on a terminal and that has a length limit.
func TestEntry_has_a_sanitized_message(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t, podtest.Terminated(1, "Error", "\x1b[31mred\x1b[0m\n\u202e\a"+strings.Repeat("é", 2000)))
	seen := s.newReconciler().reportWithPods()
	if !strings.HasPrefix(seen.Message, "1 of 1 pods: container app: it terminated with exit code 1 (Error): red ") ||
		strings.ContainsAny(seen.Message, "\x1b\n\a\u202e") || len(seen.Message) > 1024 {
		t.Errorf("got %d bytes: %q", len(seen.Message), seen.Message)
	}
}

func TestEntry_reports_that_listing_pods_is_forbidden(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t, podtest.Waiting("ErrImagePull", "no"))
	s.sent.answers(func(request string) (*http.Response, error) {
		if request != "GET pods" {
			return nil, nil
		}
		return refuse(request, http.StatusForbidden, "no")(request)
	})
	seen := s.newReconciler().reportWithPods()
	if diff := cmp.Diff(reasonAndMessage{v1alpha1.ReasonRollingOut, "the cause is unknown: the credentials do not allow listing pods; apply config/member to the member"}, reasonAndMessage{seen.Reason, seen.Message}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Pods of other workloads do not affect the diagnosis of this AppService.
func TestEntry_ignores_other_pods(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t)
	other, bare := s.newPod(), s.newPod()
	other.Labels, bare.OwnerReferences = workload.Selector("other"), nil // somebody has created bare with our labels
	for _, pod := range []*corev1.Pod{other, bare} {
		pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:1"}}
		s.must(onMember.Create(t.Context(), pod))
		s.setPodStatus(pod, podtest.Waiting("ErrImagePull", "no"))
	}
	seen := s.newReconciler().reportWithPods()
	if seen.Reason != v1alpha1.ReasonRollingOut {
		t.Errorf("reported %+v", seen)
	}
}

// Listing pods is expensive: it happens after 5 s, and then at growing intervals.
func TestPods_are_listed_rarely(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t, podtest.Waiting("ErrImagePull", "no"))
	w := s.newReconciler()
	due := time.Now() // when the interval began, or earlier
	about := func(result, want time.Duration) {
		t.Helper()
		if result > want || result < want-time.Since(due) {
			t.Errorf("requeued after %v, want %v", result, want)
		}
	}
	for range 3 { // as after watch events
		_, result := w.reconcileOnce()
		about(result.RequeueAfter, firstListing)
	}
	if got := s.sent.count("GET pods"); got > 0 {
		t.Errorf("listed pods %d times before it was time", got)
	}
	for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, maxListing, maxListing} {
		w.makeListingDue()
		due = time.Now()
		for range 2 {
			seen, result := w.reconcileOnce()
			about(result.RequeueAfter, want)
			if seen.Reason != v1alpha1.ReasonImagePullBackOff {
				t.Errorf("reported %+v", seen)
			}
		}
		if got := s.sent.count("GET pods"); got != i+1 {
			t.Errorf("listed pods %d times, want %d", got, i+1)
		}
	}

	// A new generation starts over, and does not report the diagnosis of the previous one.
	s.edit(editImage)
	s.plan()
	due = time.Now()
	w.reconcileOnce()
	s.makeUnavailable()
	seen, result := w.reconcileOnce()
	about(result.RequeueAfter, firstListing)
	if seen.Reason != v1alpha1.ReasonRollingOut {
		t.Errorf("reported %+v", seen)
	}
}

// A change of the Deployment or of the diagnosis shows that the workload is not merely stuck.
func TestPods_are_listed_more_often_after_a_change(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t)
	pod, w := s.createPod(podtest.Waiting("ErrImagePull", "no")), s.newReconciler()
	var due time.Time // when the interval began, or earlier
	backOff := func() {
		t.Helper()
		due = time.Now()
		w.reconcileOnce()
		for w.memories.of(w.app).pods.interval < maxListing {
			w.makeListingDue()
			w.reconcileOnce()
		}
		s.sent.reset()
	}
	listsWithin := func(listed int, want time.Duration) {
		t.Helper()
		_, result := w.reconcileOnce()
		if got := result.RequeueAfter; s.sent.count("GET pods") != listed || got > want || got < want-time.Since(due) {
			t.Errorf("listed pods %d times, and requeued after %v; want %d times, and %v", s.sent.count("GET pods"), got, listed, want)
		}
	}
	backOff()
	listsWithin(0, maxListing)
	s.makeUnavailable(appsv1.DeploymentCondition{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "ReplicaSetUpdated"})
	listsWithin(0, maxListingOfChanged) // they were listed a moment ago
	w.memories.of(w.app).pods.listed = time.Now().Add(-maxListingOfChanged)
	listsWithin(1, maxListingOfChanged)
	listsWithin(1, maxListingOfChanged)

	backOff()
	s.setPodStatus(pod, podtest.Waiting("CreateContainerConfigError", "no"))
	w.makeListingDue()
	listsWithin(1, maxListingOfChanged)
}

// The operator lists the pods by itself after the interval.
func TestPods_are_listed_after_a_while(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t, podtest.Waiting("ErrImagePull", "no"))
	s.end()
	begin := time.Now()
	s.start()
	wait.Eventually(t, func() error {
		if seen := s.reported.last(s.key(), s.cluster); seen.Reason != v1alpha1.ReasonImagePullBackOff {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
	if took, listed := time.Since(begin), s.sent.count("GET pods"); took < firstListing || listed > int(took/firstListing) {
		t.Errorf("listed pods %d times within %v", listed, took)
	}
}

func TestPods_of_a_workload_that_becomes_ready_are_never_listed(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.edit(editImage)
	s.plan()
	s.expectReport(s.ready())
	if got := s.sent.count("GET pods"); got > 0 {
		t.Errorf("listed pods %d times", got)
	}
}

func TestPodDiagnosis_is_of_one_generation(t *testing.T) {
	t.Parallel()
	fresh := func(generation int64) podDiagnosis {
		return podDiagnosis{generation: generation, next: testTime.Add(firstListing), interval: firstListing}
	}
	last := podDiagnosis{}.forGeneration(1, testTime)
	last.reason = "x"
	got := []podDiagnosis{last.forGeneration(1, testTime.Add(time.Hour)), last.forGeneration(2, testTime)}
	if diff := cmp.Diff([]podDiagnosis{last, fresh(2)}, got, cmp.AllowUnexported(podDiagnosis{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A new process does not know the pods yet, and says so: the failure of the entry is not over.
func TestPods_are_unlisted_until_a_list_succeeds(t *testing.T) {
	t.Parallel()
	s := unreadySetup(t, podtest.Waiting("ErrImagePull", "no"))
	w := s.newReconciler()
	if seen, _ := w.reconcileOnce(); !seen.PodsUnlisted || seen.Reason != v1alpha1.ReasonRollingOut {
		t.Errorf("before the list: reported %+v", seen)
	}
	fails := true
	s.sent.answers(func(request string) (*http.Response, error) {
		if request != "GET pods" || !fails {
			return nil, nil
		}
		return refuse(request, http.StatusInternalServerError, "no")(request)
	})
	w.makeListingDue()
	if seen, _ := w.reconcileOnce(); !seen.PodsUnlisted {
		t.Errorf("after a list that failed: reported %+v", seen)
	}
	fails = false
	w.makeListingDue()
	listed, _ := w.reconcileOnce()
	if listed.PodsUnlisted || listed.Reason != v1alpha1.ReasonImagePullBackOff {
		t.Errorf("after a list: reported %+v", listed)
	}
	fails = true
	w.makeListingDue()
	again, _ := w.reconcileOnce()
	if diff := cmp.Diff(listed, again); diff != "" {
		t.Errorf("after another list that failed (-before +after):\n%s", diff)
	}
}
