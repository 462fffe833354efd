package delivery

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestMember_is_sent_nothing(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"without an entry": func(*setup) {},
		"for the entry of another cluster": func(s *setup) {
			s.plan(func(entry *v1alpha1.ClusterStatus) { entry.Name = "west-of-" + s.app.Namespace })
		},
		"for a generation that the planner has not planned": func(s *setup) { s.plan(withGeneration(s.app.Generation - 1)) },
		"for an entry that is Detached":                     func(s *setup) { s.plan(withPhase(v1alpha1.ClusterDetached)) },
		"for an AppService that is being deleted and is not planned again": func(s *setup) {
			s.edit(func(app *v1alpha1.AppService) { app.Finalizers = []string{v1alpha1.Finalizer} })
			s.plan(withGeneration(s.app.Generation + 1)) // the generation after the deletion
			s.must(onHub.Delete(s.Context(), s.app))
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startedSetup(t)
			given(s)
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectRequests()
			if got := s.describeWorkload(); got != "no Deployment; no Service" {
				t.Error("the member runs", got)
			}
		})
	}
}

// The last generation keeps running, and is observed, until the planner has planned the next one.
func TestMember_keeps_the_last_generation_until_the_next_is_planned(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	want := s.ready()
	s.sent.reset()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	want.Applied = 0 // as in the entry
	seen, _, err := s.reconcileOnce()
	s.must(err)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	s.expectRequests()
}

func TestMember_gets_the_plan_and_nothing_else(t *testing.T) {
	s := startedSetup(t)
	before := len(hubRequests.all())
	s.plan()
	s.expectReport(s.ready())
	if diff := cmp.Diff([]string{"PATCH deployments/web", "POST namespaces", "PATCH services/web"}, s.sent.writes()); diff != "" {
		t.Errorf("sent to the member (-want +got):\n%s", diff)
	}
	s.expectWorkload("1 × web:1 A=1; ClusterIP 80→8080/TCP")
	labels := []string{"GET namespaces/" + s.app.Namespace} // of a namespace that it creates
	if diff := cmp.Diff(labels, hubRequests.all()[before:]); diff != "" {
		t.Errorf("sent to the hub (-want +got):\n%s", diff)
	}

	namespace := &corev1.Namespace{}
	s.must(onMember.Get(t.Context(), client.ObjectKey{Name: s.app.Namespace}, namespace))
	delete(namespace.Labels, corev1.LabelMetadataName)
	got := map[string]marks{
		"Namespace":  {namespace.Labels, namespace.Annotations},
		"Deployment": {s.deployment().Labels, marksOf(s.deployment())},
		"Service":    {s.service().Labels, marksOf(s.service())},
	}
	object := marks{
		Labels: map[string]string{
			"app.kubernetes.io/name":       "web",
			"app.kubernetes.io/managed-by": "fleetwright",
			"fleetwright.dev/appservice":   "web",
		},
		Annotations: map[string]string{
			"fleetwright.dev/hub":                testHubID,
			"fleetwright.dev/appservice-uid":     string(s.app.UID),
			"fleetwright.dev/appservice-created": s.app.CreationTimestamp.UTC().Format(time.RFC3339),
			"fleetwright.dev/generation":         "1",
			"fleetwright.dev/spec-hash":          s.app.Status.PlannedSpecs[0].Hash,
		},
	}
	deployment := marks{Labels: object.Labels, Annotations: maps.Clone(object.Annotations)}
	deployment.Annotations["fleetwright.dev/revision"] = "1"
	want := map[string]marks{
		"Namespace": {
			Labels:      map[string]string{"app.kubernetes.io/managed-by": "fleetwright"},
			Annotations: map[string]string{"fleetwright.dev/hub": testHubID},
		},
		"Deployment": deployment,
		"Service":    object,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("marks (-want +got):\n%s", diff)
	}
}

type marks struct{ Labels, Annotations map[string]string }

// marksOf returns an object's annotations without the hash.
func marksOf(object client.Object) map[string]string {
	annotations := object.GetAnnotations()
	delete(annotations, v1alpha1.AnnotationHash)
	return annotations
}

// withUnusualValues writes values in a form that no API server uses, and sets all fields that an
// API server defaults.
func withUnusualValues(app *v1alpha1.AppService) {
	app.Spec.Env = []corev1.EnvVar{
		{Name: "Z", Value: ""},
		{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
		{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "a", LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}},
	}
	app.Spec.Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("0.50"), "memory": resource.MustParse("1024Mi")},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("1000m"), "memory": resource.MustParse("2e9")},
	}
	app.Spec.Args = []string{}
	app.Spec.Ports = []v1alpha1.ServicePort{
		{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
		{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP, NodePort: 30053},
		{Name: "web", Port: 80, TargetPort: intstr.FromInt32(8080), AppProtocol: new("http")},
		{Name: "also-web", Port: 8080, Protocol: corev1.ProtocolTCP},
	}
}

func TestMember_at_rest_is_sent_nothing(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*v1alpha1.AppService){
		"with a ClusterIP that the member allocates":                  func(*v1alpha1.AppService) {},
		"without a Service":                                           func(app *v1alpha1.AppService) { app.Spec.Ports = nil },
		"with no replicas":                                            func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(0)) },
		"with node ports that the member allocates, and its defaults": withUnusualValues,
		"with a fieldRef, whose apiVersion the member defaults": func(app *v1alpha1.AppService) {
			app.Spec.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
		},
	}
	for name, spec := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t, spec)
			s.sent.reset()
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectRequests()

			s.restart()
			s.expectReport(s.ready())
			_, _, err = s.reconcileOnce()
			s.must(err)
			s.expectRequests()

			// The new generation renders the same objects for the member.
			s.edit(func(app *v1alpha1.AppService) {
				app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{s.cluster}}}
			})
			s.plan()
			s.expectReport(s.ready())
			s.expectRequests()
			s.expectOnlyPhase(v1alpha1.ClusterReady)
		})
	}
}

func TestMember_keeps_fields_of_other_managers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*setup)
		want   string
	}{
		"an annotation": {
			func(s *setup) {
				d := s.deployment()
				s.changeByOther(d, func() { d.Annotations["note"] = "other" })
			},
			"1 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
		"an injected container": {
			func(s *setup) {
				d, pod := s.deployment(), (*corev1.PodSpec)(nil)
				pod = &d.Spec.Template.Spec
				s.changeByOther(d, func() { pod.Containers = append(pod.Containers, corev1.Container{Name: "mesh", Image: "mesh:1"}) })
			},
			"1 × web:1 A=1 mesh:1; ClusterIP 80→8080/TCP",
		},
		"a variable of the desired container": {
			func(s *setup) {
				d := s.deployment()
				c := &d.Spec.Template.Spec.Containers[0]
				s.changeByOther(d, func() { c.Env = append(c.Env, corev1.EnvVar{Name: "OTHER", Value: "1"}) })
			},
			"1 × web:1 A=1 OTHER=1; ClusterIP 80→8080/TCP",
		},
		"a label of the Service": {
			func(s *setup) {
				service := s.service()
				s.changeByOther(service, func() { service.Labels["note"] = "other" })
			},
			"1 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
		"a port of the Service": {
			func(s *setup) {
				service := s.service()
				existing := corev1.ServicePort{Name: "other", Port: 81, TargetPort: intstr.FromInt32(81)}
				s.changeByOther(service, func() {
					// The API server requires names if there are two ports.
					service.Spec.Ports[0].Name = "web"
					service.Spec.Ports = append(service.Spec.Ports, existing)
				})
			},
			"1 × web:1 A=1; ClusterIP 80→8080/TCP 81→81/TCP",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.sent.reset()
			test.change(s)
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectRequests()
			s.expectWorkload(test.want)
			s.expectReport(s.ready())
		})
	}
}

func TestMember_is_corrected(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"when another manager changes the image": func(s *setup) {
			d := s.deployment()
			s.changeByOther(d, func() { d.Spec.Template.Spec.Containers[0].Image = "bad:1" })
		},
		"when another manager scales it": func(s *setup) {
			d := s.deployment()
			s.changeByOther(d, func() { d.Spec.Replicas = new(int32(7)) })
		},
		"when another manager removes a variable": func(s *setup) {
			d := s.deployment()
			s.changeByOther(d, func() { d.Spec.Template.Spec.Containers[0].Env = nil })
		},
		"when another manager removes the label of the AppService": func(s *setup) {
			d := s.deployment()
			s.changeByOther(d, func() { delete(d.Labels, v1alpha1.LabelAppService) })
		},
		"when another manager changes the target port of the Service": func(s *setup) {
			service := s.service()
			s.changeByOther(service, func() { service.Spec.Ports[0].TargetPort = intstr.FromInt32(1) })
		},
		"when another manager changes the type of the Service to NodePort": func(s *setup) {
			service := s.service()
			s.changeByOther(service, func() { service.Spec.Type = corev1.ServiceTypeNodePort })
		},
		"when the Deployment is deleted": func(s *setup) { s.must(onMember.Delete(s.Context(), s.deployment())) },
		"when the Deployment is deleted in the foreground": func(s *setup) {
			deleted := s.deployment()
			s.must(onMember.Delete(s.Context(), deleted, client.PropagationPolicy(metav1.DeletePropagationForeground)))
			wait.Eventually(s.T, func() error {
				if d := s.deployment(); d != nil && d.UID == deleted.UID {
					return errors.New("the deleted Deployment still exists")
				}
				return nil
			})
		},
		"when the Service is deleted": func(s *setup) { s.must(onMember.Delete(s.Context(), s.service())) },
	}
	for name, disturb := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			labels := s.deployment().Labels
			disturb(s)
			s.expectWorkload("1 × web:1 A=1; ClusterIP 80→8080/TCP")
			s.expectReport(s.ready())
			wait.Eventually(t, func() error {
				if diff := cmp.Diff(labels, s.deployment().Labels); diff != "" {
					return fmt.Errorf("labels (-want +got):\n%s", diff)
				}
				return nil
			})
		})
	}
}

func TestMember_follows_an_edit(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		from, edit func(*v1alpha1.AppService)
		want       string
	}{
		"of the image": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" },
			want: "1 × web:2 A=1; ClusterIP 80→8080/TCP",
		},
		"of the replicas": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(3)) },
			want: "3 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
		"that scales to zero": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(0)) },
			want: "0 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
		"that removes a variable": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Env = nil },
			want: "1 × web:1; ClusterIP 80→8080/TCP",
		},
		"that replaces a value by a reference to a Secret": {
			edit: func(app *v1alpha1.AppService) {
				secret := &corev1.SecretKeySelector{Key: "a", LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}
				app.Spec.Env[0] = corev1.EnvVar{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: secret}}
			},
			want: "1 × web:1 A=; ClusterIP 80→8080/TCP",
		},
		"of the protocol": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
			want: "1 × web:1 A=1; ClusterIP 80→8080/UDP",
		},
		"that moves a port": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Ports[0].Port = 81 },
			want: "1 × web:1 A=1; ClusterIP 81→8080/TCP",
		},
		"that adds a node port": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Ports[0].NodePort = 30080 },
			want: "1 × web:1 A=1; NodePort 80→8080/TCP",
		},
		"that removes a node port": {
			from: func(app *v1alpha1.AppService) { app.Spec.Ports[0].NodePort = 30081 },
			edit: func(app *v1alpha1.AppService) { app.Spec.Ports[0].NodePort = 0 },
			want: "1 × web:1 A=1; ClusterIP 80→8080/TCP",
		},
		"that adds the first port": {
			from: func(app *v1alpha1.AppService) { app.Spec.Ports = nil },
			edit: func(app *v1alpha1.AppService) { app.Spec.Ports = []v1alpha1.ServicePort{{Port: 80}} },
			want: "1 × web:1 A=1; ClusterIP 80→80/TCP",
		},
		"that removes the last port": {
			edit: func(app *v1alpha1.AppService) { app.Spec.Ports = nil },
			want: "1 × web:1 A=1; no Service",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t, func(app *v1alpha1.AppService) {
				if test.from != nil {
					test.from(app)
				}
			})
			s.edit(test.edit)
			s.plan()
			s.expectReport(s.ready())
			s.expectWorkload(test.want)
		})
	}
}
