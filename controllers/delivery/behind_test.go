package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// isAhead stamps the member's objects with a later generation, as after a restore of the hub.
func (s *scene) isAhead() {
	s.Helper()
	for _, object := range []client.Object{s.deployment(), s.service()} {
		s.someone(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
	}
}

func accepts(token string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: token}
	}
}

// behindHub returns the expected report when these objects are ahead of the hub. The first object
// is the newest.
func (s *scene) behindHub(objects ...client.Object) observation.Observation {
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

// behindBy9 returns a scene whose AppService was edited while the hub is behind.
func behindBy9(t *testing.T) *scene {
	s := delivered(t)
	s.isAhead()
	s.edit(editImage)
	s.plan()
	s.reports(s.behindHub(s.deployment(), s.service()), whateverRuns)
	return s
}

func TestHubBehind_ends_at_once_when_it_is_accepted(t *testing.T) {
	t.Parallel()
	s := behindBy9(t)
	begin := time.Now()
	s.edit(accepts(lineage.Of(s.deployment()).Token())) // without another plan
	s.reports(s.ready())
	s.runs("1 × web:2 A=1; ClusterIP 80→8080/TCP")
	if took := time.Since(begin); took > blockerRetry/2 {
		t.Error("it took", took)
	}
	for _, object := range []client.Object{s.deployment(), s.service()} {
		if got := lineage.Of(object).Generation; got != 2 {
			t.Errorf("the %s is stamped for generation %d", kindOf(object), got)
		}
	}
	// The token was needed only once.
	s.edit(func(app *v1alpha1.AppService) { app.Annotations = nil })
	s.restart()
	s.reports(s.ready())
}

// No field differs, so nothing else requires a write, but the old stamp would keep the hub behind.
func TestHubBehind_is_accepted_once(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.isAhead()
	s.edit(accepts(lineage.Of(s.deployment()).Token()))
	s.reports(s.ready())
	eventually(t, func() error {
		for _, object := range []client.Object{s.deployment(), s.service()} {
			if got := lineage.Of(object).Generation; got != 1 {
				return fmt.Errorf("the %s is stamped for generation %d", kindOf(object), got)
			}
		}
		return nil
	})
	s.catchUp()
	s.restsAlsoAfterRestart()
}

func TestHubBehind_stays(t *testing.T) {
	for name, accepted := range map[string]string{"another stamp is accepted": "9-00000000", "a generation is accepted": "9", "nothing is accepted": ""} {
		t.Run("when "+name, func(t *testing.T) {
			t.Parallel()
			s := behindBy9(t)
			was := s.outline()
			s.edit(accepts(accepted))
			seen, _, err := s.look()
			s.must(err)
			if seen.Reason != v1alpha1.ReasonHubBehind {
				t.Errorf("reported %+v", seen)
			}
			s.plan(inPhase(v1alpha1.ClusterRemoving))
			seen, _, err = s.look()
			s.must(err)
			if seen.Reason != v1alpha1.ReasonHubBehind || s.outline() != was {
				t.Errorf("reported %+v, and the member runs %s", seen, s.outline())
			}
		})
	}
}

// A restore affects every AppService on every member, so a state that the entry already reports is
// not read live again.
func TestHubBehind_is_reported_again_without_a_live_read(t *testing.T) {
	tests := map[string]struct {
		changes []func(*v1alpha1.AppService)
		plan    []func(*v1alpha1.ClusterStatus)
		kinds   []client.Object
	}{
		"for a Deployment and a Service": {kinds: []client.Object{&appsv1.Deployment{}, &corev1.Service{}}},
		"for an autoscaler too": {
			changes: []func(*v1alpha1.AppService){scaling},
			plan:    []func(*v1alpha1.ClusterStatus){between(2, 5)},
			kinds:   []client.Object{&appsv1.Deployment{}, &autoscalingv2.HorizontalPodAutoscaler{}, &corev1.Service{}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := declared(t, test.changes...)
			s.plan(test.plan...)
			s.isReady()
			s.end()
			s.connect()
			w := s.witness()
			for _, object := range test.kinds {
				s.has(object)
				s.someone(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
			}
			seen, _ := w.look()
			if seen.HubBehind == nil {
				t.Fatalf("reported %+v", seen)
			}
			s.plan(append(test.plan, func(entry *v1alpha1.ClusterStatus) { entry.HubBehind = seen.HubBehind })...)
			again := func(want observation.Observation, reads int) {
				t.Helper()
				s.sent.reset()
				got, result := w.look()
				want.Applied = got.Applied
				if diff := cmp.Diff(want, got); diff != "" || result.RequeueAfter != blockerRetry {
					t.Errorf("looks again after %s, and reported (-want +got):\n%s", result.RequeueAfter, diff)
				}
				if got := s.sent.count("GET deployments/web"); got != reads {
					t.Errorf("read the member %d times, want %d", got, reads)
				}
			}
			eventually(t, func() error { // the watch of an optional kind begins with the first look
				s.sent.reset()
				w.look()
				if all := s.sent.all(); len(all) > 0 {
					return fmt.Errorf("sent %v", all)
				}
				return nil
			})
			again(seen, 0)

			// A live read confirms another stamp.
			last := test.kinds[0]
			s.has(last)
			s.someone(last, func() { last.GetAnnotations()[v1alpha1.AnnotationGeneration] = "10" })
			seen, _ = w.look()
			if seen.HubBehind == nil || seen.HubBehind.Generation != 10 {
				t.Errorf("reported %+v", seen)
			}
			again(seen, 1)
		})
	}
}

func TestHubBehind_removes_when_it_is_accepted(t *testing.T) {
	t.Parallel()
	s := behindBy9(t)
	s.edit(accepts("9-00000000, " + lineage.Of(s.deployment()).Token()))
	s.plan(inPhase(v1alpha1.ClusterRemoving))
	s.reports(s.removing(s.gone))
	s.runs("no Deployment; no Service")
}

func TestNodePort_that_is_taken_is_reported(t *testing.T) {
	tests := map[string]func(*scene, int32){
		"when the Service is made":    func(*scene, int32) {},
		"when the Service is changed": func(s *scene, _ int32) { s.plan(); s.reports(s.ready()) },
	}
	ports := map[string]int32{"when the Service is made": 30701, "when the Service is changed": 30702}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := ports[name]
			s := declared(t)
			given(s, port)
			taken := s.somebodysService(port)
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports[0].NodePort = port })
			s.plan()
			eventually(t, func() error {
				seen := s.told.last(s.key(), s.cluster)
				if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonPortConflict ||
					!strings.Contains(seen.Message, fmt.Sprintf("%d: provided port is already allocated", port)) {
					return fmt.Errorf("reported %+v", seen)
				}
				return nil
			})
			s.must(onMember.Delete(t.Context(), taken))
			_, _, err := s.look()
			s.must(err)
			s.runs("1 × web:1 A=1; NodePort 80→8080/TCP")
		})
	}
}

// somebodysService creates a Service with the node port under another name.
func (s *scene) somebodysService(port int32) *corev1.Service {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.must(client.IgnoreAlreadyExists(onMember.Create(s.Context(), namespace)))
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "theirs"}}
	service.Spec.Type, service.Spec.Ports = corev1.ServiceTypeNodePort, []corev1.ServicePort{{Port: 80, NodePort: port}}
	s.must(onMember.Create(s.Context(), service))
	return service
}

// An object that is edited while it is being deleted is not changed, and is created again after it
// is gone.
func TestObject_that_is_being_deleted_is_created_again(t *testing.T) {
	for _, kind := range []string{"Deployment", "Service"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := delivered(t)
			held := func() client.Object {
				return map[string]client.Object{"Deployment": s.deployment(), "Service": s.service()}[kind]
			}
			object := held()
			s.someone(object, func() { object.SetFinalizers([]string{"example.com/hold"}) })
			s.must(onMember.Delete(t.Context(), object))
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Ports[0].Port = "web:2", 81 })
			s.plan()
			want := s.failed(v1alpha1.ReasonRollingOut, "the member is deleting "+kind+" web; Fleetwright creates it again afterwards")
			want.Phase = v1alpha1.ClusterProgressing
			s.reports(want, whateverRuns)
			_, result, err := s.look()
			s.must(err)
			if result.RequeueAfter != removalPoll {
				t.Error("looks again after", result.RequeueAfter)
			}
			object = held()
			s.someone(object, func() { object.SetFinalizers(nil) })
			s.reports(s.ready())
			s.runs("1 × web:2 A=1; ClusterIP 81→8080/TCP")
			if held().GetUID() == object.GetUID() {
				t.Error("it is the one that was deleted")
			}
		})
	}
}

// A request that hangs ends with the engagement, and its error is not reported.
func TestRequest_in_flight_ends_with_the_engagement(t *testing.T) {
	s := undelivered(t)
	config, way := throughHanging(t, granted)
	s.config = config
	s.start()
	s.plan()
	s.reports(s.ready())
	before := settled(t)
	way.silent.Store(true)
	s.sent.reset()
	s.edit(editImage)
	s.plan()
	eventually(t, func() error {
		if len(s.sent.all()) == 0 {
			return errors.New("nothing is in flight")
		}
		return nil
	})
	begin := time.Now()
	s.disengage()
	eventually(t, func() error {
		for maker, number := range goroutines() {
			if strings.Contains(maker, "internal/controller.") && number >= before[maker] {
				return fmt.Errorf("%d goroutines %s", number, maker)
			}
		}
		return nil
	})
	if took := time.Since(begin); took > patience/2 {
		t.Error("it took", took)
	}
	eventually(t, func() error {
		if seen := s.told.all(s.key(), s.cluster); len(s.told.forgot()) == 0 || len(seen) > 0 {
			return fmt.Errorf("forgotten: %v; reported: %+v", s.told.forgot(), seen)
		}
		return nil
	})
}
