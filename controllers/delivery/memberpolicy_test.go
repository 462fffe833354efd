package delivery

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/controllers/delivery/memberpolicy"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestNameOfTheMemberPolicy(t *testing.T) {
	t.Parallel()
	if memberpolicy.Name != member.PolicyName {
		t.Errorf("it is %s, and that of config/member is %s", memberpolicy.Name, member.PolicyName)
	}
}

// restrict applies the policy of config/member to the user of the tests, in the namespace of the
// AppService only, and waits until the member enforces it.
func (s *setup) restrict() {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.must(client.IgnoreAlreadyExists(onMember.Create(s.Context(), namespace)))
	objects, err := member.Policy()
	s.must(err)
	policy, binding := objects[0], objects[1]
	users := []any{map[string]any{"name": "is-fleetwright", "expression": "request.userInfo.username.startsWith('fleetwright')"}}
	selected := map[string]any{corev1.LabelMetadataName: s.app.Namespace}
	s.must(errors.Join(
		unstructured.SetNestedSlice(policy.Object, users, "spec", "matchConditions"),
		unstructured.SetNestedField(binding.Object, s.app.Namespace, "spec", "policyName"),
		unstructured.SetNestedMap(binding.Object, selected, "spec", "matchResources", "namespaceSelector", "matchLabels"),
	))
	for _, object := range []*unstructured.Unstructured{policy, binding} {
		object.SetName(s.app.Namespace)
		s.must(onMember.Create(s.Context(), object))
	}
	api, err := kubernetes.NewForConfig(s.config)
	s.must(err)
	probe := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	wait.Eventually(s.T, func() error {
		_, err := api.CoreV1().Services(s.app.Namespace).Create(s.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if memberpolicy.RefusalOf(err) == nil {
			return fmt.Errorf("the policy does not refuse a Service without labels: %w", err)
		}
		return nil
	})
}

// agree labels the namespace on the member, which then agrees to adoptions.
func (s *setup) agree() {
	s.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}
	s.changeByOther(namespace, func() { namespace.Labels = map[string]string{v1alpha1.LabelAdoption: v1alpha1.AdoptionAllowed} })
}

// notAllowed is the message for an object that must not be adopted.
func (s *setup) notAllowed(kind string) string {
	return fmt.Sprintf("%s web exists without Fleetwright's labels, and cluster %s does not allow adoptions in namespace %s: run on that cluster: "+
		"kubectl label namespace %[3]s fleetwright.dev/adoption=allowed", kind, s.cluster, s.app.Namespace)
}

// The policy refuses nothing that delivery does: everything is created, changed, corrected and removed.
func TestMember_with_the_policy_gets_everything(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, withBudget)
	c.restrict()
	c.start()
	c.planRevision()
	c.expectReport(c.readyWith(1))
	c.expectCopies(c.allCopies("1", "1", "1"))
	c.expectOptional("PodDisruptionBudget 1")

	c.edit(func(app *v1alpha1.AppService) { app.Spec.Env[0].Value = "2" })
	c.revision++
	c.change(v1alpha1.ConfigurationSecret, "db", "2")
	c.planRevision()
	c.expectWorkload(strings.Replace(running, "A=1", "A=2", 1))
	c.expectCopies(c.allCopies("1", "2", "1"))

	for _, label := range []string{v1alpha1.LabelManagedBy, v1alpha1.LabelAppService} {
		spoiled := c.deployment()
		c.changeByOther(spoiled, func() { delete(spoiled.Labels, label) })
		wait.Eventually(t, func() error {
			if restored := c.deployment(); restored.Labels[label] == "" {
				return fmt.Errorf("the label %s is missing", label)
			}
			return nil
		})
	}

	c.edit(func(app *v1alpha1.AppService) { app.Spec.DisruptionBudget = nil })
	c.revision++
	c.planRevision()
	c.expectOptional()
	c.planConfigured(withPhase(v1alpha1.ClusterRemoving))
	c.expectReport(c.removing(c.confirmed))
}

func TestOrphans_of_a_member_with_the_policy_are_released(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withOrphan)
	s.restrict()
	s.start()
	s.plan()
	s.expectReport(s.ready())
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	if s.deployment().Labels[v1alpha1.LabelManagedBy] != "" {
		t.Error("the Deployment is not released")
	}
}

// Each kind is adopted only after the member agrees. Until then, nothing changes and nothing is announced.
func TestAdoption_needs_the_consent_of_a_member_with_the_policy(t *testing.T) {
	t.Parallel()
	scaler := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 9, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "other"}}}
	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(5))}}
	for name, test := range map[string]struct {
		policy   v1alpha1.ConflictPolicy
		existing client.Object
		spec     func(*v1alpha1.AppService)
		entry    func(*v1alpha1.ClusterStatus)
	}{
		"an identical Deployment":               {policy: v1alpha1.ConflictAdoptIfIdentical, existing: identicalDeployment},
		"a Deployment that is rolled out again": {policy: v1alpha1.ConflictAdopt, existing: differentDeployment()},
		"an identical Service":                  {policy: v1alpha1.ConflictAdoptIfIdentical, existing: ownService()},
		"a different Service":                   {policy: v1alpha1.ConflictAdopt, existing: differentService()},
		"an autoscaler":                         {policy: v1alpha1.ConflictAdopt, existing: scaler, spec: withAutoscaler, entry: withBounds(2, 5)},
		"a disruption budget":                   {policy: v1alpha1.ConflictAdopt, existing: budget, spec: withBudget},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []func(*v1alpha1.AppService){withConflictPolicy(test.policy)}
			if test.spec != nil {
				changes = append(changes, test.spec)
			}
			s := newSetup(t, changes...)
			s.restrict()
			was := s.createByOther(test.existing, nil, nil)
			s.start()
			if test.entry == nil {
				test.entry = func(*v1alpha1.ClusterStatus) {}
			}
			s.plan(test.entry)
			wait.Eventually(t, func() error {
				seen := s.reported.last(s.key(), s.cluster)
				if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonAdoptionNotAllowed || seen.Message != s.notAllowed(kindOf(was)) {
					return fmt.Errorf("reported %+v, want %s", seen, s.notAllowed(kindOf(was)))
				}
				return nil
			})
			s.expectUnchanged(was)
			s.expectEvents(v1alpha1.ReasonAdoptionRestartsPods)

			s.agree()
			s.restart()
			wait.Eventually(t, func() error {
				s.must(onMember.Get(t.Context(), s.key(), was))
				if was.GetLabels()[v1alpha1.LabelAppService] != "web" {
					return fmt.Errorf("it is not adopted: %+v", s.reported.last(s.key(), s.cluster))
				}
				return nil
			})
		})
	}
}

// ownService returns a Service that selects the pods of the AppService.
func ownService() *corev1.Service {
	own := identicalService.DeepCopy()
	own.Spec.Selector = map[string]string{v1alpha1.LabelAppService: "web"}
	return own
}

// An object that has lost all labels is not Fleetwright's for the member.
func TestObject_without_labels_of_a_member_with_the_policy(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	s.restrict()
	s.start()
	s.plan()
	s.expectReport(s.ready())
	spoiled := s.deployment()
	s.changeByOther(spoiled, func() { spoiled.Labels = nil })
	s.expectReport(s.failed(v1alpha1.ReasonAdoptionNotAllowed, s.notAllowed("Deployment")), ignoreReplicas)

	s.plan(withPhase(v1alpha1.ClusterRemoving))
	wait.Eventually(t, func() error {
		seen := s.reported.last(s.key(), s.cluster)
		want := "member.fleetwright.dev/NotLabelled: the object has none of Fleetwright's labels, so Fleetwright may neither change nor delete it"
		if seen.Phase != v1alpha1.ClusterRemoving || seen.Reason != v1alpha1.ReasonRefused || !strings.Contains(seen.Message, want) {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
}

// The policy does not show the object that has the name of a copy, so it is reported as without the
// policy, also where adoptions are allowed.
func TestCopies_whose_names_are_taken_on_a_member_with_the_policy(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	c.restrict()
	c.agree()
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: c.ofDB()}, Data: map[string][]byte{"other": []byte("x")}}
	c.must(onMember.Create(t.Context(), foreign))
	c.start()
	c.planRevision()
	want := "Secret " + c.ofDB() + " exists and was not created by Fleetwright: delete it, so that the copy can be created"
	wait.Eventually(t, func() error {
		seen := c.reported.last(c.key(), c.cluster)
		if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonConflict || !strings.Contains(seen.Message, want) {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
}
