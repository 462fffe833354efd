package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Each request counts for each AppService on each member. The test does not run in parallel,
// because all tests share the hub.
func TestRemoval_sends_few_requests(t *testing.T) {
	s := deliveredSetup(t)
	s.sent.reset()
	before := len(hubRequests.all())
	start := time.Now()
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	wait.Eventually(t, func() error {
		if !slices.Contains(s.sent.all(), "POST events") {
			return fmt.Errorf("sent to the member: %v", s.sent.all())
		}
		return nil
	})
	count := map[string]int{}
	for _, request := range s.sent.all() {
		count[request]++
	}
	polls := int(time.Since(start) / removalPoll) // on a slow machine
	for _, confirming := range []string{"GET deployments/web", "GET services/web"} {
		if count[confirming] > 1 && count[confirming] <= 1+polls {
			count[confirming] = 1
		}
	}
	want := map[string]int{
		"DELETE deployments/web": 1, "DELETE services/web": 1,
		"GET deployments/web": 1, "GET services/web": 1, // they confirm that both are gone
		"POST events": 1,
	}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("sent to the member (-want +got):\n%s", diff)
	}
	reads := hubRequests.all()[before:]
	if diff := cmp.Diff([]string{"GET appservices/web"}, slices.Compact(slices.Clone(reads))); diff != "" || len(reads) > 1+polls {
		t.Errorf("sent to the hub: %v", reads)
	}
	note := fmt.Sprintf("Deployment web: deleted as AppService %s requires: Deployment, Service (by hub %s)", s.key(), testHubID)
	if diff := cmp.Diff([]string{note}, s.eventsOn(onMember, v1alpha1.ReasonRemoved)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Under load, the cache shows a Service for some time after it was deleted. That is announced once: the
// same event again would be a patch, which members do not permit.
func TestService_that_is_gone_is_not_announced_again(t *testing.T) {
	s := deliveredSetup(t)
	service := s.service()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.plan()
	s.expectReport(s.ready())
	removed := s.awaitEventOnMember(v1alpha1.ReasonRemoved)
	s.end()
	s.start()
	s.sent.reset()
	_, _, err := s.reconcileWith(hubCached, staleCluster{s.member, []client.Object{service}})
	s.must(err)
	if sent := s.sent.count("DELETE services/web"); sent != 1 {
		t.Errorf("sent to the member: %v", s.sent.all())
	}
	s.member.GetEventRecorder(eventSource).Eventf(s.deployment(), nil, corev1.EventTypeNormal, "Last", "Test", "events are sent in order")
	s.awaitEventOnMember("Last")
	if diff := cmp.Diff(removed, s.eventsOn(onMember, v1alpha1.ReasonRemoved)); diff != "" || s.sent.count("PATCH events") > 0 {
		t.Errorf("sent to the member: %v; events (-before +after):\n%s", s.sent.all(), diff)
	}
}

// awaitEventOnMember returns the notes of the events with a reason, when there is one.
func (s *setup) awaitEventOnMember(reason string) (notes []string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if notes = s.eventsOn(onMember, reason); len(notes) == 0 {
			return fmt.Errorf("there is no event %s on the member", reason)
		}
		return nil
	})
	return notes
}

// The deletion of an AppService is announced on the hub, and deletes hundreds of objects at once. So
// a member gets no Event for it. The test does not run in parallel, because all tests share the hub.
func TestRemoval_of_a_deleted_AppService_sends_no_event(t *testing.T) {
	s := deliveredSetup(t)
	s.deleteApp()
	s.sent.reset()
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	s.end() // sends what is left to send
	if sent := s.sent.count("POST events"); sent > 0 {
		t.Errorf("sent to the member: %v", s.sent.all())
	}
	if notes := s.eventsOn(onMember, v1alpha1.ReasonRemoved); notes != nil {
		t.Errorf("events: %q", notes)
	}
}

// The cache shows what to delete, and the member has something else.
func TestRemoval_with_a_stale_cache(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*setup)
		want   string
	}{
		"leaves everything if another hub has taken an object over": {
			func(s *setup) {
				d := s.deployment()
				s.changeByOther(d, func() { d.Annotations[v1alpha1.AnnotationHub] = "hub-2" })
			},
			running,
		},
		"deletes an object that has only changed": {
			func(s *setup) {
				d := s.deployment()
				s.changeByOther(d, func() { d.Annotations["example.com/note"] = "any" })
			},
			"no Deployment; no Service",
		},
		"deletes an optional object that the Deployment did not list yet": {
			func(s *setup) {
				d := s.deployment()
				s.changeByOther(d, func() { d.Annotations[v1alpha1.AnnotationOwnedKinds] = "HorizontalPodAutoscaler" })
				s.createAutoscaler(func(scaler *autoscalingv2.HorizontalPodAutoscaler) {
					scaler.Name, scaler.Labels = s.app.Name, d.Labels
					scaler.Annotations = map[string]string{v1alpha1.AnnotationHub: testHubID, v1alpha1.AnnotationUID: string(s.app.UID)}
				})
			},
			"no Deployment; no Service",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.disengage()
			s.connect()
			w := s.newReconciler()
			deployment, service := s.deployment(), s.service()
			test.change(s)
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			current := w.reader.cached
			w.reader.cached = staleClient{s.member.GetClient(), []client.Object{deployment, service}}
			w.reconcileOnce()
			w.reader.cached = current
			wait.Eventually(t, func() error {
				seen, _ := w.reconcileOnce()
				left := s.has(&autoscalingv2.HorizontalPodAutoscaler{})
				if left && !seen.GoneSince.IsZero() {
					t.Fatal("the removal is confirmed while the autoscaler is left")
				}
				if got := s.describeWorkload(); got != test.want || left {
					return fmt.Errorf("the member runs %s", got)
				}
				return nil
			})
		})
	}
}

// What the cache shows is deleted once, although the next event may come before that of the
// deletion.
func TestRemoval_deletes_nothing_twice(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.disengage()
	s.connect()
	w := s.newReconciler()
	w.reader.cached = staleClient{s.member.GetClient(), []client.Object{s.deployment(), s.service()}}
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	for range 2 {
		if _, result := w.reconcileOnce(); result.RequeueAfter != removalPoll {
			t.Errorf("requeued after %v", result.RequeueAfter)
		}
	}
	if diff := cmp.Diff([]string{"DELETE deployments/web", "DELETE services/web"}, slices.DeleteFunc(s.sent.all(), func(r string) bool { return r == "POST events" })); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}

	// The cache is not trusted for long.
	w.memories.of(s.app).removal.startTime = time.Now().Add(-removalPoll)
	seen, _ := w.reconcileOnce()
	if diff := cmp.Diff(s.removing(s.confirmed), seen); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// A removal leaves nothing behind that decides on a later one.
func TestRemoval_after_another_one_looks_for_optional_objects(t *testing.T) {
	t.Parallel()
	var m memory
	first := entry("east", v1alpha1.ClusterRemoving, 2)
	m.removalOf(&first).hasNoOptional = true
	if !m.removalOf(&first).hasNoOptional {
		t.Error("the removal is forgotten")
	}
	second := first
	second.LastTransitionTime = metav1.NewTime(first.LastTransitionTime.Add(time.Second))
	if m.removalOf(&second).hasNoOptional {
		t.Error("the next removal is taken for the one before")
	}
}
