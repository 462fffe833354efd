package delivery

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

var (
	existingLabels = map[string]string{"app": "shop"}
	// identicalDeployment and identicalService equal the objects of the AppService except for
	// their labels. The Deployment is paused and does not roll out.
	identicalDeployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Paused:   true,
		Replicas: new(int32(1)),
		Selector: &metav1.LabelSelector{MatchLabels: existingLabels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: existingLabels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "app", Image: "web:1",
				Env:   []corev1.EnvVar{{Name: "A", Value: "1"}},
				Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			}}},
		},
	}}
	identicalService = &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: existingLabels,
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
)

// differentDeployment and differentService differ from the objects of the AppService.
func differentDeployment() *appsv1.Deployment {
	other := identicalDeployment.DeepCopy()
	other.Spec.Replicas = new(int32(5))
	other.Spec.Template.Spec = corev1.PodSpec{
		Containers:         []corev1.Container{{Name: "other", Image: "other:1"}, {Name: "app", Image: "web:0", Args: []string{"--other"}}},
		ServiceAccountName: "other",
	}
	return other
}

func differentService() *corev1.Service {
	other := identicalService.DeepCopy()
	other.Spec.Type = corev1.ServiceTypeNodePort
	other.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(1)}, {Name: "other", Port: 81}}
	return other
}

func withConflictPolicy(policy v1alpha1.ConflictPolicy) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.ConflictPolicy = policy }
}

// waitingForRollout returns the expected report while a Service is not adopted yet.
func (s *setup) waitingForRollout() observation.Observation {
	seen := s.failed(v1alpha1.ReasonRollingOut, "waiting for the Deployment to roll out; the Service is adopted afterwards")
	seen.Phase = v1alpha1.ClusterProgressing
	return seen
}

// unpause unpauses the Deployment, so that it rolls out.
func (s *setup) unpause() {
	s.Helper()
	d := s.deployment()
	s.changeByOther(d, func() { d.Spec.Paused = false })
}

// Adoption of identical objects writes only metadata: the pod template stays unchanged, so no pod
// is replaced, and the Service keeps selecting the same pods.
func TestAdoption_of_identical_objects_restarts_no_pods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy v1alpha1.ConflictPolicy
		change func(*appsv1.Deployment, *corev1.Service)
		app    func(*v1alpha1.AppService)
	}{
		"by AdoptIfIdentical": {policy: v1alpha1.ConflictAdoptIfIdentical},
		"with an expression in the selector": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			change: func(d *appsv1.Deployment, s *corev1.Service) {
				d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"shop", "store"}},
				}}
			},
		},
		"with pods that are spread and annotated, and a budget": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			change: func(d *appsv1.Deployment, _ *corev1.Service) {
				d.Spec.Template.Annotations = map[string]string{"note": "a", "kubectl.kubernetes.io/restartedAt": "yesterday"}
				d.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: existingLabels},
				}}
			},
			app: func(app *v1alpha1.AppService) {
				app.Spec.PodAnnotations = map[string]string{"note": "a"}
				app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: new(intstr.FromInt32(1))}
				app.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}
			},
		},
		"by Adopt, with other replicas": {
			policy: v1alpha1.ConflictAdopt,
			change: func(d *appsv1.Deployment, _ *corev1.Service) {
				d.Spec.Replicas = new(int32(5))
				// A sidecar of another manager stays: the template does not have to change.
				d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "other", Image: "other:1"})
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			existingDeployment, existingService := identicalDeployment.DeepCopy(), identicalService.DeepCopy()
			existingDeployment.Spec.Paused = false
			if test.change != nil {
				test.change(existingDeployment, existingService)
			}
			s := newSetup(t, withConflictPolicy(test.policy), func(app *v1alpha1.AppService) {
				if test.app != nil {
					test.app(app)
				}
			})
			deployment := s.createByOther(existingDeployment, nil, map[string]string{"note": "other"}).(*appsv1.Deployment)
			service := s.createByOther(existingService, nil, map[string]string{"note": "other"}).(*corev1.Service)
			s.start()
			s.plan()
			s.expectReport(s.ready())
			// Changes of annotations increase the generation of a Deployment too.
			if diff := cmp.Diff(deployment.Spec, s.deployment().Spec, cmpopts.IgnoreFields(appsv1.DeploymentSpec{}, "Replicas")); diff != "" {
				t.Errorf("Deployment (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(service.Spec, s.service().Spec); diff != "" {
				t.Errorf("Service (-before +after):\n%s", diff)
			}
			s.expectAdopted(deployment, service)
			s.expectEvents(v1alpha1.ReasonAdopted,
				"Deployment web was adopted for AppService "+s.key().String(),
				"Service web was adopted for AppService "+s.key().String())
			s.expectEvents(v1alpha1.ReasonAdoptionRestartsPods)
			s.expectAtRestAlsoAfterRestart()

			// The object belongs to the AppService now: fields that leave the AppService are
			// removed, as from any other object. The labels in the selectors stay.
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Env, app.Spec.Ports[0].Port = nil, 82 })
			s.plan()
			s.expectReport(s.ready())
			if env := s.deployment().Spec.Template.Spec.Containers[0].Env; len(env) > 0 {
				t.Errorf("the container has still %v", env)
			}
			if diff := cmp.Diff(int32(82), s.service().Spec.Ports[0].Port); diff != "" {
				t.Errorf("port of the Service (-want +got):\n%s", diff)
			}
			s.expectAdopted(deployment, service)
			s.expectAtRestAlsoAfterRestart()
		})
	}
}

// An event announces a restart before the pod template changes. The Service keeps selecting the
// same pods.
func TestAdoption_of_another_template_announces_the_restart(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	deployment := s.createByOther(differentDeployment(), nil, map[string]string{"note": "other"})
	service := s.createByOther(differentService(), nil, map[string]string{"note": "other"})
	s.start()
	s.plan()
	s.expectEvents(v1alpha1.ReasonAdoptionRestartsPods, "adopting Deployment web replaces its pods, because its pod template changes: "+
		`spec.template.spec.containers[name="app"].image, spec.template.spec.containers[name="app"].env[name="A"].name, `+
		`spec.template.spec.containers[name="app"].env[name="A"].value and 2 more differ`)
	s.unpause()
	s.expectReport(s.ready())
	s.expectWorkload(running)
	s.expectAdopted(deployment, service)
	s.expectEvents(v1alpha1.ReasonAdopted,
		"Deployment web was adopted for AppService "+s.key().String(),
		"Service web was adopted for AppService "+s.key().String())
	s.expectAtRestAlsoAfterRestart()
}

// An apply sorts lists into its own order. This changes no field, but it still replaces the pods.
func TestAdoption_of_another_order_of_lists(t *testing.T) {
	t.Parallel()
	twoVariables := func(app *v1alpha1.AppService) {
		app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}}
	}
	existing := identicalDeployment.DeepCopy()
	existing.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", Value: "$(A)"}, {Name: "A", Value: "1"}}
	s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt), twoVariables)
	s.createByOther(existing, nil, nil)
	s.start()
	s.plan()
	s.expectEvents(v1alpha1.ReasonAdoptionRestartsPods,
		"adopting Deployment web replaces its pods, because its pod template changes: an apply changes the order of its lists")
}

// An earlier version added Fleetwright's labels to the pods of an adopted Deployment, and its
// Service selects them by these labels.
func TestAdopted_Deployment_of_an_earlier_version_is_not_written(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	s.createByOther(identicalDeployment, nil, nil)
	s.createByOther(identicalService, nil, nil)
	s.start()
	s.plan()
	s.unpause()
	s.expectReport(s.ready())
	s.end()
	d, svc := s.deployment(), s.service()
	s.changeAsFleetwright(d, func() {
		for key, value := range map[string]string{"app.kubernetes.io/name": "web", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAppService: "web"} {
			d.Spec.Template.Labels[key] = value
		}
	})
	s.changeAsFleetwright(svc, func() { svc.Spec.Selector = map[string]string{v1alpha1.LabelAppService: "web"} })
	s.start()
	s.expectReport(s.ready())
	s.expectAtRestAlsoAfterRestart()
	if diff := cmp.Diff(map[string]string{v1alpha1.LabelAppService: "web"}, s.service().Spec.Selector); diff != "" {
		t.Errorf("the Service's selector (-want +got):\n%s", diff)
	}
}

// changeAsFleetwright changes an object on the member with Fleetwright's field manager, as an
// earlier version might have done.
func (s *setup) changeAsFleetwright(object client.Object, change func()) {
	s.Helper()
	before := object.DeepCopyObject().(client.Object)
	change()
	s.must(onMember.Patch(s.Context(), object, client.StrategicMergeFrom(before), client.FieldOwner(v1alpha1.ManagedBy)))
}

// A Service that did not select the pods of the Deployment is adopted only after those pods can
// serve its traffic.
func TestAdoption_of_a_Service_of_other_pods(t *testing.T) {
	t.Parallel()
	others := identicalService.DeepCopy()
	others.Spec.Selector = map[string]string{"app": "another"}
	s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	deployment := s.createByOther(identicalDeployment, nil, map[string]string{"note": "other"})
	service := s.createByOther(others, nil, map[string]string{"note": "other"})
	s.start()
	s.plan()
	s.expectReport(s.waitingForRollout(), ignoreReplicas)
	s.expectUnchanged(service) // its traffic still goes to the pods of the other manager
	s.unpause()
	s.expectReport(s.ready())
	s.expectAdopted(deployment, service)
	s.expectAtRestAlsoAfterRestart()
}

// An adopted Deployment that is deleted is created like any other, and its Service selects the new
// pods.
func TestAdopted_Deployment_that_is_deleted_is_created_with_the_rendered_selector(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	s.createByOther(identicalDeployment, nil, nil)
	s.createByOther(identicalService, nil, nil)
	s.start()
	s.plan()
	s.unpause()
	s.expectReport(s.ready())
	was := s.deployment().UID
	s.must(onMember.Delete(s.Context(), s.deployment()))
	wait.Eventually(t, func() error {
		d, svc := &appsv1.Deployment{}, &corev1.Service{}
		if err := errors.Join(onMember.Get(t.Context(), s.key(), d), onMember.Get(t.Context(), s.key(), svc)); err != nil {
			return err
		}
		managedLabels := map[string]string{v1alpha1.LabelAppService: "web"}
		if d.UID == was || !cmp.Equal(managedLabels, d.Spec.Selector.MatchLabels) || !cmp.Equal(managedLabels, svc.Spec.Selector) {
			return fmt.Errorf("Deployment %v selects %v, the Service selects %v", d.UID, d.Spec.Selector, svc.Spec.Selector)
		}
		return nil
	})
}

// The pods of an adopted Deployment are listed by its own selector, because they lack
// Fleetwright's labels.
func TestAdopted_Deployment_that_is_not_ready_is_diagnosed(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdoptIfIdentical))
	s.createByOther(identicalDeployment, nil, nil)
	s.createByOther(identicalService, nil, nil)
	s.start()
	s.plan()
	s.unpause()
	s.expectReport(s.ready())
	s.makeUnavailable()
	pod := s.createPod(podtest.Waiting("ErrImagePull", podtest.NotFound))
	before := pod.DeepCopy()
	pod.Labels = existingLabels
	s.must(onMember.Patch(t.Context(), pod, client.MergeFrom(before)))
	s.catchUp()
	seen := s.newReconciler().reportWithPods()
	want := reasonAndMessage{v1alpha1.ReasonImagePullBackOff, `1 of 1 pods: container app: image "web:1" cannot be pulled: ` + podtest.NotFound}
	if diff := cmp.Diff(want, reasonAndMessage{seen.Reason, seen.Message}); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// expectAdopted fails the test unless the objects are the original ones with Fleetwright's marks,
// and their selectors and pod labels are unchanged.
func (s *setup) expectAdopted(deployment, service client.Object) {
	s.Helper()
	d, svc := s.deployment(), s.service()
	if d.UID != deployment.GetUID() || svc.UID != service.GetUID() {
		s.Error("an object was created again")
	}
	for _, object := range []client.Object{d, svc} {
		if object.GetAnnotations()["note"] != "other" || object.GetAnnotations()[v1alpha1.AnnotationUID] != string(s.app.UID) ||
			object.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
			s.Errorf("marks of the %s: %v %v", kindOf(object), object.GetLabels(), object.GetAnnotations())
		}
	}
	if diff := cmp.Diff(existingLabels, d.Spec.Template.Labels); diff != "" {
		s.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(deployment.(*appsv1.Deployment).Spec.Selector, d.Spec.Selector); diff != "" {
		s.Errorf("the Deployment's selector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(existingLabels, svc.Spec.Selector); diff != "" {
		s.Errorf("the Service's selector (-want +got):\n%s", diff)
	}
}
