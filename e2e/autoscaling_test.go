package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

func autoscaling(minReplicas, maxReplicas int32) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: &minReplicas, MaxReplicas: maxReplicas}
	}
}

func disruptionBudget(maxUnavailable int) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromInt(maxUnavailable))}
	}
}

func withoutAutoscaling(s *v1alpha1.AppServiceSpec) { s.Autoscaling, s.DisruptionBudget = nil, nil }

// optionalObjects has fields of a member's Deployment, HorizontalPodAutoscaler and
// PodDisruptionBudget. The values of a missing object are zero.
type optionalObjects struct {
	Replicas       int32
	Min, Max       int32
	MaxUnavailable int
}

func (f *fleet) optionalObjects(ctx context.Context, member string, app *v1alpha1.AppService) (optionalObjects, error) {
	deployment, autoscaler, budget := &appsv1.Deployment{}, &autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}
	for _, object := range []client.Object{deployment, autoscaler, budget} {
		err := f.Members[member].Client.Get(ctx, client.ObjectKeyFromObject(app), object)
		if err != nil && !apierrors.IsNotFound(err) {
			return optionalObjects{}, fmt.Errorf("%s: %w", member, err)
		}
	}
	got := optionalObjects{Replicas: deployment.Status.AvailableReplicas, Min: ptr.Deref(autoscaler.Spec.MinReplicas, 0), Max: autoscaler.Spec.MaxReplicas}
	if budget.Spec.MaxUnavailable != nil {
		got.MaxUnavailable = budget.Spec.MaxUnavailable.IntValue()
	}
	if target := autoscaler.Spec.ScaleTargetRef; got.Max > 0 && (target.Kind != "Deployment" || target.Name != app.Name) {
		return got, fmt.Errorf("%s: the HorizontalPodAutoscaler scales %+v", member, target)
	}
	return got, nil
}

// awaitOptionalObjects waits until the AppService is Ready on these members, and their objects have
// these fields.
func (f *fleet) awaitOptionalObjects(t *testing.T, app *v1alpha1.AppService, want map[string]optionalObjects) {
	t.Helper()
	f.awaitEntries(t, app, allReady(slices.Collect(maps.Keys(want))...))
	f.Eventually(t, fmt.Sprintf("the objects of AppService %s to be %+v", app.Name, want), func(ctx context.Context) error {
		got, errs := map[string]optionalObjects{}, []error(nil)
		for member := range want {
			objects, err := f.optionalObjects(ctx, member, app)
			got[member] = objects
			errs = append(errs, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			errs = append(errs, fmt.Errorf("(-want +got):\n%s", diff))
		}
		return errors.Join(errs...)
	})
}

// scaleDeployment scales a member's Deployment as its HorizontalPodAutoscaler does.
func (f *fleet) scaleDeployment(t *testing.T, member string, app *v1alpha1.AppService, replicas int32) {
	t.Helper()
	deployment, err := f.Members[member].Deployment(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Replicas = &replicas
	if err := f.Members[member].Client.Patch(t.Context(), deployment, patch, client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
}

// TestAutoscaling tests AppServices that each member scales by itself. The members have no metrics,
// so their autoscalers only keep the replicas within the bounds. Each step continues where the
// previous one ended.
func TestAutoscaling(t *testing.T) {
	f := testFleet(t, onKind)
	app := f.createApp(t, "autoscaled", autoscaling(2, 5), disruptionBudget(1))
	own := optionalObjects{Replicas: 2, Min: 2, Max: 5, MaxUnavailable: 1}
	want := map[string]optionalObjects{"north": own, "south": own, "east": own}

	t.Run("each member has an autoscaler and a disruption budget", func(t *testing.T) {
		f.awaitOptionalObjects(t, app, want)
	})

	t.Run("keeps the replicas that the autoscaler sets, also during an edit", func(t *testing.T) {
		f.scaleDeployment(t, "south", app, 4)
		want["south"] = optionalObjects{Replicas: 4, Min: 2, Max: 5, MaxUnavailable: 1}
		f.awaitOptionalObjects(t, app, want)
		f.EditApp(t, app, framework.Image("web:2"), disruptionBudget(2))
		for member, objects := range want {
			objects.MaxUnavailable = 2
			want[member] = objects
		}
		f.awaitOptionalObjects(t, app, want)
	})

	t.Run("divides the bounds, and starts from the current replicas", func(t *testing.T) {
		f.EditApp(t, app, dividedReplicas(), autoscaling(7, 16))
		f.awaitEntries(t, app, allReady("north", "south", "east"))
		minSum, maxSum := int32(0), int32(0)
		for _, c := range app.Status.Clusters {
			objects := optionalObjects{Replicas: max(want[c.Name].Replicas, c.MinReplicas), Min: c.MinReplicas, Max: c.MaxReplicas, MaxUnavailable: 2}
			want[c.Name] = objects
			minSum += objects.Min
			maxSum += objects.Max
		}
		if minSum != 7 || maxSum != 16 {
			t.Errorf("the bounds are %d and %d in all, want 7 and 16", minSum, maxSum)
		}
		f.awaitOptionalObjects(t, app, want)
	})

	t.Run("removes both objects, and sets the replicas again, when they are no longer in the spec", func(t *testing.T) {
		f.EditApp(t, app, withoutAutoscaling, framework.Replicas(9))
		f.awaitOptionalObjects(t, app, map[string]optionalObjects{"north": {Replicas: 3}, "south": {Replicas: 3}, "east": {Replicas: 3}})
	})
}
