package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// withAutoscaler makes the member create an autoscaler. The entry sets its bounds.
func withAutoscaler(app *v1alpha1.AppService) {
	app.Spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5}
}

func withBudget(app *v1alpha1.AppService) {
	app.Spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromInt32(1))}
}

// withBounds sets the bounds of the cluster's autoscaler in an entry.
func withBounds(least, most int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) {
		entry.MinReplicas, entry.MaxReplicas, entry.Replicas = least, most, max(entry.Replicas, least)
	}
}

// expectOptional waits until the member has exactly these optional objects with the AppService's
// name: "HorizontalPodAutoscaler 2-5", "PodDisruptionBudget 1".
func (s *setup) expectOptional(want ...string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		var got []string
		if scaler := (&autoscalingv2.HorizontalPodAutoscaler{}); s.has(scaler) {
			got = append(got, fmt.Sprintf("HorizontalPodAutoscaler %d-%d", *scaler.Spec.MinReplicas, scaler.Spec.MaxReplicas))
		}
		if budget := (&policyv1.PodDisruptionBudget{}); s.has(budget) {
			got = append(got, fmt.Sprintf("PodDisruptionBudget %s", budget.Spec.MaxUnavailable))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("the member has %q, want %q", got, want)
		}
		return nil
	})
}

// has reads the member's object with the AppService's name, and reports whether it exists.
func (s *setup) has(object client.Object) bool {
	s.Helper()
	err := onMember.Get(s.Context(), s.key(), object)
	if client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

func TestOptionalObjects_are_created_kept_and_deleted(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler, withBudget)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	s.expectOptional("HorizontalPodAutoscaler 2-5", "PodDisruptionBudget 1")

	// The autoscaler owns the replicas.
	s.scale(4)
	s.expectReadyWith(4)
	s.edit(editImage)
	s.plan(withBounds(2, 6))
	s.expectOptional("HorizontalPodAutoscaler 2-6", "PodDisruptionBudget 1")
	s.expectReadyWith(4)
	s.expectWorkload("4 × web:2 A=1; ClusterIP 80→8080/TCP")

	// Changes by other managers are corrected, and deleted objects are created again.
	scaler := &autoscalingv2.HorizontalPodAutoscaler{}
	s.has(scaler)
	s.changeByOther(scaler, func() { scaler.Spec.MaxReplicas = 99 })
	s.expectOptional("HorizontalPodAutoscaler 2-6", "PodDisruptionBudget 1")
	s.must(onMember.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: s.app.Name}}))
	s.expectOptional("HorizontalPodAutoscaler 2-6", "PodDisruptionBudget 1")
	s.expectReadyWith(4)

	// Invariant 5: nothing is written again after a restart.
	s.restart()
	s.expectReadyWith(4)
	s.expectNoRequests(t, "PATCH", "POST", "DELETE", "PUT")

	// Without its label, the object does not name its AppService. Only the watch reports the
	// object.
	budget := &policyv1.PodDisruptionBudget{}
	s.has(budget)
	s.changeByOther(budget, func() { delete(budget.Labels, v1alpha1.LabelAppService) })
	wait.Eventually(t, func() error {
		if s.has(budget); budget.Labels[v1alpha1.LabelAppService] == "" {
			return errors.New("the label is missing")
		}
		return nil
	})

	s.edit(func(app *v1alpha1.AppService) { app.Spec.DisruptionBudget = nil })
	s.plan(withBounds(2, 6))
	s.expectOptional("HorizontalPodAutoscaler 2-6")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Autoscaling, app.Spec.Replicas = nil, new(int32(3)) })
	s.plan()
	s.expectOptional()
	s.expectReadyWith(3)
	s.expectWorkload("3 × web:2 A=1; ClusterIP 80→8080/TCP")
	s.sent.reset()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:3" })
	s.plan()
	s.expectReadyWith(3)
	s.expectNoRequests(t, "GET horizontalpodautoscalers/", "GET poddisruptionbudgets")
}

func TestOptionalObjects_are_removed_or_orphaned_with_the_AppService(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		policy v1alpha1.DeletionPolicy
		parts  []string
		runs   string
	}{
		"removed":  {v1alpha1.DeletionDelete, nil, "no Deployment; no Service"},
		"orphaned": {v1alpha1.DeletionOrphan, []string{"HorizontalPodAutoscaler 2-5", "PodDisruptionBudget 1"}, "2 × web:1 A=1; ClusterIP 80→8080/TCP"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startedSetup(t, withAutoscaler, withBudget, func(app *v1alpha1.AppService) { app.Spec.DeletionPolicy = test.policy })
			s.plan(withBounds(2, 5))
			s.expectReadyWith(2)
			s.expectOptional("HorizontalPodAutoscaler 2-5", "PodDisruptionBudget 1")
			s.plan(withBounds(2, 5), withPhase(v1alpha1.ClusterRemoving))
			s.expectReport(s.removing(s.confirmed), ignoreReplicas)
			s.expectOptional(test.parts...)
			s.expectWorkload(test.runs)
			for _, object := range []client.Object{&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}} {
				if s.has(object) && (object.GetLabels()[v1alpha1.LabelManagedBy] != "" || object.GetAnnotations()[v1alpha1.AnnotationHub] != "") {
					t.Errorf("%T is still marked: %v %v", object, object.GetLabels(), object.GetAnnotations())
				}
			}
		})
	}
}

// Deleting the Deployment also deletes the record of the optional objects.
func TestOptionalObjects_are_deleted_without_the_Deployment(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	s.end()
	s.must(onMember.Delete(t.Context(), s.deployment()))
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Autoscaling = nil })
	s.plan(func(entry *v1alpha1.ClusterStatus) { entry.ObservedGeneration = 1 })
	s.start()
	s.expectReady()
	s.expectOptional()
}

func TestOptionalObjects_of_other_managers_are_not_changed(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.edit(withAutoscaler)
	s.createAutoscaler(func(scaler *autoscalingv2.HorizontalPodAutoscaler) { scaler.Name = s.app.Name })
	s.plan(withBounds(2, 5))
	s.expectReport(s.failed(v1alpha1.ReasonConflict,
		`HorizontalPodAutoscaler web exists and does not belong to this AppService: it is managed by "delivery.test"; to adopt it, set spec.conflictPolicy to AdoptIfIdentical or Adopt`), ignoreReplicas)
	s.expectOptional("HorizontalPodAutoscaler 1-9")

	s.edit(func(app *v1alpha1.AppService) { app.Spec.ConflictPolicy = v1alpha1.ConflictAdopt })
	s.plan(withBounds(2, 5))
	s.expectReady()
	s.expectOptional("HorizontalPodAutoscaler 2-5")
}

func TestAutoscaler_is_created_when_the_share_is_no_longer_0(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler)
	s.plan(func(entry *v1alpha1.ClusterStatus) { entry.Replicas = 0 })
	s.expectReadyWith(0)
	s.expectOptional()
	s.expectWorkload("0 × web:1 A=1; ClusterIP 80→8080/TCP")

	s.plan(withBounds(2, 5))
	s.expectOptional("HorizontalPodAutoscaler 2-5")
	s.expectReadyWith(2)
	s.scale(3)
	s.expectReadyWith(3)

	s.plan(func(entry *v1alpha1.ClusterStatus) { entry.Replicas = 0 })
	s.expectReadyWith(0)
	s.expectOptional()
}

// withoutOptionalPermissions gives the operator credentials without permissions on optional
// objects.
func (s *setup) withoutOptionalPermissions() {
	s.Helper()
	config, err := onMember.user(s.Context(), "without-parts-"+s.app.Namespace, []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"services", "pods", "namespaces"}, Verbs: []string{"*"}},
	})
	s.must(err)
	s.config = config
}

// If one AppService needs more than the credentials permit, only that AppService stops.
func TestOptionalObjects_without_permissions(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withAutoscaler)
	s.withoutOptionalPermissions()
	s.start()
	s.plan(withBounds(2, 5))
	wait.Eventually(t, func() error {
		seen := s.reported.last(s.key(), s.cluster)
		if seen.Reason != v1alpha1.ReasonRefused || !strings.Contains(seen.Message, "horizontalpodautoscalers") {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Autoscaling = nil })
	s.plan()
	s.expectReady()
}

// A restored hub has old bounds.
func TestHubBehind_changes_no_optional_object(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler, withBudget)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	old := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Autoscaling.MinReplicas = new(int32(4)) })
	s.plan(withBounds(4, 9))
	s.expectOptional("HorizontalPodAutoscaler 4-9", "PodDisruptionBudget 1")
	s.expectReady()
	for name, change := range map[string]func(*v1alpha1.AppService){
		"with other bounds":     func(*v1alpha1.AppService) {},
		"without an autoscaler": func(app *v1alpha1.AppService) { app.Spec.Autoscaling = nil },
	} {
		restored := old.DeepCopy()
		change(restored)
		seen, result, err := s.reconcileWith(staleCluster{hubCached, []client.Object{restored}}, s.member)
		s.must(err)
		// The hub itself is not behind; only the cached AppService is old.
		if result.RequeueAfter != conflictRetry || seen.Phase != "" {
			t.Errorf("%s: reported %+v, and requeued after %s", name, seen, result.RequeueAfter)
		}
		s.expectOptional("HorizontalPodAutoscaler 4-9", "PodDisruptionBudget 1")
	}
}

// Another manager has replaced the Deployment with its own. That Deployment does not record which
// optional objects Fleetwright created.
func TestOptionalObjects_beside_a_foreign_Deployment_are_deleted(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	s.end()
	s.must(onMember.Delete(t.Context(), s.deployment()))
	existing := differentDeployment()
	existing.Namespace, existing.Name = s.app.Namespace, s.app.Name
	s.must(onMember.Create(t.Context(), existing))
	s.start()
	s.plan(withBounds(2, 5), withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	s.expectOptional()
	if s.deployment() == nil {
		t.Error("the foreign Deployment is gone")
	}
}

// Optional objects of an earlier AppService are deleted like those of this one.
func TestOptionalObjects_of_an_earlier_AppService_are_deleted(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	s.must(onHub.Delete(t.Context(), s.app))
	s.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: s.app.Name}, Spec: s.app.Spec}
	s.app.Spec.Autoscaling = nil
	s.must(onHub.Create(t.Context(), s.app))
	s.plan()
	s.expectReady()
	s.expectOptional()
}

// Delivery waits for an autoscaler that is still being deleted: the autoscaler owns the replicas
// until it is gone.
func TestDelivery_waits_for_an_autoscaler_that_is_being_deleted(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{}
	s.has(scaler)
	s.changeByOther(scaler, func() { scaler.Finalizers = []string{"example.com/hold"} })
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Autoscaling, app.Spec.Replicas = nil, new(int32(1)) })
	s.plan()
	wait.Eventually(t, func() error {
		if seen := s.reported.last(s.key(), s.cluster); seen.Message != "waiting for the member to finish deleting HorizontalPodAutoscaler web" {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
	s.expectWorkload("2 × web:1 A=1; ClusterIP 80→8080/TCP")
	s.has(scaler)
	s.changeByOther(scaler, func() { scaler.Finalizers = nil })
	s.expectReadyWith(1)
}

// Missing read permissions on an optional kind do not block the removal of an AppService that has
// no such object.
func TestOptionalObjects_that_cannot_be_read_block_no_removal(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]v1alpha1.DeletionPolicy{"deleted": v1alpha1.DeletionDelete, "orphaned": v1alpha1.DeletionOrphan} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, func(app *v1alpha1.AppService) { app.Spec.DeletionPolicy = policy })
			s.withoutOptionalPermissions()
			s.start()
			s.plan()
			s.expectReady()
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			s.expectReport(s.removing(s.confirmed), ignoreReplicas)
		})
	}
}

// After a person accepts a later generation, objects that were applied for it are stamped
// again, including optional objects.
func TestHubBehind_is_accepted_for_optional_objects(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler)
	s.plan(withBounds(2, 5))
	s.expectReadyWith(2)
	scaler := &autoscalingv2.HorizontalPodAutoscaler{}
	s.has(scaler)
	s.changeByOther(scaler, func() { scaler.Annotations[v1alpha1.AnnotationGeneration] = "9" })
	s.edit(func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: lineage.Of(scaler).Token()}
		app.Spec.Image = "web:2"
	})
	s.plan(withBounds(2, 5))
	s.expectReady()
	wait.Eventually(t, func() error {
		if s.has(scaler); scaler.Annotations[v1alpha1.AnnotationGeneration] != "2" {
			return fmt.Errorf("it is stamped %s", scaler.Annotations[v1alpha1.AnnotationGeneration])
		}
		return nil
	})
}
