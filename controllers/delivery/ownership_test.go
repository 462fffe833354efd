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

// createByOther creates an object with the AppService's name and these marks on the member, as
// another manager. Deployments stay as they are, because they are paused.
func (s *setup) createByOther(object client.Object, labels, annotations map[string]string) client.Object {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.must(client.IgnoreAlreadyExists(onMember.Create(s.Context(), namespace)))
	object = object.DeepCopyObject().(client.Object)
	object.SetNamespace(s.app.Namespace)
	object.SetName(s.app.Name)
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	s.must(onMember.Create(s.Context(), object, client.FieldOwner("creator")))
	return object
}

var (
	unmanagedDeployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Paused: true,
		// A selector is immutable, so another selector would block an overwrite. With the
		// selector of Fleetwright, only its checks prevent it.
		Selector: &metav1.LabelSelector{MatchLabels: workload.Selector("web")},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: workload.Selector("web")},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "other:1"}}},
		},
	}}
	unmanagedService = &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	// deliveredKinds has an object of each kind that is always delivered.
	deliveredKinds = map[string]client.Object{"Deployment": unmanagedDeployment, "Service": unmanagedService}
)

// ownership is the owner of an object according to its marks.
type ownership struct {
	labels, annotations map[string]string
	message             string
}

const adoptable = "; to adopt it, set spec.conflictPolicy to AdoptIfIdentical or Adopt"

func otherOwners() map[string]ownership {
	managedLabels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAppService: "web"}
	return map[string]ownership{
		"a manager without a label": {
			message: `it is managed by "creator"` + adoptable,
		},
		"another hub": {
			labels:      managedLabels,
			annotations: map[string]string{v1alpha1.AnnotationHub: "hub-2"},
			message:     `it belongs to hub "hub-2"`,
		},
	}
}

func TestForeign_object_is_never_touched_and_its_owner_is_named(t *testing.T) {
	t.Parallel()
	for kind, name := range map[string]string{"Deployment": "another hub", "Service": "a manager without a label"} {
		t.Run(kind+" of "+name, func(t *testing.T) {
			t.Parallel()
			s, owner := startedSetup(t), otherOwners()[name]
			was := s.createByOther(deliveredKinds[kind], owner.labels, owner.annotations)
			s.plan()
			want := s.failed(v1alpha1.ReasonConflict, kind+" web exists and does not belong to this AppService: "+owner.message)
			s.expectReport(want, ignoreReplicas)
			_, result, err := s.reconcileOnce()
			s.must(err)
			if result.RequeueAfter != blockerRetry {
				t.Error("requeued after", result.RequeueAfter)
			}
			s.expectUnchanged(was)

			s.plan(withPhase(v1alpha1.ClusterRemoving))
			_, _, err = s.reconcileOnce()
			s.must(err)
			s.expectUnchanged(was)
		})
	}
}

func TestConflict_ends_with_the_foreign_object(t *testing.T) {
	t.Parallel()
	s := startedSetup(t)
	owner := otherOwners()["another hub"]
	existing := s.createByOther(unmanagedService, owner.labels, owner.annotations)
	s.plan()
	s.expectReport(s.failed(v1alpha1.ReasonConflict, "Service web exists and does not belong to this AppService: "+owner.message), ignoreReplicas)
	s.must(onMember.Delete(t.Context(), existing))
	s.expectReport(s.ready())
	s.expectWorkload("1 × web:1 A=1; ClusterIP 80→8080/TCP")
}

// The pods of a foreign Deployment do not belong to this AppService, however well they run.
func TestForeign_Deployment_is_not_observed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		entry func(*v1alpha1.ClusterStatus)
		edit  func(*v1alpha1.AppService)
	}{
		"when it blocks delivery":                       {entry: func(*v1alpha1.ClusterStatus) {}},
		"while the planner has not planned an edit yet": {entry: withGeneration(1), edit: func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startedSetup(t)
			owner := otherOwners()["another hub"]
			existing := s.createByOther(unmanagedDeployment, owner.labels, owner.annotations).(*appsv1.Deployment)
			s.must(rollOut(t.Context(), withoutPause(existing)))
			if test.edit != nil {
				s.edit(test.edit)
			}
			s.plan(test.entry)
			seen, _, err := s.reconcileOnce()
			s.must(err)
			want := s.failed(v1alpha1.ReasonConflict, "Deployment web exists and does not belong to this AppService: "+owner.message)
			want.Generation = s.app.Status.Clusters[0].Generation
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
		})
	}
}

func withoutPause(deployment *appsv1.Deployment) *appsv1.Deployment {
	deployment = deployment.DeepCopy()
	deployment.Spec.Paused = false
	return deployment
}

// An object that replaced the owned one after the member's cache synced belongs to another manager.
func TestObject_that_replaced_an_owned_one_is_never_changed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind string
		edit func(*v1alpha1.AppService)
	}{
		"Deployment that is edited": {"Deployment", func(app *v1alpha1.AppService) { app.Spec.Env = nil }},
		"Service that is edited":    {"Service", func(app *v1alpha1.AppService) { app.Spec.Ports[0].Port = 81 }},
		"Service that is removed":   {"Service", func(app *v1alpha1.AppService) { app.Spec.Ports = nil }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			deployment, service := s.deployment(), s.service()
			s.end()
			s.must(onMember.Delete(t.Context(), map[string]client.Object{"Deployment": deployment, "Service": service}[test.kind]))
			was := s.createByOther(deliveredKinds[test.kind], nil, nil)
			s.edit(test.edit)
			s.plan()
			s.start()
			s.catchUp()
			_, _, _ = s.reconcileWith(hubCached, staleCluster{s.member, []client.Object{deployment, service}})
			s.expectUnchanged(was)
		})
	}
}

func TestObject_of_a_later_generation_is_not_changed(t *testing.T) {
	t.Parallel()
	stamp := func(s *setup, kind string) {
		deployment, service := s.deployment(), s.service()
		object := map[string]client.Object{"Deployment": deployment, "Service": service}[kind]
		s.changeByOther(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
	}
	for kind, phase := range map[string]v1alpha1.ClusterPhase{"Deployment": v1alpha1.ClusterPending, "Service": v1alpha1.ClusterRemoving} {
		t.Run(kind+" when the entry is "+string(phase), func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			stamp(s, kind)
			was := s.describeWorkload()
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Ports = "web:2", nil })
			s.sent.reset()
			s.plan(withPhase(phase))
			ahead := map[string]client.Object{"Deployment": s.deployment(), "Service": s.service()}[kind]
			want := s.reportBehind(ahead)
			want.Replicas, want.ReadyReplicas = 1, 1
			if phase == v1alpha1.ClusterRemoving {
				want.Phase = phase
			}
			s.expectReport(want)
			s.expectWorkload(was)
		})
	}
}

// A stale cache has an old AppService. Its lower replicas are not an instruction to scale down, and
// no evidence that the hub is behind.
func TestStale_hub_cache_changes_nothing_and_is_not_reported(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	old := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	s.plan()
	s.expectReport(s.ready())
	seen, result, err := s.reconcileWith(staleCluster{hubCached, []client.Object{old}}, s.member)
	s.must(err)
	s.expectWorkload("5 × web:1 A=1; ClusterIP 80→8080/TCP")
	if diff := cmp.Diff(observation.Observation{}, seen); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	if result.RequeueAfter != conflictRetry {
		t.Error("requeued after", result.RequeueAfter)
	}
}
