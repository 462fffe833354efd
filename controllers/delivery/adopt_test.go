package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

var (
	theirLabels = map[string]string{"app": "shop"}
	// twinDeployment and twinService equal the objects of a scene's AppService except for their
	// labels. The Deployment is paused and does not roll out.
	twinDeployment = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
		Paused:   true,
		Replicas: new(int32(1)),
		Selector: &metav1.LabelSelector{MatchLabels: theirLabels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: theirLabels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "app", Image: "web:1",
				Env:   []corev1.EnvVar{{Name: "A", Value: "1"}},
				Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
			}}},
		},
	}}
	twinService = &corev1.Service{Spec: corev1.ServiceSpec{
		Selector: theirLabels,
		Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
	}}
)

// otherDeployment and otherService differ from the objects of the AppService.
func otherDeployment() *appsv1.Deployment {
	other := twinDeployment.DeepCopy()
	other.Spec.Replicas = new(int32(5))
	other.Spec.Template.Spec = corev1.PodSpec{
		Containers:         []corev1.Container{{Name: "theirs", Image: "theirs:1"}, {Name: "app", Image: "web:0", Args: []string{"--theirs"}}},
		ServiceAccountName: "theirs",
	}
	return other
}

func otherService() *corev1.Service {
	other := twinService.DeepCopy()
	other.Spec.Type = corev1.ServiceTypeNodePort
	other.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(1)}, {Name: "theirs", Port: 81}}
	return other
}

func conflictPolicy(policy v1alpha1.ConflictPolicy) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.ConflictPolicy = policy }
}

// waitsForRollout returns the expected report while a Service is not adopted yet.
func (s *scene) waitsForRollout() observation.Observation {
	seen := s.failed(v1alpha1.ReasonRollingOut, "waiting for the Deployment to roll out; the Service is adopted afterwards")
	seen.Phase = v1alpha1.ClusterProgressing
	return seen
}

// goesOn unpauses the Deployment, so that it rolls out.
func (s *scene) goesOn() {
	s.Helper()
	d := s.deployment()
	s.someone(d, func() { d.Spec.Paused = false })
}

// Adoption of identical objects writes only metadata: the pod template stays unchanged, so no pod
// is replaced, and the Service keeps selecting the same pods.
func TestAdoption_of_identical_objects_restarts_no_pods(t *testing.T) {
	tests := map[string]struct {
		policy v1alpha1.ConflictPolicy
		change func(*appsv1.Deployment, *corev1.Service)
		app    func(*v1alpha1.AppService)
	}{
		"by AdoptIfIdentical": {policy: v1alpha1.ConflictAdoptIfIdentical},
		"by Adopt":            {policy: v1alpha1.ConflictAdopt},
		"by the name of its container": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			change: func(d *appsv1.Deployment, _ *corev1.Service) { d.Spec.Template.Spec.Containers[0].Name = "nginx" },
			app:    func(app *v1alpha1.AppService) { app.Spec.ContainerName = "nginx" },
		},
		"by a selector with an expression": {
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
					MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: theirLabels},
				}}
			},
			app: func(app *v1alpha1.AppService) {
				app.Spec.PodAnnotations = map[string]string{"note": "a"}
				app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: new(intstr.FromInt32(1))}
				app.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}}
			},
		},
		"by Adopt, with another number of pods": {
			policy: v1alpha1.ConflictAdopt,
			change: func(d *appsv1.Deployment, _ *corev1.Service) {
				d.Spec.Replicas = new(int32(5))
				// A sidecar of another manager stays: the template does not have to change.
				d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "theirs", Image: "theirs:1"})
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			theirDeployment, theirService := twinDeployment.DeepCopy(), twinService.DeepCopy()
			theirDeployment.Spec.Paused = false
			if test.change != nil {
				test.change(theirDeployment, theirService)
			}
			s := undelivered(t, conflictPolicy(test.policy), func(app *v1alpha1.AppService) {
				if test.app != nil {
					test.app(app)
				}
			})
			deployment := s.somebodys(theirDeployment, nil, map[string]string{"note": "theirs"}).(*appsv1.Deployment)
			service := s.somebodys(theirService, nil, map[string]string{"note": "theirs"}).(*corev1.Service)
			s.start()
			s.plan()
			s.reports(s.ready())
			// Changes of annotations increase the generation of a Deployment too.
			if diff := cmp.Diff(deployment.Spec, s.deployment().Spec, cmpopts.IgnoreFields(appsv1.DeploymentSpec{}, "Replicas")); diff != "" {
				t.Errorf("Deployment (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(service.Spec, s.service().Spec); diff != "" {
				t.Errorf("Service (-before +after):\n%s", diff)
			}
			s.isAdopted(deployment, service)
			s.announces(v1alpha1.ReasonAdopted,
				"Deployment web was adopted for AppService "+s.key().String(),
				"Service web was adopted for AppService "+s.key().String())
			s.announces(v1alpha1.ReasonAdoptionRestartsPods)
			s.restsAlsoAfterRestart()

			// The object belongs to the AppService now: fields that leave the AppService are
			// removed, as from any other object. The labels in the selectors stay.
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Env, app.Spec.Ports[0].Port = nil, 82 })
			s.plan()
			s.reports(s.ready())
			if env := s.deployment().Spec.Template.Spec.Containers[0].Env; len(env) > 0 {
				t.Errorf("the container has still %v", env)
			}
			if diff := cmp.Diff(int32(82), s.service().Spec.Ports[0].Port); diff != "" {
				t.Errorf("port of the Service (-want +got):\n%s", diff)
			}
			s.isAdopted(deployment, service)
			s.restsAlsoAfterRestart()
		})
	}
}

// An event announces a restart before the pod template changes. The Service keeps selecting the
// same pods.
func TestAdoption_of_another_template_announces_the_restart(t *testing.T) {
	t.Parallel()
	s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdopt))
	deployment := s.somebodys(otherDeployment(), nil, map[string]string{"note": "theirs"})
	service := s.somebodys(otherService(), nil, map[string]string{"note": "theirs"})
	s.start()
	s.plan()
	s.announces(v1alpha1.ReasonAdoptionRestartsPods, "adopting Deployment web replaces its pods, because its pod template changes: "+
		`spec.template.spec.containers[name="app"].image, spec.template.spec.containers[name="app"].env[name="A"].name, `+
		`spec.template.spec.containers[name="app"].env[name="A"].value and 2 more differ`)
	s.goesOn()
	s.reports(s.ready())
	s.runs(running)
	s.isAdopted(deployment, service)
	s.announces(v1alpha1.ReasonAdopted,
		"Deployment web was adopted for AppService "+s.key().String(),
		"Service web was adopted for AppService "+s.key().String())
	s.restsAlsoAfterRestart()
}

// An apply sorts lists into its own order. This changes no field, but it still replaces the pods.
func TestAdoption_of_another_order_of_lists(t *testing.T) {
	twoVariables := func(app *v1alpha1.AppService) {
		app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}}
	}
	theirs := twinDeployment.DeepCopy()
	theirs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", Value: "$(A)"}, {Name: "A", Value: "1"}}
	t.Run("is refused by AdoptIfIdentical", func(t *testing.T) {
		t.Parallel()
		s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdoptIfIdentical), twoVariables)
		was := s.somebodys(theirs, nil, nil)
		s.connect()
		s.plan()
		seen, _, err := s.look()
		s.must(err)
		want := s.failed(v1alpha1.ReasonConflict, `Deployment web exists and does not belong to this AppService: it is managed by "somebody"; it is not identical, `+
			"so spec.conflictPolicy AdoptIfIdentical does not adopt it: an apply changes the order of its lists"+toAdopt)
		if diff := cmp.Diff(want, seen, whateverRuns); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		s.untouched(was)
	})
	t.Run("is told by Adopt", func(t *testing.T) {
		t.Parallel()
		s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdopt), twoVariables)
		s.somebodys(theirs, nil, nil)
		s.start()
		s.plan()
		s.announces(v1alpha1.ReasonAdoptionRestartsPods,
			"adopting Deployment web replaces its pods, because its pod template changes: an apply changes the order of its lists")
	})
}

// An earlier version added our labels to the pods of an adopted Deployment, and made its Service
// select them by these labels.
func TestAdopted_Deployment_of_an_earlier_version_is_not_written(t *testing.T) {
	t.Parallel()
	s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdopt))
	s.somebodys(twinDeployment, nil, nil)
	s.somebodys(twinService, nil, nil)
	s.start()
	s.plan()
	s.goesOn()
	s.reports(s.ready())
	s.end()
	d, svc := s.deployment(), s.service()
	s.asOurselves(d, func() {
		for key, value := range map[string]string{"app.kubernetes.io/name": "web", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAppService: "web"} {
			d.Spec.Template.Labels[key] = value
		}
	})
	s.asOurselves(svc, func() { svc.Spec.Selector = map[string]string{v1alpha1.LabelAppService: "web"} })
	s.start()
	s.reports(s.ready())
	s.restsAlsoAfterRestart()
	if diff := cmp.Diff(map[string]string{v1alpha1.LabelAppService: "web"}, s.service().Spec.Selector); diff != "" {
		t.Errorf("the Service's selector (-want +got):\n%s", diff)
	}
}

// asOurselves changes an object on the member with our field manager, as an earlier version might
// have done.
func (s *scene) asOurselves(object client.Object, change func()) {
	s.Helper()
	before := object.DeepCopyObject().(client.Object)
	change()
	s.must(onMember.Patch(s.Context(), object, client.StrategicMergeFrom(before), client.FieldOwner(v1alpha1.ManagedBy)))
}

// A Service that did not select the pods of the Deployment is adopted only after those pods can
// serve its traffic.
func TestAdoption_of_a_Service_of_other_pods(t *testing.T) {
	others := twinService.DeepCopy()
	others.Spec.Selector = map[string]string{"app": "another"}
	t.Run("waits for the rollout", func(t *testing.T) {
		t.Parallel()
		s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdopt))
		deployment := s.somebodys(twinDeployment, nil, map[string]string{"note": "theirs"})
		service := s.somebodys(others, nil, map[string]string{"note": "theirs"})
		s.start()
		s.plan()
		s.reports(s.waitsForRollout(), whateverRuns)
		s.untouched(service) // its traffic still goes to the pods of the other manager
		s.goesOn()
		s.reports(s.ready())
		s.isAdopted(deployment, service)
		s.restsAlsoAfterRestart()
	})
	t.Run("is refused by AdoptIfIdentical", func(t *testing.T) {
		t.Parallel()
		s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdoptIfIdentical))
		s.somebodys(twinDeployment, nil, nil)
		service := s.somebodys(others, nil, nil)
		s.start()
		s.plan()
		s.reports(s.failed(v1alpha1.ReasonConflict, `Service web exists and does not belong to this AppService: it is managed by "somebody"; it is not identical, `+
			"so spec.conflictPolicy AdoptIfIdentical does not adopt it: spec.selector differ; change the AppService to match, or set spec.conflictPolicy to Adopt, which changes it"),
			whateverRuns)
		s.untouched(service)
	})
}

// An adopted Deployment that is deleted is created like any other, and its Service selects the new
// pods.
func TestAdopted_Deployment_that_is_deleted_is_created_with_our_selector(t *testing.T) {
	t.Parallel()
	s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdopt))
	s.somebodys(twinDeployment, nil, nil)
	s.somebodys(twinService, nil, nil)
	s.start()
	s.plan()
	s.goesOn()
	s.reports(s.ready())
	was := s.deployment().UID
	s.must(onMember.Delete(s.Context(), s.deployment()))
	eventually(t, func() error {
		d, svc := &appsv1.Deployment{}, &corev1.Service{}
		if err := errors.Join(onMember.Get(t.Context(), s.key(), d), onMember.Get(t.Context(), s.key(), svc)); err != nil {
			return err
		}
		ours := map[string]string{v1alpha1.LabelAppService: "web"}
		if d.UID == was || !cmp.Equal(ours, d.Spec.Selector.MatchLabels) || !cmp.Equal(ours, svc.Spec.Selector) {
			return fmt.Errorf("Deployment %v chooses by %v, the Service by %v", d.UID, d.Spec.Selector, svc.Spec.Selector)
		}
		return nil
	})
}

// The pods of an adopted Deployment are listed by its own selector, because they lack our labels.
func TestAdopted_Deployment_that_is_not_ready_is_diagnosed(t *testing.T) {
	t.Parallel()
	s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdoptIfIdentical))
	s.somebodys(twinDeployment, nil, nil)
	s.somebodys(twinService, nil, nil)
	s.start()
	s.plan()
	s.goesOn()
	s.reports(s.ready())
	s.halts()
	pod := s.pod(podtest.Waiting("ErrImagePull", podtest.NotFound))
	before := pod.DeepCopy()
	pod.Labels = theirLabels
	s.must(onMember.Patch(t.Context(), pod, client.MergeFrom(before)))
	s.catchUp()
	seen := s.witness().diagnosed()
	want := said{v1alpha1.ReasonImagePullBackOff, `1 of 1 pods: container app: image "web:1" cannot be pulled: ` + podtest.NotFound}
	if diff := cmp.Diff(want, said{seen.Reason, seen.Message}); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}

// isAdopted fails the test unless the objects are the original ones with our marks, and their
// selectors and pod labels are unchanged.
func (s *scene) isAdopted(deployment, service client.Object) {
	s.Helper()
	d, svc := s.deployment(), s.service()
	if d.UID != deployment.GetUID() || svc.UID != service.GetUID() {
		s.Error("an object was made anew")
	}
	for _, object := range []client.Object{d, svc} {
		if object.GetAnnotations()["note"] != "theirs" || object.GetAnnotations()[v1alpha1.AnnotationUID] != string(s.app.UID) ||
			object.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy {
			s.Errorf("marks of the %s: %v %v", kindOf(object), object.GetLabels(), object.GetAnnotations())
		}
	}
	if diff := cmp.Diff(theirLabels, d.Spec.Template.Labels); diff != "" {
		s.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(deployment.(*appsv1.Deployment).Spec.Selector, d.Spec.Selector); diff != "" {
		s.Errorf("the Deployment's selector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(theirLabels, svc.Spec.Selector); diff != "" {
		s.Errorf("the Service's selector (-want +got):\n%s", diff)
	}
}

// restsAlsoAfterRestart checks invariant 5.
func (s *scene) restsAlsoAfterRestart() {
	s.Helper()
	s.sent.reset()
	_, _, err := s.look()
	s.must(err)
	s.sendsNo(s.T, "PATCH", "POST", "DELETE")
	s.restart()
	s.reports(s.ready())
	_, _, err = s.look()
	s.must(err)
	s.sendsNo(s.T, "PATCH", "POST", "DELETE")
}

// announces waits until the events of that reason have exactly these notes. Each event exists
// twice: on the hub, related to the member, and on the member, with the name of the hub.
func (s *scene) announces(reason string, notes ...string) {
	s.Helper()
	var onHubs, onMembers []string
	for _, note := range notes {
		onHubs = append(onHubs, fmt.Sprintf("AppService web, MemberCluster %s: %s: %s", s.cluster, s.cluster, note))
		kind := "Deployment"
		if strings.Contains(note, "Service web") {
			kind = "Service"
		}
		onMembers = append(onMembers, fmt.Sprintf("%s web: %s (by hub %s)", kind, note, thisHub))
	}
	eventually(s.T, func() error {
		if diff := cmp.Diff([][]string{onHubs, onMembers}, [][]string{s.eventsOn(onHub, reason), s.eventsOn(onMember, reason)}); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

// eventsOn returns the events of a reason in the scene's namespace. A repeated event counts as
// several.
func (s *scene) eventsOn(server server, reason string) []string {
	s.Helper()
	var list eventsv1.EventList
	s.must(server.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	var all []string
	for _, event := range list.Items {
		if event.Reason != reason {
			continue
		}
		line := event.Regarding.Kind + " " + event.Regarding.Name
		if event.Related != nil {
			line += ", " + event.Related.Kind + " " + event.Related.Name
		}
		times := int32(1)
		if event.Series != nil {
			times = event.Series.Count
		}
		for range times {
			all = append(all, line+": "+event.Note)
		}
	}
	slices.Sort(all)
	return all
}

// toAdopt is the advice for a pod template that differs.
const toAdopt = "; change the AppService to match, or set spec.conflictPolicy to Adopt, which replaces its pods"

func TestAdoption_is_refused(t *testing.T) {
	const inPlace = "; change the AppService to match, or set spec.conflictPolicy to Adopt, which changes it"
	differs := "; it is not identical, so spec.conflictPolicy AdoptIfIdentical does not adopt it: "
	tests := map[string]struct {
		policy              v1alpha1.ConflictPolicy
		change              func(*v1alpha1.AppService)
		theirs              client.Object
		labels, annotations map[string]string
		want                string
	}{
		"of a Deployment that differs, in a word": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			theirs: func() client.Object {
				d := twinDeployment.DeepCopy()
				d.Spec.Template.Spec.Containers[0].Image = "web:0"
				return d
			}(),
			want: `Deployment web exists and does not belong to this AppService: it is managed by "somebody"` + differs +
				`spec.template.spec.containers[name="app"].image differ` + toAdopt,
		},
		"of a Deployment whose container has another name": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			theirs: func() client.Object {
				d := twinDeployment.DeepCopy()
				d.Spec.Template.Spec.Containers[0].Name = "nginx"
				return d
			}(),
			want: `Deployment web exists and does not belong to this AppService: it is managed by "somebody"` + differs +
				`spec.template.spec.containers[name="app"].image, spec.template.spec.containers[name="app"].name, ` +
				`spec.template.spec.containers[name="app"].env[name="A"].name and 3 more differ; its container is named "nginx": set spec.containerName to that name`,
		},
		"of a Deployment whose pods have other annotations": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			change: func(app *v1alpha1.AppService) { app.Spec.PodAnnotations = map[string]string{"note": "ours"} },
			theirs: twinDeployment,
			want: `Deployment web exists and does not belong to this AppService: it is managed by "somebody"` + differs +
				`spec.template.metadata.annotations.note differ` + toAdopt,
		},
		"of a Deployment that differs, in three and how many more": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			theirs: aDeployment,
			want: `Deployment web exists and does not belong to this AppService: it is managed by "somebody"` + differs +
				`spec.template.metadata.labels.app.kubernetes.io/managed-by, spec.template.metadata.labels.app.kubernetes.io/name, ` +
				`spec.template.spec.containers[name="app"].image and 4 more differ` + toAdopt,
		},
		"of a Service that differs": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			theirs: func() client.Object {
				s := twinService.DeepCopy()
				s.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
				return s
			}(),
			want: `Service web exists and does not belong to this AppService: it is managed by "somebody"` + differs +
				`spec.ports[port=80,protocol="TCP"].targetPort differ` + inPlace,
		},
	}
	for kind, object := range map[string]client.Object{"Deployment": twinDeployment, "Service": twinService} {
		for _, policy := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictFail, v1alpha1.ConflictAdoptIfIdentical, v1alpha1.ConflictAdopt} {
			for name, owner := range foreigners() {
				if (policy == v1alpha1.ConflictFail) == (name == "another hub") {
					continue // these are adopted, or covered by other tests
				}
				test := tests[name]
				test.policy, test.theirs, test.labels, test.annotations = policy, object, owner.labels, owner.annotations
				test.want = kind + " web exists and does not belong to this AppService: " + owner.said
				tests[fmt.Sprintf("of a %s of %s by %s", kind, name, policy)] = test
			}
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := undelivered(t, conflictPolicy(test.policy), func(app *v1alpha1.AppService) {
				if test.change != nil {
					test.change(app)
				}
			})
			was := s.somebodys(test.theirs, test.labels, test.annotations)
			s.connect()
			s.plan()
			for range 2 { // the second result must be the same
				seen, result, err := s.look()
				s.must(err)
				if diff := cmp.Diff(s.failed(v1alpha1.ReasonConflict, test.want), seen, whateverRuns); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
				if result.RequeueAfter != blockerRetry {
					t.Error("looks again after", result.RequeueAfter)
				}
			}
			s.untouched(was)
		})
	}
}

// Adoption cannot be undone, so a decision from a stale cache is verified with a live read of the
// hub.
func TestAdoption_that_the_hub_does_not_verify_changes_nothing(t *testing.T) {
	tests := map[string]func(*scene){
		"since the policy is another": func(s *scene) { s.edit(conflictPolicy(v1alpha1.ConflictFail)) },
		"since the row is gone":       func(s *scene) { s.writeRows() },
		"since the AppService is":     func(s *scene) { s.must(onHub.Delete(s.Context(), s.app)) },
	}
	for name, since := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := undelivered(t, conflictPolicy(v1alpha1.ConflictAdopt))
			was := s.somebodys(otherDeployment(), nil, nil)
			s.plan()
			cached := s.app.DeepCopy()
			since(s)
			s.connect()
			_, _, _ = s.lookThrough(behind{hubCached, []client.Object{cached}}, s.member)
			s.untouched(was)
		})
	}
}

// again replaces the AppService with another one of the same namespace and name. The hub knows
// nothing about the earlier one.
func (s *scene) again(changes ...func(*v1alpha1.AppService)) {
	s.Helper()
	s.must(onHub.Delete(s.Context(), s.app))
	s.app.UID, s.app.ResourceVersion, s.app.Generation = "", "", 0
	s.app.Status = v1alpha1.AppServiceStatus{}
	for _, change := range changes {
		change(s.app)
	}
	s.must(onHub.Create(s.Context(), s.app))
}

// To a member, three cases look the same: an AppService that was deleted and created again, a
// restored hub, and a hub that was rebuilt with the same identity. In each case, the existing
// objects belong to this hub and to another UID.
func TestInheritance(t *testing.T) {
	tests := map[string]func(*scene){
		"of what is the same": func(*scene) {},
		"of what had been edited often": func(s *scene) {
			for _, object := range []client.Object{s.deployment(), s.service()} {
				s.someone(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
			}
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := delivered(t)
			given(s)
			deployment, service, before := s.deployment(), s.service(), s.app.UID
			s.end()
			s.again(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Env = "web:2", nil })
			s.plan()
			s.start()
			s.reports(s.ready())
			s.runs("1 × web:2; ClusterIP 80→8080/TCP")
			if s.deployment().UID != deployment.UID || s.service().UID != service.UID {
				t.Error("an object was made anew")
			}
			s.announces(v1alpha1.ReasonAdopted,
				fmt.Sprintf("Deployment web was inherited from the AppService with UID %s", before),
				fmt.Sprintf("Service web was inherited from the AppService with UID %s", before))
			s.restsAlsoAfterRestart()
		})
	}
}

func TestInheritance_is_not_undone_by_a_stale_hub_cache(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	cached := s.app.DeepCopy()
	s.again()
	s.plan()
	s.reports(s.ready())
	s.catchUp()
	deployment, service := s.deployment(), s.service()
	_, _, err := s.lookThrough(behind{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.untouched(deployment)
	s.untouched(service)
}

// An inheritance that the member's cache does not show yet is announced only once.
func TestInheritance_is_announced_once(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	deployment, service := s.deployment(), s.service()
	before := s.app.UID
	s.again()
	s.plan()
	s.reports(s.ready())
	told := func() {
		t.Helper()
		s.announces(v1alpha1.ReasonAdopted,
			fmt.Sprintf("Deployment web was inherited from the AppService with UID %s", before),
			fmt.Sprintf("Service web was inherited from the AppService with UID %s", before))
	}
	told() // events are sent after the change that they report
	s.sent.reset()
	_, _, err := s.lookThrough(hubCached, behind{s.member, []client.Object{deployment, service}})
	s.must(err)
	s.sendsNo(t, "PATCH", "POST")
	told()
}

// Two hubs that share a member never change each other's objects, with any conflict policy.
func TestHubs_that_share_a_member_never_touch_the_same_object(t *testing.T) {
	t.Parallel()
	s := delivered(t, conflictPolicy(v1alpha1.ConflictAdopt))
	second := s.beside("second")
	second.operator = &operator{}
	second.deliverer, second.told = newDeliverer(t.Context(), t, "hub-2")
	second.member, second.sent = connected(t.Context(), t, granted)
	s.must(second.deliverer.Engage(t.Context(), second.clusterName(), second.member))
	plan := func(phase v1alpha1.ClusterPhase) {
		s.plan()
		row := s.app.Status.Clusters[0]
		row.Name, row.Phase = second.cluster, phase
		s.writeRows(s.app.Status.Clusters[0], row)
	}
	plan(v1alpha1.ClusterPending)
	conflict := "Deployment web exists and does not belong to this AppService: it belongs to hub \"hub-1\""
	second.reports(second.failed(v1alpha1.ReasonConflict, conflict))

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	plan(v1alpha1.ClusterPending)
	s.reports(s.ready())
	second.reports(second.failed(v1alpha1.ReasonConflict, conflict))

	plan(v1alpha1.ClusterRemoving)
	// The object has this AppService's UID, so the hub's identity may have changed. The report must
	// not confirm the removal.
	second.reports(second.removing(func(seen *observation.Observation) { seen.Reason, seen.Message = v1alpha1.ReasonConflict, conflict }))
	second.sendsNo(t, "PATCH", "POST", "DELETE")
	s.runs("1 × web:2 A=1; ClusterIP 80→8080/TCP")
	s.restsAlsoAfterRestart()
}
