package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestOutage tests that a member's control plane fails and comes back.
func TestOutage(t *testing.T) {
	f := testFleet(t, onKind)
	app := f.createApp(t, "outage")
	f.awaitReady(t, app, "north", "south", "east")
	south := f.Members["south"]
	t.Cleanup(func() { f.startCluster(t, "south") })

	abandoned := f.createApp(t, "abandoned", framework.OnClusters("south"))
	f.awaitReady(t, abandoned, "south")

	before := f.latency(t, app, "north", "east")
	stopped := time.Now()
	if err := south.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The first changes come before the operator has detected the outage.
	t.Run("does not delay other members before it is detected", func(t *testing.T) {
		t.Logf("an edit took %s to the healthy members before the outage, %s at its beginning", framework.Round(before), framework.Round(f.latency(t, app, "north", "east")))
	})

	t.Run("makes the entry Unknown, and the AppService not Ready", func(t *testing.T) {
		f.Eventually(t, "the entry of south to be Unknown and the AppService not Ready", func(ctx context.Context) error {
			if err := f.checkPhase(ctx, app, "south", v1alpha1.ClusterUnknown); err != nil {
				return err
			}
			f.RefreshApp(t, app)
			if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) {
				return errors.New("the AppService is Ready")
			}
			return nil
		})
		t.Logf("Unknown %s after the API server stopped", framework.Round(time.Since(stopped)))
	})

	t.Run("makes the MemberCluster not Ready", func(t *testing.T) {
		f.Eventually(t, "MemberCluster south not to be Ready", func(ctx context.Context) error {
			member := &v1alpha1.MemberCluster{}
			if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: "south"}, member); err != nil {
				return err
			}
			if member.IsReady() {
				return errors.New("it is Ready")
			}
			return nil
		})
	})

	t.Run("does not delay other members after it is detected", func(t *testing.T) {
		t.Logf("an edit took %s to the healthy members before the outage, %s during it", framework.Round(before), framework.Round(f.latency(t, app, "north", "east")))
	})

	t.Run("blocks a deletion until the cluster is abandoned", func(t *testing.T) {
		if err := f.Hub.Client.Delete(t.Context(), abandoned); err != nil {
			t.Fatal(err)
		}
		framework.Consistently(t, 2*time.Second, "the AppService waits for south", func(ctx context.Context) error {
			return f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(abandoned), abandoned)
		})
		f.Eventually(t, "the condition Ready to end with the command that abandons south", func(ctx context.Context) error {
			command := "kubectl annotate appservice abandoned -n " + abandoned.Namespace + " fleetwright.dev/abandon=south"
			if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(abandoned), abandoned); err != nil {
				return err
			}
			if ready := meta.FindStatusCondition(abandoned.Status.Conditions, v1alpha1.ConditionReady); ready == nil || !strings.HasSuffix(ready.Message, command) {
				return fmt.Errorf("it is %v", ready)
			}
			return nil
		})
		patch := client.MergeFrom(abandoned.DeepCopy())
		metav1.SetMetaDataAnnotation(&abandoned.ObjectMeta, v1alpha1.AnnotationAbandon, "south")
		if err := f.Hub.Client.Patch(t.Context(), abandoned, patch); err != nil {
			t.Fatal(err)
		}
		f.Eventually(t, "AppService abandoned to be gone", func(ctx context.Context) error { return f.Hub.CheckAbsent(ctx, abandoned) })
	})

	t.Run("delivers the edits of the outage when the cluster is back", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("away:1"), framework.Replicas(3))
		if err := south.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		took := f.awaitReady(t, app, "north", "south", "east")
		t.Logf("3/3 Ready %s after its API server was back", framework.Round(took))
	})

	t.Run("removes the abandoned objects when the cluster is back", func(t *testing.T) {
		f.Eventually(t, "south to have no object of the abandoned AppService", func(ctx context.Context) error { return checkRemoved(ctx, south, abandoned) })
	})
}

// latency returns how long an edit takes to the last of these members: the median of five. An edit
// that waited for a member that is stopped would never arrive.
func (f *fleet) latency(t *testing.T, app *v1alpha1.AppService, members ...string) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 5 {
		f.EditApp(t, app, framework.Env("CHANGED", time.Now().String()))
		took = append(took, f.Eventually(t, fmt.Sprintf("%v to have an edit", members), func(ctx context.Context) error {
			for _, name := range members {
				if err := checkObjects(ctx, f.Members[name], app); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	slices.Sort(took)
	return took[len(took)/2]
}
