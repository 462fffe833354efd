package delivery

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Server-side apply keeps the defaults that the API server set for the old choice, and then fails
// because two choices are set.
func TestChange_from_one_choice_to_another(t *testing.T) {
	t.Parallel()
	probe := func(handler corev1.ProbeHandler) func(*v1alpha1.AppService) {
		return func(app *v1alpha1.AppService) {
			p := &corev1.Probe{ProbeHandler: handler}
			app.Spec.LivenessProbe, app.Spec.ReadinessProbe = p, p
			app.Spec.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: handler.HTTPGet, Exec: handler.Exec}}
			if handler.HTTPGet == nil && handler.Exec == nil {
				app.Spec.Lifecycle = nil
			}
		}
	}
	volume := func(v v1alpha1.Volume) func(*v1alpha1.AppService) {
		return func(app *v1alpha1.AppService) {
			v.Name = "data"
			app.Spec.Volumes = []v1alpha1.Volume{v}
			app.Spec.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}
	}
	service := func(kind corev1.ServiceType) func(*v1alpha1.AppService) {
		return func(app *v1alpha1.AppService) { app.Spec.Service = &v1alpha1.Service{Type: kind} }
	}
	variable := func(v corev1.EnvVar) func(*v1alpha1.AppService) {
		return func(app *v1alpha1.AppService) { v.Name = "B"; app.Spec.Env = append(app.Spec.Env[:1:1], v) }
	}
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	ways := map[string][]func(*v1alpha1.AppService){
		"probes": {
			probe(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}),
			probe(corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}),
			probe(corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}),
			probe(corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 8080}}),
		},
		"volumes": {
			volume(v1alpha1.Volume{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}),
			volume(v1alpha1.Volume{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
			volume(v1alpha1.Volume{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
			volume(v1alpha1.Volume{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}),
			volume(v1alpha1.Volume{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p"}}),
		},
		"strategy": {
			func(app *v1alpha1.AppService) { app.Spec.Strategy.Type = "Recreate" },
			func(app *v1alpha1.AppService) { app.Spec.Strategy.Type = "" },
			func(app *v1alpha1.AppService) { app.Spec.Strategy.Type = "Recreate" },
		},
		"environment": {
			variable(corev1.EnvVar{Value: "b"}),
			variable(corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}),
			variable(corev1.EnvVar{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}}),
			variable(corev1.EnvVar{Value: "b"}),
		},
		"service": {service("NodePort"), service("ClusterIP"), service("NodePort"), service("")},
		"budget": {
			func(app *v1alpha1.AppService) {
				app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: &one}
			},
			func(app *v1alpha1.AppService) {
				app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: &none}
			},
			func(app *v1alpha1.AppService) {
				app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: &one}
			},
		},
	}
	for name, steps := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			for i, step := range append(steps, func(app *v1alpha1.AppService) {
				app.Spec = v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(1)), ConflictPolicy: app.Spec.ConflictPolicy, DeletionPolicy: app.Spec.DeletionPolicy}
			}) {
				s.edit(step)
				s.plan()
				s.expectReport(s.ready())
				if t.Failed() {
					t.Fatal("step", i)
				}
			}
			if got := s.correctionCount(); got > 0 {
				t.Errorf("%v corrections without a change by another manager", got)
			}
		})
	}
}

// Invariant 2: replicas that an autoscaler owns stay unchanged, even if another write must come
// before the apply.
func TestChange_of_a_choice_scales_nothing_down(t *testing.T) {
	t.Parallel()
	for name, autoscale := range map[string]func(*v1alpha1.AppService){"own": withAutoscaler, "another": withExternalScaling} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t, withReplicas(3))
			s.expectNeverFewer(3)
			s.edit(func(app *v1alpha1.AppService) {
				autoscale(app)
				app.Spec.Strategy.Type = "Recreate"
			})
			if app := s.app.Spec.Autoscaling; app != nil {
				s.plan(withBounds(2, 5))
			} else {
				s.plan()
			}
			s.expectReadyWith(3)
			if got := s.deployment().Spec.Strategy.Type; got != "Recreate" {
				t.Errorf("the strategy is %s", got)
			}
		})
	}
}
