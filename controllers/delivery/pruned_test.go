package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// withStopSignal sets a field that a feature gate turns off on every member here.
func withStopSignal(app *v1alpha1.AppService) {
	app.Spec.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1)}
}

const stopSignal = `spec.template.spec.containers[name="app"].lifecycle.stopSignal of the Deployment`

// discarding returns the expected report when the member drops these fields and runs everything
// else.
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
		t.Errorf("sent %d dry runs, want once", got)
	}

	// An event about the object causes no request to the member.
	s.sent.reset()
	count := len(s.reported.all(s.key(), s.cluster))
	d := s.deployment()
	s.changeByOther(d, func() { d.Annotations["note"] = "again" })
	eventually(t, func() error {
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

func TestPrunedField_is_checked_again_in_minutes(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withStopSignal)
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	s.disengage()
	s.connect()
	w := s.newReconciler()
	for range 3 {
		seen, result := w.reconcileOnce()
		if diff := cmp.Diff(s.discarding(stopSignal), seen); diff != "" {
			t.Errorf("reported (-want +got):\n%s", diff)
		}
		if result.RequeueAfter > object.PruneRetry || result.RequeueAfter < object.PruneRetry-waitTimeout {
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
	pruned := w.memories.of(w.app).pruned
	for kind, found := range pruned {
		found.Retry = time.Now()
		pruned[kind] = found
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
	tests := map[string]struct {
		change func(*setup)
		want   string
	}{
		"a changed field": {
			func(s *setup) { s.changeImageByOther("bad:1") },
			`editor changed spec.template.spec.containers[name="app"].image of Deployment web; the change was reverted`,
		},
		"removed fields": {
			func(s *setup) {
				d := s.deployment()
				d.Spec.Template.Spec.NodeSelector, d.Spec.Template.Spec.Containers[0].Lifecycle = nil, nil
				s.must(onMember.Update(s.Context(), d, client.FieldOwner("editor")))
			},
			`an unknown manager changed spec.template.spec.nodeSelector, spec.template.spec.containers[name="app"].lifecycle.preStop.sleep.seconds of Deployment web; the change was reverted`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startedSetup(t, withStopSignal, func(app *v1alpha1.AppService) {
				app.Spec.NodeSelector = map[string]string{"disk": "ssd"}
				app.Spec.Lifecycle.PreStop = &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}
			})
			s.plan()
			s.expectReport(s.discarding(stopSignal))
			delivered := s.deployment().Spec
			test.change(s)
			s.expectEvents(v1alpha1.ReasonDriftCorrected, test.want)
			s.expectReport(s.discarding(stopSignal))
			if diff := cmp.Diff(delivered, s.deployment().Spec); diff != "" {
				t.Errorf("the member runs (-want +got):\n%s", diff)
			}
			if got := s.correctionCount(); got != 1 {
				t.Errorf("counted %v corrections, want 1", got)
			}
		})
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

// withPrunableFields sets a field of each kind that prunesByPolicy removes.
func withPrunableFields(app *v1alpha1.AppService) {
	withAutoscaler(app)
	withBudget(app)
	app.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	app.Spec.Overrides = []v1alpha1.Override{{Name: "near", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{}}, Patches: []v1alpha1.Patch{{
		Target:     v1alpha1.PatchService,
		Operations: []v1alpha1.PatchOperation{{Op: "add", Path: "/spec/trafficDistribution", Value: &v1alpha1.JSON{Raw: []byte(`"PreferClose"`)}}},
	}}}}
	app.Spec.Autoscaling.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(7))}}
	app.Spec.DisruptionBudget.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow)
}

const allPrunedFields = "spec.template.spec.nodeSelector of the Deployment, and spec.behavior.scaleUp.stabilizationWindowSeconds of the HorizontalPodAutoscaler, and " +
	"spec.unhealthyPodEvictionPolicy of the PodDisruptionBudget, and spec.trafficDistribution of the Service"

// pruneByPolicy makes the member's admission remove these fields from incoming objects, until the
// returned function is called.
func (s *setup) pruneByPolicy() (end func()) {
	s.Helper()
	meta := metav1.ObjectMeta{Name: s.app.Namespace}
	rule := func(group, version, resource string) admissionv1.NamedRuleWithOperations {
		return admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}},
		}}
	}
	remove := func(field, path string) admissionv1.Mutation {
		return admissionv1.Mutation{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
			Expression: fmt.Sprintf(`has(object.spec.%s) ? [JSONPatch{op: "remove", path: %q}] : []`, field, path),
		}}
	}
	for kind, mutation := range map[string]struct {
		rule     admissionv1.NamedRuleWithOperations
		mutation admissionv1.Mutation
	}{
		"deployment": {rule("apps", "v1", "deployments"), remove("template.spec.nodeSelector", "/spec/template/spec/nodeSelector")},
		"service":    {rule("", "v1", "services"), remove("trafficDistribution", "/spec/trafficDistribution")},
		"scaler":     {rule("autoscaling", "v2", "horizontalpodautoscalers"), remove("behavior", "/spec/behavior")},
		"budget":     {rule("policy", "v1", "poddisruptionbudgets"), remove("unhealthyPodEvictionPolicy", "/spec/unhealthyPodEvictionPolicy")},
	} {
		meta.Name = s.app.Namespace + "-" + kind
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.app.Namespace}}
		err := onMember.Create(s.Context(), &admissionv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints:   &admissionv1.MatchResources{NamespaceSelector: selector, ResourceRules: []admissionv1.NamedRuleWithOperations{mutation.rule}},
			Mutations:          []admissionv1.Mutation{mutation.mutation},
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			FailurePolicy:      new(admissionv1.Fail),
		}})
		if apimeta.IsNoMatchError(err) {
			s.Skip("the API server has no MutatingAdmissionPolicies: it is older than 1.36")
		}
		s.must(err)
		s.must(onMember.Create(s.Context(), &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name}}))
	}
	s.waitForPruning(true)
	return func() {
		for _, kind := range []string{"deployment", "service", "scaler", "budget"} {
			s.must(onMember.Delete(s.Context(), &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace + "-" + kind}}))
		}
		s.waitForPruning(false)
	}
}

// waitForPruning waits until the member's admission drops all of the fields, or none.
func (s *setup) waitForPruning(drop bool) {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "canary"}
	labels := map[string]string{"a": "b"}
	eventually(s.T, func() error {
		deployment := &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: labels, Containers: []corev1.Container{{Name: "a", Image: "a"}},
			}},
		}}
		service := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 80}}, TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferClose),
		}}
		scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "canary"}, MaxReplicas: 2,
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(7))}},
		}}
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta, Spec: policyv1.PodDisruptionBudgetSpec{UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow)}}
		for _, object := range []client.Object{deployment, service, scaler, budget} {
			if err := onMember.Create(s.Context(), object, client.DryRunAll); err != nil {
				return err
			}
		}
		got := []bool{deployment.Spec.Template.Spec.NodeSelector == nil, service.Spec.TrafficDistribution == nil, scaler.Spec.Behavior == nil, budget.Spec.UnhealthyPodEvictionPolicy == nil}
		if slices.Contains(got, !drop) {
			return fmt.Errorf("drops %v", got)
		}
		return nil
	})
}

// This includes a field of any kind that admission removed. The field is sent again after the
// member no longer drops it.
func TestPrunedField_is_sent_when_the_member_keeps_it(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withPrunableFields)
	s.must(onMember.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	end := s.pruneByPolicy()
	s.start()
	s.plan(withBounds(2, 5))
	want := s.discarding(allPrunedFields)
	want.Replicas, want.ReadyReplicas = 2, 2
	s.expectReport(want)
	s.disengage()
	s.connect()
	w := s.newReconciler()
	w.reconcileOnce()
	if seen, _ := w.reconcileOnce(); !seen.Same(want) {
		t.Errorf("reported (-want +got):\n%s", cmp.Diff(want, seen))
	}
	s.expectNoRequests(t, "PATCH", "POST", "DELETE")

	end()
	s.sent.reset()
	w.reconcileOnce()
	s.expectRequests()
	w.makePruneRetryDue()
	eventually(t, func() error {
		if seen, _ := w.reconcileOnce(); seen.Phase != v1alpha1.ClusterReady {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
	for request, want := range map[string]int{
		"PATCH deployments/web": 2, // the autoscaler takes over the replicas
		"PATCH services/web":    1, "PATCH horizontalpodautoscalers/web": 1, "PATCH poddisruptionbudgets/web": 1,
	} {
		if got := s.sent.count(request); got != want {
			t.Errorf("%d times %s, want %d", got, request, want)
		}
	}
	s.expectNoCorrection()
}

// A dry run may claim that the member keeps a field that it actually drops. The field is then sent
// only as often as the member is asked.
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

func TestPrunedField_of_an_unwanted_object_is_not_reported(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withPrunableFields)
	s.must(onMember.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.pruneByPolicy()
	s.start()
	s.plan(withBounds(2, 5))
	s.expectReport(s.discarding(allPrunedFields), ignoreReplicas)
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Autoscaling, app.Spec.DisruptionBudget, app.Spec.Ports, app.Spec.Overrides = nil, nil, nil, nil
	})
	s.plan()
	s.expectReport(s.discarding("spec.template.spec.nodeSelector of the Deployment"))
	s.edit(withStopSignal)
	s.plan()
	s.expectReport(s.discarding("spec.template.spec.nodeSelector, " + stopSignal))
	s.edit(func(app *v1alpha1.AppService) { app.Spec.NodeSelector = nil })
	s.plan()
	s.expectReport(s.discarding(stopSignal))
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Lifecycle = nil })
	s.plan()
	s.expectReport(s.ready())
	s.expectNoCorrection()
}

// Kubernetes before 1.35 silently drops the tolerance of an autoscaler.
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
