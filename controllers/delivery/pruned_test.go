package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// withStopSignal sets a field that a feature gate turns off on every member here.
func withStopSignal(app *v1alpha1.AppService) {
	app.Spec.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)}
}

const stopSignal = `spec.template.spec.containers[name="app"].lifecycle.stopSignal of the Deployment`

// discarding returns the expected report when the member discards these fields and runs
// everything else.
func (s *setup) discarding(what string) observation.Observation {
	want := s.ready()
	want.Phase, want.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused
	want.Message = "the member discards " + what + ", because of its Kubernetes version, a feature gate or an admission webhook: remove these fields for this cluster by an override"
	return want
}

// expectNoCorrection fails the test if a drift correction was counted.
func (s *setup) expectNoCorrection() {
	s.Helper()
	if got := s.correctionCount(); got > 0 {
		s.Errorf("counted %v corrections", got)
	}
	s.expectEvents(v1alpha1.ReasonDriftCorrected)
}

func TestPrunedField_is_reported_and_not_sent_again(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal)
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	s.expectWorkload(running)
	if got := s.sent.count("DRY-RUN deployments/web"); got != 1 {
		t.Errorf("sent %d dry runs, want 1", got)
	}

	// An event about the object causes no request to the member.
	s.sent.reset()
	count := len(s.reported.all(s.key(), s.cluster))
	d := s.deployment()
	s.changeByOther(d, func() { d.Annotations["note"] = "again" })
	wait.Eventually(t, func() error {
		if d := s.deployment(); len(s.reported.all(s.key(), s.cluster)) == count || d.Status.ObservedGeneration < d.Generation {
			return errors.New("it was not reconciled again, or the Deployment has not rolled out")
		}
		return nil
	})
	s.expectReport(s.discarding(stopSignal))
	s.expectRequests()

	// Invariant 5: a new process asks once, and writes nothing.
	before := s.deployment().ResourceVersion
	s.restart()
	s.expectReport(s.discarding(stopSignal))
	s.expectRequests("GET horizontalpodautoscalers", "GET deployments/web", "DRY-RUN deployments/web")
	if after := s.deployment().ResourceVersion; after != before {
		t.Errorf("the Deployment was at %s, and is at %s", before, after)
	}
	s.expectNoCorrection()
}

// The list of the sources is compared as a whole, and the member keeps it, with an empty source. If another
// manager removes more of the list, that is drift.
func TestPrunedField_in_a_list_hides_no_drift_of_the_list(t *testing.T) {
	t.Parallel()
	const field = `spec.template.spec.volumes[name="a"].projected.sources`
	s := startedSetup(t, func(app *v1alpha1.AppService) {
		cpu := corev1.DownwardAPIVolumeFile{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "app", Resource: "limits.cpu"}}
		app.Spec.Volumes = []v1alpha1.Volume{{Name: "a", Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{cpu}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Optional: new(true)}},
			{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: new("a"), Path: "a"}}, // its feature gate is off
		}}}}
	})
	s.plan()
	want := s.discarding(field + " of the Deployment")
	s.expectReport(want)
	s.sent.reset()
	s.restart()
	s.expectReport(want)
	s.expectRequests("GET horizontalpodautoscalers", "GET deployments/web", "DRY-RUN deployments/web")
	s.expectNoCorrection()
	d := s.deployment()
	s.changeByOther(d, func() { d.Spec.Template.Spec.Volumes[0].Projected.Sources[1].Secret.Optional = nil })
	s.expectEvents(v1alpha1.ReasonDriftCorrected, "editor changed "+field+" of Deployment web; the change was reverted")
	s.expectReport(want)
	if s.deployment().Spec.Template.Spec.Volumes[0].Projected.Sources[1].Secret.Optional == nil {
		t.Error("the change is still there")
	}
}

func TestPrunedField_is_checked_again_in_minutes(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal)
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	s.disengage()
	s.connect()
	w := s.newReconciler()
	begin := time.Now()
	for range 3 {
		seen, result := w.reconcileOnce()
		if diff := cmp.Diff(s.discarding(stopSignal), seen); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if result.RequeueAfter > object.PruneRetry || result.RequeueAfter < object.PruneRetry-time.Since(begin) {
			t.Errorf("requeued after %v", result.RequeueAfter)
		}
	}
	w.makePruneRetryDue()
	w.reconcileOnce()
	w.reconcileOnce()
	if got := s.sent.count("DRY-RUN deployments/web"); got != 2 {
		t.Errorf("sent %d dry runs, want 2", got)
	}
	s.expectNoRequests(t, "PATCH", "POST", "DELETE")
}

// makePruneRetryDue makes the next dry run on the member due now.
func (w *testReconciler) makePruneRetryDue() {
	w.Helper()
	for _, known := range w.memories.of(w.app).objects {
		known.Pruned.Retry = time.Now()
	}
}

func TestPrunedField_stops_nothing_else(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal, withAutoscaler, withBudget)
	s.plan(withBounds(2, 5))
	want := s.discarding(stopSignal)
	want.Replicas, want.ReadyReplicas = 2, 2
	s.expectReport(want)
	s.expectOptional("HorizontalPodAutoscaler 2-5", "PodDisruptionBudget 1")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Ports[0].Port = "web:2", 81 })
	s.plan(withBounds(2, 6))
	s.expectWorkload("2 × web:2 A=1; ClusterIP 81→8080/TCP")
	s.expectOptional("HorizontalPodAutoscaler 2-6", "PodDisruptionBudget 1")
	want.Generation, want.Applied = 2, 2
	s.expectReport(want)
	s.expectNoCorrection()
}

func TestDrift_beside_a_pruned_field_is_corrected_once(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal, func(app *v1alpha1.AppService) {
		app.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		app.Spec.Lifecycle.PreStop = &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}
	})
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	delivered, d := s.deployment().Spec, s.deployment()
	d.Spec.Template.Spec.NodeSelector, d.Spec.Template.Spec.Containers[0].Lifecycle = nil, nil
	s.must(onMember.Update(t.Context(), d, client.FieldOwner("editor")))
	s.expectEvents(v1alpha1.ReasonDriftCorrected,
		`an unknown manager changed spec.template.spec.nodeSelector, spec.template.spec.containers[name="app"].lifecycle.preStop.sleep.seconds of Deployment web; the change was reverted`)
	s.expectReport(s.discarding(stopSignal))
	if diff := cmp.Diff(delivered, s.deployment().Spec); diff != "" {
		t.Errorf("the member runs (-want +got):\n%s", diff)
	}
	if got := s.correctionCount(); got != 1 {
		t.Errorf("counted %v corrections, want 1", got)
	}
}

func TestPrunedField_can_be_removed_by_an_override(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal)
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Overrides = []v1alpha1.Override{{Name: "old", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{s.cluster}}, Patches: []v1alpha1.Patch{{
			Target:     v1alpha1.PatchDeployment,
			Operations: []v1alpha1.PatchOperation{{Op: "remove", Path: "/spec/template/spec/containers/0/lifecycle"}},
		}}}}
	})
	s.plan()
	s.expectReport(s.ready())
	s.expectAtRestAlsoAfterRestart()
}

// A dry run may claim that the member keeps a field that it discards. The field is then sent
// only as often as the dry run is repeated.
func TestPrunedField_that_a_dry_run_keeps_is_sent_in_minutes(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal)
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	s.disengage()
	s.connect()
	s.sent.answers(func(request string) (*http.Response, error) {
		if request != "DRY-RUN deployments/web" {
			return nil, nil
		}
		kept := s.deployment()
		kept.APIVersion, kept.Kind = "apps/v1", "Deployment"
		kept.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)}
		body, err := json.Marshal(kept)
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body))}, err
	})
	w := s.newReconciler()
	for range 3 {
		w.reconcileOnce()
	}
	if seen, _ := w.reconcileOnce(); !seen.Same(s.discarding(stopSignal)) {
		t.Errorf("reported %+v", seen)
	}
	if got := s.sent.count("PATCH deployments/web"); got != 1 {
		t.Errorf("sent %d times, want once", got)
	}
	s.expectNoCorrection()
}

// The failure of the pods is reported too.
func TestPrunedField_hides_no_other_failure(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal)
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	d := s.deployment()
	before := d.DeepCopy()
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota",
	})
	d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0
	s.must(onMember.Status().Patch(t.Context(), d, client.MergeFrom(before)))
	want := s.discarding(stopSignal)
	want.ReadyReplicas = 0
	want.Message += "; PodsRefused: exceeded quota"
	s.expectReport(want)
}

// Kubernetes before 1.35 silently discards the tolerance of an autoscaler.
func TestPrunedField_of_an_autoscaler_is_reported(t *testing.T) {
	t.Parallel()
	tolerant := &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{Tolerance: new(resource.MustParse("50m"))}}
	s := startedSetup(t, withAutoscaler, func(app *v1alpha1.AppService) { app.Spec.Autoscaling.Behavior = tolerant })
	s.plan(withBounds(2, 5))
	s.expectOptional("HorizontalPodAutoscaler 2-5")
	want, scaler := s.ready(), &autoscalingv2.HorizontalPodAutoscaler{}
	if s.has(scaler); scaler.Spec.Behavior.ScaleUp.Tolerance == nil {
		want = s.discarding("spec.behavior.scaleUp.tolerance of the HorizontalPodAutoscaler")
	}
	s.expectReport(want, ignoreReplicas)
	s.expectNoCorrection()
}
