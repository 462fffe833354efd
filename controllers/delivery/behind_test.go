package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// stampLaterGeneration stamps the member's objects with a later generation, as after a restore of
// the hub.
func (s *setup) stampLaterGeneration() {
	s.Helper()
	for _, object := range []client.Object{s.deployment(), s.service()} {
		s.changeByOther(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
	}
}

func acceptStamp(token string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: token}
	}
}

// reportBehind returns the expected report when these objects are ahead of the hub. The first
// object is the newest.
func (s *setup) reportBehind(objects ...client.Object) observation.Observation {
	s.Helper()
	newest := lineage.Of(objects[0])
	ahead := &v1alpha1.HubBehind{Kind: kindOf(objects[0]), Generation: newest.Generation}
	if newest.UID != s.app.UID {
		ahead.UID = newest.UID
	}
	var tokens []string
	for _, object := range objects {
		tokens = append(tokens, lineage.Of(object).Token())
	}
	ahead.Accept = lineage.Join(tokens)
	seen := s.failed(v1alpha1.ReasonHubBehind, lineage.BehindMessage(ahead))
	seen.HubBehind = ahead
	return seen
}

// setupBehind returns a setup whose AppService was edited while the hub is behind.
func setupBehind(t *testing.T) *setup {
	s := deliveredSetup(t)
	s.stampLaterGeneration()
	s.edit(editImage)
	s.plan()
	s.expectReport(s.reportBehind(s.deployment(), s.service()), ignoreReplicas)
	return s
}

// The case "an accepted stamp" of the dispatcher shows that no retry is waited for.
func TestHubBehind_ends_when_it_is_accepted(t *testing.T) {
	t.Parallel()
	s := setupBehind(t)
	s.edit(acceptStamp(lineage.Of(s.deployment()).Token())) // without another plan
	s.expectReport(s.ready())
	s.expectWorkload("1 × web:2 A=1; ClusterIP 80→8080/TCP")
	for _, object := range []client.Object{s.deployment(), s.service()} {
		if got := lineage.Of(object).Generation; got != 2 {
			t.Errorf("the %s is stamped for generation %d", kindOf(object), got)
		}
	}
	// The token was needed only once.
	s.edit(func(app *v1alpha1.AppService) { app.Annotations = nil })
	s.restart()
	s.expectReport(s.ready())
}

// No field differs, so nothing else requires a write, but the old stamp would keep the hub behind.
func TestHubBehind_is_accepted_once(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.stampLaterGeneration()
	s.edit(acceptStamp(lineage.Of(s.deployment()).Token()))
	s.expectReport(s.ready())
	wait.Eventually(t, func() error {
		for _, object := range []client.Object{s.deployment(), s.service()} {
			if got := lineage.Of(object).Generation; got != 1 {
				return fmt.Errorf("the %s is stamped for generation %d", kindOf(object), got)
			}
		}
		return nil
	})
	s.catchUp()
	s.expectAtRestAlsoAfterRestart()
}

func TestHubBehind_stays(t *testing.T) {
	t.Parallel()
	for name, accepted := range map[string]string{"another stamp is accepted": "9-00000000", "a generation is accepted": "9", "nothing is accepted": ""} {
		t.Run("when "+name, func(t *testing.T) {
			t.Parallel()
			s := setupBehind(t)
			was := s.describeWorkload()
			s.edit(acceptStamp(accepted))
			seen, _, err := s.reconcileOnce()
			s.must(err)
			if seen.Reason != v1alpha1.ReasonHubBehind {
				t.Errorf("reported %+v", seen)
			}
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			seen, _, err = s.reconcileOnce()
			s.must(err)
			if seen.Reason != v1alpha1.ReasonHubBehind || s.describeWorkload() != was {
				t.Errorf("reported %+v, and the member runs %s", seen, s.describeWorkload())
			}
		})
	}
}

// A restore affects every AppService on every member, so a state that the entry already reports is
// not read live again.
func TestHubBehind_is_reported_again_without_a_live_read(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		changes []func(*v1alpha1.AppService)
		plan    []func(*v1alpha1.ClusterStatus)
		kinds   []client.Object
	}{
		"for a Deployment and a Service": {kinds: []client.Object{&appsv1.Deployment{}, &corev1.Service{}}},
		"for an autoscaler too": {
			changes: []func(*v1alpha1.AppService){withAutoscaler},
			plan:    []func(*v1alpha1.ClusterStatus){withBounds(2, 5)},
			kinds:   []client.Object{&appsv1.Deployment{}, &autoscalingv2.HorizontalPodAutoscaler{}, &corev1.Service{}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startedSetup(t, test.changes...)
			s.plan(test.plan...)
			s.expectReady()
			s.end()
			s.connect()
			w := s.newReconciler()
			for _, object := range test.kinds {
				s.has(object)
				s.changeByOther(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
			}
			seen, _ := w.reconcileOnce()
			if seen.HubBehind == nil {
				t.Fatalf("reported %+v", seen)
			}
			s.plan(append(test.plan, func(entry *v1alpha1.ClusterStatus) { entry.HubBehind = seen.HubBehind })...)
			again := func(want observation.Observation, reads int) {
				t.Helper()
				s.sent.reset()
				got, result := w.reconcileOnce()
				want.Applied = got.Applied
				if diff := cmp.Diff(want, got); diff != "" || result.RequeueAfter != blockerRetry {
					t.Errorf("requeued after %s, and reported (-want +got):\n%s", result.RequeueAfter, diff)
				}
				if got := s.sent.count("GET deployments/web"); got != reads {
					t.Errorf("read the member %d times, want %d", got, reads)
				}
			}
			wait.Eventually(t, func() error { // the watch of an optional kind begins with the first reconcile
				s.sent.reset()
				w.reconcileOnce()
				if all := s.sent.all(); len(all) > 0 {
					return fmt.Errorf("sent %v", all)
				}
				return nil
			})
			again(seen, 0)

			// A live read confirms another stamp.
			last := test.kinds[0]
			s.has(last)
			s.changeByOther(last, func() { last.GetAnnotations()[v1alpha1.AnnotationGeneration] = "10" })
			seen, _ = w.reconcileOnce()
			if seen.HubBehind == nil || seen.HubBehind.Generation != 10 {
				t.Errorf("reported %+v", seen)
			}
			again(seen, 1)
		})
	}
}

func TestHubBehind_removes_when_it_is_accepted(t *testing.T) {
	t.Parallel()
	s := setupBehind(t)
	s.edit(acceptStamp("9-00000000, " + lineage.Of(s.deployment()).Token()))
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	s.expectWorkload("no Deployment; no Service")
}

func TestNodePort_that_is_already_allocated_is_reported(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup, int32){
		"when the Service is created": func(*setup, int32) {},
		"when the Service is updated": func(s *setup, _ int32) { s.plan(); s.expectReport(s.ready()) },
	}
	// The API server allocates ports below 30086 last, so no other test gets them by chance.
	ports := map[string]int32{"when the Service is created": 30071, "when the Service is updated": 30072}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := ports[name]
			s := startedSetup(t)
			given(s, port)
			taken := s.createServiceWithNodePort(port)
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports[0].NodePort = port })
			s.plan()
			wait.Eventually(t, func() error {
				seen := s.reported.last(s.key(), s.cluster)
				if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonPortConflict ||
					!strings.Contains(seen.Message, fmt.Sprintf("%d: provided port is already allocated", port)) {
					return fmt.Errorf("reported %+v", seen)
				}
				return nil
			})
			s.must(onMember.Delete(t.Context(), taken))
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectWorkload("1 × web:1 A=1; NodePort 80→8080/TCP")
		})
	}
}

// createServiceWithNodePort creates a Service with the node port under another name.
func (s *setup) createServiceWithNodePort(port int32) *corev1.Service {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.must(client.IgnoreAlreadyExists(onMember.Create(s.Context(), namespace)))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "other"}}
	service.Spec.Type, service.Spec.Ports = corev1.ServiceTypeNodePort, []corev1.ServicePort{{Port: 80, NodePort: port}}
	s.must(onMember.Create(s.Context(), service))
	return service
}

// An object that is edited while it is being deleted is not changed, and is created again after it
// is gone.
func TestObject_that_is_being_deleted_is_created_again(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"Deployment", "Service"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			held := func() client.Object {
				return map[string]client.Object{"Deployment": s.deployment(), "Service": s.service()}[kind]
			}
			object := held()
			s.changeByOther(object, func() { object.SetFinalizers([]string{"example.com/hold"}) })
			s.must(onMember.Delete(t.Context(), object))
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Ports[0].Port = "web:2", 81 })
			s.plan()
			want := s.failed(v1alpha1.ReasonRollingOut, "the member is deleting "+kind+" web; Fleetwright creates it again afterwards")
			want.Phase = v1alpha1.ClusterProgressing
			s.expectReport(want, ignoreReplicas)
			_, result, err := s.reconcileOnce()
			s.must(err)
			if result.RequeueAfter != removalPoll {
				t.Error("requeued after", result.RequeueAfter)
			}
			object = held()
			s.changeByOther(object, func() { object.SetFinalizers(nil) })
			s.expectReport(s.ready())
			s.expectWorkload("1 × web:2 A=1; ClusterIP 81→8080/TCP")
			if held().GetUID() == object.GetUID() {
				t.Error("it is the deleted object")
			}
		})
	}
}
