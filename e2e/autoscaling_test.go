package e2e

import (
	"errors"
	"fmt"
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
)

func autoscaled(least, most int32) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: &least, MaxReplicas: most}
	}
}

func budgeted(away int) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: new(intstr.FromInt(away))}
	}
}

func fixed(s *v1alpha1.AppServiceSpec) { s.Autoscaling, s.DisruptionBudget = nil, nil }

// parts are what a member has of an AppService beside the Service; what is not there is zero.
type parts struct {
	Replicas    int32
	Least, Most int32
	Away        int
}

func (f *fleet) parts(member string, app *v1alpha1.AppService) (parts, error) {
	deployment, scaler, budget := &appsv1.Deployment{}, &autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}
	for _, object := range []client.Object{deployment, scaler, budget} {
		err := f.members[member].api.Get(background, client.ObjectKeyFromObject(app), object)
		if err != nil && !apierrors.IsNotFound(err) {
			return parts{}, fmt.Errorf("%s: %w", member, err)
		}
	}
	got := parts{Replicas: deployment.Status.AvailableReplicas, Least: ptr.Deref(scaler.Spec.MinReplicas, 0), Most: scaler.Spec.MaxReplicas}
	if budget.Spec.MaxUnavailable != nil {
		got.Away = budget.Spec.MaxUnavailable.IntValue()
	}
	if target := scaler.Spec.ScaleTargetRef; got.Most > 0 && (target.Kind != "Deployment" || target.Name != app.Name) {
		return got, fmt.Errorf("%s: the HorizontalPodAutoscaler scales %+v", member, target)
	}
	return got, nil
}

// awaitParts waits until the AppService is Ready on these members, and they have this of it.
func (f *fleet) awaitParts(t *testing.T, app *v1alpha1.AppService, want map[string]parts) {
	t.Helper()
	rows := map[string]row{}
	for member := range want {
		rows[member] = row{Phase: v1alpha1.ClusterReady}
	}
	f.awaitRows(t, app, rows)
	eventually(t, fmt.Sprintf("the members to have %+v of AppService %s", want, app.Name), func() error {
		got, problems := map[string]parts{}, []error(nil)
		for member := range want {
			there, err := f.parts(member, app)
			got[member] = there
			problems = append(problems, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			problems = append(problems, fmt.Errorf("(-want +there):\n%s", diff))
		}
		return errors.Join(problems...)
	})
}

func (f *fleet) scaleThere(t *testing.T, member string, app *v1alpha1.AppService, replicas int32) {
	t.Helper()
	deployment, err := f.deployment(member, app)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Replicas = &replicas
	if err := f.members[member].api.Patch(t.Context(), deployment, patch, client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
}

// Each member scales by itself. Without metrics, its autoscaler keeps the replicas within the bounds, and does no more. Each step goes on
// from the one before.
func TestAutoscaling(t *testing.T) {
	f := theFleet
	app := f.declare(t, "breath", autoscaled(2, 5), budgeted(1))
	own := parts{Replicas: 2, Least: 2, Most: 5, Away: 1}
	want := map[string]parts{"north": own, "south": own, "east": own}

	t.Run("each member has an autoscaler and a disruption budget", func(t *testing.T) {
		f.awaitParts(t, app, want)
	})

	t.Run("what the autoscaler sets is left alone, also when something else changes", func(t *testing.T) {
		f.scaleThere(t, "south", app, 4)
		want["south"] = parts{Replicas: 4, Least: 2, Most: 5, Away: 1}
		f.awaitParts(t, app, want)
		f.edit(t, app, image("web:2"), budgeted(2))
		for member, there := range want {
			there.Away = 2
			want[member] = there
		}
		f.awaitParts(t, app, want)
	})

	t.Run("the bounds are divided, and begin with what is there", func(t *testing.T) {
		f.edit(t, app, divided(), autoscaled(7, 16))
		f.awaitRows(t, app, allReady("north", "south", "east"))
		least, most := int32(0), int32(0)
		for _, row := range app.Status.Clusters {
			there := parts{Replicas: max(want[row.Name].Replicas, row.MinReplicas), Least: row.MinReplicas, Most: row.MaxReplicas, Away: 2}
			want[row.Name] = there
			least += there.Least
			most += there.Most
		}
		if least != 7 || most != 16 {
			t.Errorf("together they scale from %d to %d, want from 7 to 16", least, most)
		}
		f.awaitParts(t, app, want)
	})

	t.Run("without autoscaling and budget both are gone, and the replicas are the AppService's", func(t *testing.T) {
		f.edit(t, app, fixed, replicas(9))
		f.awaitParts(t, app, map[string]parts{"north": {Replicas: 3}, "south": {Replicas: 3}, "east": {Replicas: 3}})
	})
}
