package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// A member's whole control plane dies, and comes back.
func TestOutage(t *testing.T) {
	f := theFleet
	app := f.declare(t, "storm")
	f.awaitReady(t, app, "north", "south", "east")
	south := f.members["south"]
	t.Cleanup(func() {
		if south.Ready(background) == nil {
			return
		}
		if err := south.Start(background); err != nil {
			t.Error(err)
		}
		f.awaitMember(t, "south")
	})

	left := f.declare(t, "left", onClusters("south"))
	f.awaitReady(t, left, "south")

	before := f.latency(t, app, "north", "east")
	stopped := time.Now()
	if err := south.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	// The first changes come while nobody knows yet that the member is dead.
	t.Run("the others take a change as fast as before, from the first moment", func(t *testing.T) {
		compareLatency(t, before, f.latency(t, app, "north", "east"))
	})

	t.Run("its row is Unknown within a minute, and the AppService is not Ready", func(t *testing.T) {
		eventuallyWithin(t, time.Minute-time.Since(stopped), "the row of south to be Unknown and the AppService not Ready", func() error {
			if phase := f.phase(app, "south"); phase != v1alpha1.ClusterUnknown {
				return fmt.Errorf("the row is %s", phase)
			}
			f.refresh(t, app)
			if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Errorf("the AppService is Ready")
			}
			return nil
		})
		t.Logf("Unknown %s after the API server stopped", round(time.Since(stopped)))
	})

	t.Run("its MemberCluster is not Ready", func(t *testing.T) {
		eventually(t, "MemberCluster south not to be Ready", func() error {
			member := &v1alpha1.MemberCluster{}
			if err := f.hub.api.Get(t.Context(), client.ObjectKey{Name: "south"}, member); err != nil {
				return err
			}
			if member.IsReady() {
				return fmt.Errorf("it is Ready")
			}
			return nil
		})
	})

	t.Run("the others take a change as fast as before, when it is known", func(t *testing.T) {
		compareLatency(t, before, f.latency(t, app, "north", "east"))
	})

	t.Run("what is deleted waits for it, until it is abandoned there", func(t *testing.T) {
		if err := f.hub.api.Delete(t.Context(), left); err != nil {
			t.Fatal(err)
		}
		stays(t, 2*time.Second, "it waits", func() error {
			return f.hub.api.Get(t.Context(), client.ObjectKeyFromObject(left), left)
		})
		patch := client.MergeFrom(left.DeepCopy())
		metav1.SetMetaDataAnnotation(&left.ObjectMeta, v1alpha1.AnnotationAbandon, "south")
		if err := f.hub.api.Patch(t.Context(), left, patch); err != nil {
			t.Fatal(err)
		}
		eventually(t, "AppService left to be gone", func() error { return f.absent(f.hub, left) })
	})

	t.Run("it comes back, and takes on what was changed while it was away", func(t *testing.T) {
		f.edit(t, app, image("away:1"), replicas(3))
		if err := south.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The operator tries a member that is away every two minutes at the latest.
		took := f.awaitReadyWithin(t, 3*time.Minute, app, "north", "south", "east")
		t.Logf("3/3 Ready %s after its API server was back", round(took))
	})

	t.Run("and what was abandoned there is removed", func(t *testing.T) {
		eventually(t, "south to have nothing of it", func() error { return f.gone(south, left) })
	})
}

// latency is how long a change takes from the hub to the last of these members: the median of five.
func (f *fleet) latency(t *testing.T, app *v1alpha1.AppService, members ...string) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 5 {
		f.edit(t, app, onlyEnv("CHANGED", time.Now().String()))
		took = append(took, eventually(t, fmt.Sprintf("%v to have a change", members), func() error {
			for _, name := range members {
				if err := has(f.members[name], app); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// compareLatency allows for a machine that was busy for a moment, and for no time-out of a dead member.
func compareLatency(t *testing.T, before, during time.Duration) {
	t.Helper()
	t.Logf("a change reached the healthy members in %s before the outage, in %s during it", round(before), round(during))
	if during > 2*before+time.Second {
		t.Errorf("during the outage a change takes %s, before it took %s", round(during), round(before))
	}
}

// awaitMember waits until a member is Ready.
func (f *fleet) awaitMember(t *testing.T, name string) {
	t.Helper()
	eventuallyWithin(t, 3*time.Minute, "MemberCluster "+name+" to be Ready", func() error {
		member := &v1alpha1.MemberCluster{}
		if err := f.hub.api.Get(background, client.ObjectKey{Name: name}, member); err != nil {
			return err
		}
		if !member.IsReady() {
			return fmt.Errorf("its conditions are %+v", member.Status.Conditions)
		}
		return nil
	})
}
