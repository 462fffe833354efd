package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// somebodys creates an object with the scene's name and these marks on the member. Its Deployments
// do not roll out.
func (s *scene) somebodys(object client.Object, labels, annotations map[string]string) client.Object {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.must(client.IgnoreAlreadyExists(onMember.Create(s.Context(), namespace)))
	object = object.DeepCopyObject().(client.Object)
	object.SetNamespace(s.app.Namespace)
	object.SetName(s.app.Name)
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	s.must(onMember.Create(s.Context(), object, client.FieldOwner("somebody")))
	return object
}

var (
	aDeployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Paused: true,
		// A selector is immutable, so another selector would block an overwrite. With our
		// selector, only our checks prevent it.
		Selector: &metav1.LabelSelector{MatchLabels: workload.Selector("web")},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: workload.Selector("web")},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "theirs:1"}}},
		},
	}}
	aService = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	// deliveredKinds has an object of each kind that is always delivered.
	deliveredKinds = map[string]client.Object{"Deployment": aDeployment, "Service": aService}
)

// untouched fails the test if the member's object has changed.
func (s *scene) untouched(was client.Object) {
	s.Helper()
	is := was.DeepCopyObject().(client.Object)
	s.must(onMember.Get(s.Context(), s.key(), is))
	if diff := cmp.Diff(was, is); diff != "" {
		s.Errorf("it was touched (-was +is):\n%s", diff)
	}
}

// ownership is the owner of an object according to its marks.
type ownership struct {
	labels, annotations map[string]string
	said                string
}

const adoptable = "; to adopt it, set spec.conflictPolicy to AdoptIfIdentical or Adopt"

func foreigners() map[string]ownership {
	ours := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAppService: "web"}
	return map[string]ownership{
		"somebody who left no mark": {
			said: `it is managed by "somebody"` + adoptable,
		},
		"another tool": {
			labels: map[string]string{v1alpha1.LabelManagedBy: "Helm"},
			said:   `it is managed by "Helm"` + adoptable,
		},
		"another hub": {
			labels:      ours,
			annotations: map[string]string{v1alpha1.AnnotationHub: "hub-2"},
			said:        `it belongs to hub "hub-2"`,
		},
		"somebody who has our labels alone": {
			labels: ours,
			said:   "it is managed by an unknown manager" + adoptable,
		},
	}
}

func TestForeign_object_is_never_touched_and_its_owner_is_named(t *testing.T) {
	for kind, object := range deliveredKinds {
		for name, owner := range foreigners() {
			t.Run(kind+" of "+name, func(t *testing.T) {
				s := declared(t)
				was := s.somebodys(object, owner.labels, owner.annotations)
				s.plan()
				want := s.failed(v1alpha1.ReasonConflict, kind+" web exists and does not belong to this AppService: "+owner.said)
				s.reports(want, whateverRuns)
				_, result, err := s.look()
				s.must(err)
				if result.RequeueAfter != blockerRetry {
					t.Error("looks again after", result.RequeueAfter)
				}
				s.untouched(was)

				s.plan(inPhase(v1alpha1.ClusterRemoving))
				_, _, err = s.look()
				s.must(err)
				s.untouched(was)
			})
		}
	}
}

func TestConflict_ends_with_the_foreign_object(t *testing.T) {
	s := declared(t)
	owner := foreigners()["another hub"]
	theirs := s.somebodys(aService, owner.labels, owner.annotations)
	s.plan()
	s.reports(s.failed(v1alpha1.ReasonConflict, "Service web exists and does not belong to this AppService: "+owner.said))
	s.must(onMember.Delete(t.Context(), theirs))
	s.reports(s.ready())
	s.runs("1 × web:1 A=1; ClusterIP 80→8080/TCP")
}

// The pods of a foreign Deployment do not belong to this AppService, however well they run.
func TestForeign_Deployment_is_not_observed(t *testing.T) {
	tests := map[string]struct {
		row  func(*v1alpha1.ClusterStatus)
		edit func(*v1alpha1.AppService)
	}{
		"when it stands in the way":                     {row: func(*v1alpha1.ClusterStatus) {}},
		"while the planner has not planned an edit yet": {row: plannedFor(1), edit: func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := declared(t)
			owner := foreigners()["another hub"]
			theirs := s.somebodys(aDeployment, owner.labels, owner.annotations).(*appsv1.Deployment)
			s.must(rollOut(t.Context(), unpaused(theirs)))
			if test.edit != nil {
				s.edit(test.edit)
			}
			s.plan(test.row)
			seen, _, err := s.look()
			s.must(err)
			want := s.failed(v1alpha1.ReasonConflict, "Deployment web exists and does not belong to this AppService: "+owner.said)
			want.Generation = s.app.Status.Clusters[0].Generation
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
		})
	}
}

func unpaused(deployment *appsv1.Deployment) *appsv1.Deployment {
	deployment = deployment.DeepCopy()
	deployment.Spec.Paused = false
	return deployment
}

// An object that replaced ours after the member's cache synced belongs to another manager.
func TestObject_that_replaced_ours_is_never_changed(t *testing.T) {
	edits := map[string]func(*v1alpha1.AppService){
		"is changed":    func(app *v1alpha1.AppService) { app.Spec.Env, app.Spec.Ports[0].Port = nil, 81 },
		"is taken away": func(app *v1alpha1.AppService) { app.Spec.Ports = nil },
		"stays":         func(*v1alpha1.AppService) {},
	}
	for kind, object := range deliveredKinds {
		for name, edit := range edits {
			t.Run(kind+" that "+name, func(t *testing.T) {
				s := delivered(t)
				deployment, service := s.deployment(), s.service()
				s.end()
				s.must(onMember.Delete(t.Context(), map[string]client.Object{"Deployment": deployment, "Service": service}[kind]))
				was := s.somebodys(object, nil, nil)
				s.edit(edit)
				s.plan()
				s.start()
				s.catchUp()
				_, _, _ = s.lookThrough(hubCached, behind{s.member, []client.Object{deployment, service}})
				s.untouched(was)
			})
		}
	}
}

func TestObject_of_a_later_generation_is_not_changed(t *testing.T) {
	stamp := func(s *scene, kind string) {
		deployment, service := s.deployment(), s.service()
		object := map[string]client.Object{"Deployment": deployment, "Service": service}[kind]
		s.someone(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
	}
	for kind := range deliveredKinds {
		for _, phase := range []v1alpha1.ClusterPhase{v1alpha1.ClusterPending, v1alpha1.ClusterRemoving} {
			t.Run(kind+" when the row is "+string(phase), func(t *testing.T) {
				s := delivered(t)
				stamp(s, kind)
				was := s.outline()
				s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Ports = "web:2", nil })
				s.sent.reset()
				s.plan(inPhase(phase))
				ahead := map[string]client.Object{"Deployment": s.deployment(), "Service": s.service()}[kind]
				want := s.behindHub(ahead)
				want.Replicas, want.ReadyReplicas = 1, 1
				if phase == v1alpha1.ClusterRemoving {
					want.Phase = phase
				}
				s.reports(want)
				s.runs(was)
			})
		}
	}
}

// A stale cache has an old AppService. Its lower replicas are not an instruction to scale down, and
// no evidence that the hub is behind.
func TestStale_hub_cache_changes_nothing_and_is_not_reported(t *testing.T) {
	s := delivered(t)
	old := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	s.plan()
	s.reports(s.ready())
	seen, result, err := s.lookThrough(behind{hubCached, []client.Object{old}}, s.member)
	s.must(err)
	s.runs("5 × web:1 A=1; ClusterIP 80→8080/TCP")
	if diff := cmp.Diff(observation.Observation{}, seen); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	if result.RequeueAfter != conflictRetry {
		t.Error("looks again after", result.RequeueAfter)
	}
}
