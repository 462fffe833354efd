package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollup"
)

var (
	theirLabels = map[string]string{"app": "shop"}
	// twinDeployment and twinService hold what the AppService of a scene says, under other labels. No one rolls the Deployment out.
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

// otherDeployment and otherService hold something else.
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

// waitsForRollout is what is reported while a Service is not adopted yet.
func (s *scene) waitsForRollout() rollup.Observation {
	seen := s.failed(v1alpha1.ReasonRollingOut, "the Service is adopted when the Deployment has rolled out")
	seen.Phase = v1alpha1.ClusterProgressing
	return seen
}

// goesOn lets a paused Deployment roll out.
func (s *scene) goesOn() {
	s.Helper()
	d := s.deployment()
	s.someone(d, func() { d.Spec.Paused = false })
}

func TestAdoption(t *testing.T) {
	tests := map[string]struct {
		policy     v1alpha1.ConflictPolicy
		deployment *appsv1.Deployment
		service    *corev1.Service
	}{
		"of what is identical":                       {v1alpha1.ConflictAdoptIfIdentical, twinDeployment, twinService},
		"of what is identical, whatever it might be": {v1alpha1.ConflictAdopt, twinDeployment, twinService},
		"of what is another":                         {v1alpha1.ConflictAdopt, otherDeployment(), otherService()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := undelivered(t, conflictPolicy(test.policy))
			deployment := s.somebodys(test.deployment, nil, map[string]string{"note": "theirs"})
			service := s.somebodys(test.service, nil, map[string]string{"note": "theirs"})
			s.start()
			s.plan()
			s.reports(s.waitsForRollout(), whateverRuns)
			s.untouched(service) // its traffic goes on to their pods
			s.goesOn()
			s.reports(s.ready())
			s.runs(running)
			s.isAdopted(deployment, service)
			s.tellsOf(v1alpha1.ReasonAdopted,
				"Deployment web was taken over for AppService "+s.key().String(),
				"Service web was taken over for AppService "+s.key().String())
			s.restsAlsoAfterRestart()

			// It is theirs no more: what the AppService no longer says goes, as from any other.
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Env, app.Spec.Ports[0].Port = nil, 82 })
			s.plan()
			s.reports(s.ready())
			s.runs("1 × web:1; ClusterIP 82→8080/TCP")
		})
	}
}

// isAdopted fails the test when the objects are not those that were there, with our marks, and each found by whom it should be.
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
	pods := map[string]string{
		"app":                          "shop",
		"app.kubernetes.io/name":       "web",
		"app.kubernetes.io/managed-by": "fleetwright",
		"fleetwright.dev/appservice":   "web",
	}
	if diff := cmp.Diff(pods, d.Spec.Template.Labels); diff != "" {
		s.Errorf("labels of the pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(theirLabels, d.Spec.Selector.MatchLabels); diff != "" {
		s.Errorf("the Deployment's selector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"fleetwright.dev/appservice": "web"}, svc.Spec.Selector); diff != "" {
		s.Errorf("the Service's selector (-want +got):\n%s", diff)
	}
}

// restsAlsoAfterRestart is law 5.
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

// tellsOf waits until there are events of that reason, and no others, with these notes: each on the hub, related to the member, and on
// the member, naming the hub.
func (s *scene) tellsOf(reason string, notes ...string) {
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

// eventsOn are the events of a reason in the scene's namespace. One that came again counts as many.
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

func TestAdoption_is_refused(t *testing.T) {
	differs := ", and it is not identical, so spec.conflictPolicy does not let it be adopted: "
	tests := map[string]struct {
		policy              v1alpha1.ConflictPolicy
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
			want: `Deployment web exists and is not this AppService's: it is managed by "somebody"` + differs +
				`spec.template.spec.containers[name="app"].image differ`,
		},
		"of a Deployment that differs, in three and how many more": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			theirs: aDeployment,
			want: `Deployment web exists and is not this AppService's: it is managed by "somebody"` + differs +
				`spec.template.spec.containers[name="app"].image, spec.template.spec.containers[name="app"].env[name="A"].name, ` +
				`spec.template.spec.containers[name="app"].env[name="A"].value and 2 more differ`,
		},
		"of a Service that differs": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			theirs: func() client.Object {
				s := twinService.DeepCopy()
				s.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
				return s
			}(),
			want: `Service web exists and is not this AppService's: it is managed by "somebody"` + differs +
				`spec.ports[port=80,protocol="TCP"].targetPort differ`,
		},
	}
	for kind, object := range map[string]client.Object{"Deployment": twinDeployment, "Service": twinService} {
		for _, policy := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictFail, v1alpha1.ConflictAdoptIfIdentical, v1alpha1.ConflictAdopt} {
			for name, owner := range foreigners() {
				if (policy == v1alpha1.ConflictFail) == (name == "another hub") {
					continue // those are adopted, or tested elsewhere
				}
				test := tests[name]
				test.policy, test.theirs, test.labels, test.annotations = policy, object, owner.labels, owner.annotations
				test.want = kind + " web exists and is not this AppService's: " + owner.said
				tests[fmt.Sprintf("of a %s of %s by %s", kind, name, policy)] = test
			}
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := undelivered(t, conflictPolicy(test.policy))
			was := s.somebodys(test.theirs, test.labels, test.annotations)
			s.connect()
			s.plan()
			for range 2 { // it stays so
				seen, result, err := s.look()
				s.must(err)
				if diff := cmp.Diff(s.failed(v1alpha1.ReasonConflict, test.want), seen, whateverRuns); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
				if result.RequeueAfter != obstacleRetry {
					t.Error("looks again after", result.RequeueAfter)
				}
			}
			s.untouched(was)
		})
	}
}

// Adoption cannot be undone: what a cache that lags says is asked of the hub itself.
func TestAdoption_that_the_hub_itself_does_not_bear_out_touches_nothing(t *testing.T) {
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

// again makes another AppService of the same namespace and name, of which the hub knows nothing of the one before.
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

// An AppService that was deleted and made again, a hub that was restored, and one that was rebuilt with the same identity are the same
// to a member: what is there is of this hub and of another UID.
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
			s.tellsOf(v1alpha1.ReasonAdopted,
				fmt.Sprintf("Deployment web was taken over from the AppService with UID %s", before),
				fmt.Sprintf("Service web was taken over from the AppService with UID %s", before))
			s.restsAlsoAfterRestart()
		})
	}
}

func TestInheritance_is_not_given_back_by_a_hub_cache_that_lags(t *testing.T) {
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

// What was inherited a moment ago, and the member's cache does not show so yet, is not told of twice.
func TestInheritance_is_told_once(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	deployment, service := s.deployment(), s.service()
	before := s.app.UID
	s.again()
	s.plan()
	s.reports(s.ready())
	told := func() {
		t.Helper()
		s.tellsOf(v1alpha1.ReasonAdopted,
			fmt.Sprintf("Deployment web was taken over from the AppService with UID %s", before),
			fmt.Sprintf("Service web was taken over from the AppService with UID %s", before))
	}
	told() // events are sent later than what they tell of
	s.sent.reset()
	_, _, err := s.lookThrough(hubCached, behind{s.member, []client.Object{deployment, service}})
	s.must(err)
	s.sendsNo(t, "PATCH", "POST")
	told()
}

// Two hubs that share a member keep off each other's, whatever their policies.
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
	conflict := "Deployment web exists and is not this AppService's: it belongs to hub \"hub-1\""
	second.reports(second.failed(v1alpha1.ReasonConflict, conflict))

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	plan(v1alpha1.ClusterPending)
	s.reports(s.ready())
	second.reports(second.failed(v1alpha1.ReasonConflict, conflict))

	plan(v1alpha1.ClusterRemoving)
	// It has this AppService's UID, so the hub's identity may have changed: not "gone".
	second.reports(second.removing(func(seen *rollup.Observation) { seen.Reason, seen.Message = v1alpha1.ReasonConflict, conflict }))
	second.sendsNo(t, "PATCH", "POST", "DELETE")
	s.runs("1 × web:2 A=1; ClusterIP 80→8080/TCP")
	s.restsAlsoAfterRestart()
}
