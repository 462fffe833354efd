package e2e

import (
	"errors"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Somebody works on a member behind the hub's back.
func TestDrift(t *testing.T) {
	f := theFleet
	app := f.declare(t, "drift")
	f.awaitReady(t, app, "north", "south", "east")
	member := f.members["south"]
	deployment, service := &appsv1.Deployment{}, &corev1.Service{}
	get := func(t *testing.T, object client.Object) {
		t.Helper()
		if err := member.api.Get(t.Context(), client.ObjectKeyFromObject(app), object); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("an edited Deployment is put back", func(t *testing.T) {
		get(t, deployment)
		patch := client.MergeFrom(deployment.DeepCopy())
		deployment.Spec.Template.Spec.Containers[0].Image = "mine:1"
		deployment.Spec.Replicas = new(int32(7))
		if err := member.api.Patch(t.Context(), deployment, patch, client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
		if has(member, app) == nil {
			t.Log("put back before it was looked at")
		}
		t.Logf("put back and Ready after %s", round(f.awaitReady(t, app, "north", "south", "east")))
	})

	t.Run("what is done again and again is one Event", func(t *testing.T) {
		for range 3 {
			get(t, deployment)
			label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"somebody"}}}`))
			if err := member.api.Patch(t.Context(), deployment, label, client.FieldOwner("somebody")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the label to be put back", func() error {
				get(t, deployment)
				if is := deployment.Labels[v1alpha1.LabelManagedBy]; is != v1alpha1.ManagedBy {
					return fmt.Errorf("it is %q", is)
				}
				return nil
			})
		}
		eventually(t, "an Event of a series", func() error {
			events := &eventsv1.EventList{}
			if err := f.hub.api.List(t.Context(), events, client.InNamespace(app.Namespace)); err != nil {
				return err
			}
			for _, event := range events.Items {
				if event.Regarding.Name == app.Name && event.Reason == v1alpha1.ReasonDriftCorrected && event.Series != nil {
					return nil
				}
			}
			return errors.New("there is none")
		})
	})

	t.Run("a deleted Deployment is made again", func(t *testing.T) {
		get(t, deployment)
		if err := member.api.Delete(t.Context(), deployment, client.PropagationPolicy("Background")); err != nil {
			t.Fatal(err)
		}
		t.Logf("made again and Ready after %s", round(f.awaitReady(t, app, "north", "south", "east")))
		deleted := deployment.UID
		get(t, deployment)
		if deployment.UID == deleted {
			t.Error("the Deployment is the one that was deleted")
		}
	})

	t.Run("a deleted Service is made again", func(t *testing.T) {
		get(t, service)
		if err := member.api.Delete(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("an edited Service is put back", func(t *testing.T) {
		get(t, service)
		patch := client.MergeFrom(service.DeepCopy())
		service.Spec.Ports[0].Port = 81
		if err := member.api.Patch(t.Context(), service, patch, client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
		f.awaitReady(t, app, "north", "south", "east")
	})
}
