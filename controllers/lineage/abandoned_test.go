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

const blue = "color"

// paint labels a member, so that a placement selects it.
func (f *fleetOf) paint(name, color string) {
	f.Helper()
	f.member(name, func(mc *v1alpha1.MemberCluster) { metav1.SetMetaDataLabel(&mc.ObjectMeta, blue, color) })
}

func onBlue(app *v1alpha1.AppService) {
	app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{
		ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{blue: "blue"}},
	}}
}

// abandons makes the AppService abandon a lost member.
func (f *fleetOf) abandons(name string) {
	f.Helper()
	f.edit(func(app *v1alpha1.AppService) {
		metav1.SetMetaDataAnnotation(&app.ObjectMeta, v1alpha1.AnnotationAbandon, name)
	})
	f.tombstones(name, 1)
}

// tombstones waits until a member has this number of tombstones.
func (f *fleetOf) tombstones(name string, want int) {
	f.Helper()
	f.eventually(fmt.Sprintf("%d tombstones", want), func() error {
		mc := &v1alpha1.MemberCluster{}
		f.must(hub.Get(f.Context(), client.ObjectKey{Name: name}, mc))
		if len(mc.Status.Abandoned) != want {
			return fmt.Errorf("there are %v", mc.Status.Abandoned)
		}
		return nil
	})
}

// onOne returns a fleet whose AppService was moved away from west and abandoned there. The member
// west is lost.
func onOne(t *testing.T) *fleetOf {
	f := deployed(t, to("web:1", 2))
	f.paint("east", "blue")
	f.paint("west", "blue")
	f.ready("east", "west")
	f.edit(onBlue)
	f.ready("east", "west")
	f.loses("west")
	f.edit(func(app *v1alpha1.AppService) { app.Spec.Placement.ClusterSelector.MatchLabels["at"] = "east" })
	f.abandons("west")
	return f
}

// The tombstone is older than the second placement of the workload on that member.
func TestRestored_tombstone_deletes_no_workload_that_was_placed_again(t *testing.T) {
	f := deployed(t, to("web:1", 2), onBlue)
	f.paint("east", "blue")
	f.paint("west", "blue")
	f.ready("east", "west")
	f.loses("west")
	f.paint("west", "red")
	f.edit(func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAbandon: "west"}
	})
	f.tombstones("west", 1)
	f.has(map[string]string{"east": "Ready"})
	f.edit(func(app *v1alpha1.AppService) { app.Annotations = nil })
	old := f.backup()

	// The cluster comes back and is cleaned. A label selects it again, without an edit of the
	// AppService.
	f.must(members["west"].Delete(t.Context(), f.deployment("west"), client.PropagationPolicy(metav1.DeletePropagationBackground)))
	f.finds("west")
	f.tombstones("west", 0)
	f.paint("west", "blue")
	f.ready("east", "west")
	_, was := f.outline("west")

	f.restore(old)
	f.answers("west", metav1.ConditionTrue)
	f.start()
	f.has(map[string]string{"east": "Ready", "west": "Progressing RemovalNeedsApproval"})
	f.tombstones("west", 0)
	if runs, uid := f.outline("west"); runs != "2 × web:1" || uid != was {
		t.Errorf("west runs %s", runs)
	}
}

// Any tombstone of an AppService that exists may be such an old one.
func TestTombstone_of_an_AppService_that_lives_leaves_the_removal_to_the_planner(t *testing.T) {
	f := onOne(t)
	f.has(map[string]string{"east": "Ready"})
	f.finds("west")
	f.has(map[string]string{"east": "Ready", "west": "Progressing RemovalNeedsApproval"})
	f.runs("2 × web:1", "west")
	f.edit(func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptRemovals: fmt.Sprintf("1@%d", app.Generation)}
	})
	f.eventually("west to be left", func() error {
		f.collects("west")
		if got, _ := f.outline("west"); got != "nothing" {
			return fmt.Errorf("it runs %s", got)
		}
		return nil
	})
	f.has(map[string]string{"east": "Ready"})
}

// createdAgain deletes the AppService while west is lost and abandoned, and creates it again.
func (f *fleetOf) createdAgain(change func(*v1alpha1.AppService)) {
	f.Helper()
	f.loses("west")
	f.must(hub.Delete(f.Context(), f.app))
	f.abandons("west")
	f.eventually("the AppService to be gone", func() error {
		f.collects("east")
		got := &v1alpha1.AppService{}
		if err := hub.Get(f.Context(), client.ObjectKeyFromObject(f.app), got); err == nil {
			return fmt.Errorf("%+v", got.Status.Clusters)
		}
		return nil
	})
	f.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: f.app.Name}, Spec: f.app.Spec}
	change(f.app)
	f.must(hub.Create(f.Context(), f.app))
	f.ready("east")
}

func TestAbandoned_AppService_that_is_created_again_is_inherited_without_a_gap(t *testing.T) {
	f := deployed(t, to("web:1", 2))
	f.ready("east", "west")
	_, was := f.outline("west")
	f.createdAgain(to("web:2", 3))
	f.engage("west") // delivery starts before the hub knows that west is Ready
	f.eventually("west to be looked at", func() error {
		if !f.operator.sent["west"].has(http.MethodGet, "web") {
			return errors.New("it is not")
		}
		return nil
	})
	f.answers("west", metav1.ConditionTrue)
	f.ready("east", "west")
	f.tombstones("west", 0)
	if f.operator.sent["west"].has(http.MethodDelete, "web") {
		t.Error("something was deleted")
	}
	if runs, uid := f.outline("west"); runs != "3 × web:2" || uid != was {
		t.Errorf("west runs %s, made anew: %v", runs, uid != was)
	}
}

func TestAbandoned_AppService_that_is_created_again_elsewhere_is_removed(t *testing.T) {
	f := deployed(t, to("web:1", 2))
	f.ready("east", "west")
	f.createdAgain(func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	})
	f.finds("west")
	f.eventually("west to be left", func() error {
		f.collects("west")
		if got, _ := f.outline("west"); got != "nothing" {
			return fmt.Errorf("it runs %s", got)
		}
		return nil
	})
	f.tombstones("west", 0)
	f.has(map[string]string{"east": "Ready"})
}
