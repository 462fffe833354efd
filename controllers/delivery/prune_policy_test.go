package delivery

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// withPrunableFields sets a field of each kind that pruneByPolicy removes.
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

// waitForPruning waits until the member's admission removes all of the fields, or none.
func (s *setup) waitForPruning(pruned bool) {
	s.Helper()
	meta := metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "canary"}
	labels := map[string]string{"a": "b"}
	wait.Eventually(s.T, func() error {
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
		if slices.Contains(got, !pruned) {
			return fmt.Errorf("prunes %v", got)
		}
		return nil
	})
}

// This includes a field of any kind that admission removed. The field is sent again after the
// member no longer discards it.
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
	wait.Eventually(t, func() error {
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
