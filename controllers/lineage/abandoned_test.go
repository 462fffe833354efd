package lineage_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const colorLabel = "color"

// setColor labels a member, so that a placement selects it.
func (f *fleet) setColor(name, color string) {
	f.Helper()
	f.patchMember(name, func(mc *v1alpha1.MemberCluster) { metav1.SetMetaDataLabel(&mc.ObjectMeta, colorLabel, color) })
}

func placeOnBlue(app *v1alpha1.AppService) {
	app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{
		ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{colorLabel: "blue"}},
	}}
}

// abandon makes the AppService abandon a lost member.
func (f *fleet) abandon(name string) {
	f.Helper()
	f.edit(func(app *v1alpha1.AppService) {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, v1alpha1.AnnotationAbandon, name)
	})
	f.waitForTombstones(name, 1)
}

// waitForTombstones waits until a member has this number of tombstones.
func (f *fleet) waitForTombstones(name string, want int) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d tombstones", want), func() error {
		mc := &v1alpha1.MemberCluster{}
		f.must(f.hub.Get(f.Context(), client.ObjectKey{Name: name}, mc))
		if len(mc.Status.Abandoned) != want {
			return fmt.Errorf("tombstones: %v", mc.Status.Abandoned)
		}
		return nil
	})
}

// newAbandonedOnWest returns a fleet whose AppService was moved away from west and abandoned there.
// The member west is lost.
func newAbandonedOnWest(t *testing.T) *fleet {
	f := newFleet(t, withImage("web:1", 2))
	f.setColor("east", "blue")
	f.setColor("west", "blue")
	f.waitForReady("east", "west")
	f.edit(placeOnBlue)
	f.waitForReady("east", "west")
	f.disconnect("west")
	f.edit(func(app *v1alpha1.AppService) { app.Spec.Placement.ClusterSelector.MatchLabels["at"] = "east" })
	f.abandon("west")
	return f
}

// The tombstone is older than the second placement of the workload on that member.
func TestRestored_tombstone_does_not_delete_a_workload_that_was_placed_again(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 2), placeOnBlue)
	f.setColor("east", "blue")
	f.setColor("west", "blue")
	f.waitForReady("east", "west")
	f.disconnect("west")
	f.setColor("west", "red")
	f.edit(func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "west"}
	})
	f.waitForTombstones("west", 1)
	f.waitForEntries(map[string]string{"east": "Ready"})
	f.edit(func(app *v1alpha1.AppService) { app.Annotations = nil })
	old := f.backup()

	// The cluster comes back and is cleaned. A label selects it again, without an edit of the
	// AppService.
	f.must(f.members["west"].Delete(t.Context(), f.deployment("west"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	f.reconnect("west")
	f.waitForTombstones("west", 0)
	f.setColor("west", "blue")
	f.waitForReady("east", "west")
	_, was := f.workload("west")

	f.restore(old)
	f.setReady("west", metav1.ConditionTrue)
	f.start()
	f.waitForEntries(map[string]string{"east": "Ready", "west": "Progressing RemovalNeedsApproval"})
	f.waitForTombstones("west", 0)
	if runs, uid := f.workload("west"); runs != "2 × web:1" || uid != was {
		t.Errorf("west runs %s", runs)
	}
}

// Any tombstone of an AppService that exists may be such an old one.
func TestTombstone_of_an_existing_AppService_leaves_the_removal_to_the_planner(t *testing.T) {
	t.Parallel()
	f := newAbandonedOnWest(t)
	f.waitForEntries(map[string]string{"east": "Ready"})
	f.reconnect("west")
	f.waitForEntries(map[string]string{"east": "Ready", "west": "Progressing RemovalNeedsApproval"})
	f.waitForWorkload("2 × web:1", "west")
	f.edit(func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptRemovals: fmt.Sprintf("1@%d", app.Generation)}
	})
	f.eventually("the workload on west to be removed", func() error {
		f.collectGarbage("west")
		if got, _ := f.workload("west"); got != "nothing" {
			return fmt.Errorf("it runs %s", got)
		}
		return nil
	})
	f.waitForEntries(map[string]string{"east": "Ready"})
}

// recreateWhileAbandoned deletes the AppService while west is lost and abandoned, and creates it
// again.
func (f *fleet) recreateWhileAbandoned(change func(*v1alpha1.AppService)) {
	f.Helper()
	f.disconnect("west")
	f.must(f.hub.Delete(f.Context(), f.app))
	f.abandon("west")
	f.eventually("the AppService to be deleted", func() error {
		f.collectGarbage("east")
		got := &v1alpha1.AppService{}
		if err := f.hub.Get(f.Context(), client.ObjectKeyFromObject(f.app), got); err == nil {
			return fmt.Errorf("%+v", got.Status.Clusters)
		}
		return nil
	})
	f.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: f.app.Name}, Spec: f.app.Spec}
	change(f.app)
	f.must(f.hub.Create(f.Context(), f.app))
	f.waitForReady("east")
}

func TestAbandoned_AppService_that_is_recreated_takes_over_its_workload(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 2))
	f.waitForReady("east", "west")
	_, was := f.workload("west")
	f.recreateWhileAbandoned(withImage("web:2", 3))
	f.engage("west") // delivery starts before the hub knows that west is Ready
	f.eventually("delivery to read from west", func() error {
		if !f.operator.sent["west"].has(http.MethodGet, "web") {
			return errors.New("there is no request")
		}
		return nil
	})
	f.setReady("west", metav1.ConditionTrue)
	f.waitForReady("east", "west")
	f.waitForTombstones("west", 0)
	if f.operator.sent["west"].has(http.MethodDelete, "web") {
		t.Error("an object was deleted")
	}
	if runs, uid := f.workload("west"); runs != "3 × web:2" || uid != was {
		t.Errorf("west runs %s, recreated: %v", runs, uid != was)
	}
}

func TestAbandoned_AppService_that_is_recreated_elsewhere_is_removed(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 2))
	f.waitForReady("east", "west")
	f.recreateWhileAbandoned(func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	})
	f.reconnect("west")
	f.eventually("the workload on west to be removed", func() error {
		f.collectGarbage("west")
		if got, _ := f.workload("west"); got != "nothing" {
			return fmt.Errorf("it runs %s", got)
		}
		return nil
	})
	f.waitForTombstones("west", 0)
	f.waitForEntries(map[string]string{"east": "Ready"})
}
