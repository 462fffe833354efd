package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestDrift tests that changes on a member are reverted to the spec of the AppService.
func TestDrift(t *testing.T) {
	f := testFleet(t, onKind)
	app := f.createApp(t, "drift")
	f.awaitReady(t, app, "north", "south", "east")
	member := f.Members["south"]
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	get := func(t *testing.T, object client.Object) {
		t.Helper()
		if err := member.Client.Get(t.Context(), client.ObjectKeyFromObject(app), object); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("reverts an edited Deployment", func(t *testing.T) {
		get(t, deployment)
		patch := client.MergeFrom(deployment.DeepCopy())
		deployment.Spec.Template.Spec.Containers[0].Image = "mine:1"
		deployment.Spec.Replicas = new(int32(7))
		if err := member.Client.Patch(t.Context(), deployment, patch, client.FieldOwner("other-manager")); err != nil {
			t.Fatal(err)
		}
		if checkObjects(t.Context(), member, app) == nil {
			t.Log("reverted before the first check")
		}
		t.Logf("reverted and Ready after %s", framework.Round(f.awaitReady(t, app, "north", "south", "east")))
	})

	t.Run("reports repeated changes as one Event series", func(t *testing.T) {
		for range 3 {
			get(t, deployment)
			label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"other-manager"}}}`))
			if err := member.Client.Patch(t.Context(), deployment, label, client.FieldOwner("other-manager")); err != nil {
				t.Fatal(err)
			}
			f.Eventually(t, "the label to be reverted", func(context.Context) error {
				get(t, deployment)
				if got := deployment.Labels[v1alpha1.LabelManagedBy]; got != v1alpha1.ManagedBy {
					return fmt.Errorf("the label is %q", got)
				}
				return nil
			})
		}
		f.Eventually(t, "an Event with a series", func(ctx context.Context) error {
			events := &eventsv1.EventList{}
			if err := f.Hub.Client.List(ctx, events, client.InNamespace(app.Namespace)); err != nil {
				return err
			}
			for _, event := range events.Items {
				if event.Regarding.Name == app.Name && event.Reason == v1alpha1.ReasonDriftCorrected && event.Series != nil {
					return nil
				}
			}
			return errors.New("the AppService has no DriftCorrected Event with a series")
		})
	})

	t.Run("recreates a deleted Deployment", func(t *testing.T) {
		get(t, deployment)
		if err := member.Client.Delete(t.Context(), deployment, client.PropagationPolicy("Background")); err != nil {
			t.Fatal(err)
		}
		t.Logf("recreated and Ready after %s", framework.Round(f.awaitReady(t, app, "north", "south", "east")))
		deleted := deployment.UID
		get(t, deployment)
		if deployment.UID == deleted {
			t.Error("the Deployment has the UID of the deleted one")
		}
	})

	t.Run("recreates a deleted Service", func(t *testing.T) {
		get(t, service)
		if err := member.Client.Delete(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("reverts an edited Service", func(t *testing.T) {
		get(t, service)
		patch := client.MergeFrom(service.DeepCopy())
		service.Spec.Ports[0].Port = 81
		if err := member.Client.Patch(t.Context(), service, patch, client.FieldOwner("other-manager")); err != nil {
			t.Fatal(err)
		}
		f.awaitReady(t, app, "north", "south", "east")
	})
}
