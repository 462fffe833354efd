package lineage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const failedHubBehind = "Failed HubBehind"

// withImage returns an edit that sets the image and the replicas.
func withImage(image string, replicas int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Replicas = image, &replicas }
}

// acceptHub sets the annotation that the Ready condition of the AppService prints.
func (f *fleet) acceptHub() {
	f.Helper()
	f.read()
	for _, c := range f.app.Status.Conditions {
		_, value, found := strings.Cut(c.Message, "annotate it with "+v1alpha1.AnnotationAcceptHub+"=")
		if c.Type == v1alpha1.ConditionReady && found {
			f.edit(func(app *v1alpha1.AppService) {
				metav1.SetMetaDataAnnotation(&app.ObjectMeta, v1alpha1.AnnotationAcceptHub, value)
			})
			return
		}
	}
	f.Fatalf("no condition explains how to accept the hub: %+v", f.app.Status.Conditions)
}

// waitForPlan waits until the operator has planned the current generation.
func (f *fleet) waitForPlan() {
	f.Helper()
	f.eventually("the generation to be planned", func() error {
		if f.read(); f.app.Status.ObservedGeneration != f.app.Generation {
			return fmt.Errorf("generation %d is planned", f.app.Status.ObservedGeneration)
		}
		return nil
	})
}

func TestRestored_hub_stays_behind_after_edits_until_it_is_accepted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before bool // the edit is made before the operator starts
		edits  int
	}{
		"one edit after HubBehind is reported":     {edits: 1},
		"more edits than were lost":                {edits: 3},
		"one edit before the operator starts":      {before: true, edits: 1},
		"several edits before the operator starts": {before: true, edits: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, withImage("web:1", 3))
			f.waitForReady("east", "west")
			old := f.backup()
			f.edit(withImage("web:2", 8))
			f.waitForReady("east", "west")
			f.restore(old)
			edit := func() {
				for i := range test.edits {
					f.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5 + i)) })
				}
			}
			if test.before {
				edit()
			}
			f.start()
			f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
			if !test.before {
				edit()
				f.waitForPlan()
				f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
			}
			f.waitForWorkload("8 × web:2", "east", "west")

			f.acceptHub()
			f.waitForWorkload(fmt.Sprintf("%d × web:1", 4+test.edits), "east", "west")
			f.waitForReady("east", "west")
			f.edit(func(app *v1alpha1.AppService) { app.Annotations = nil })
			f.edit(withImage("web:3", 2))
			f.waitForReady("east", "west")
			f.waitForWorkload("2 × web:3", "east", "west")
		})
	}
}

// The accepted value of one restore does not accept the edits that the next restore drops.
func TestRestored_hub_is_behind_again_after_the_next_restore(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 3))
	f.waitForReady("east", "west")
	first := f.backup()
	f.edit(withImage("web:2", 8))
	f.waitForReady("east", "west")
	f.restore(first)
	f.start()
	f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
	f.acceptHub()
	f.waitForWorkload("3 × web:1", "east", "west")
	f.waitForReady("east", "west")
	second := f.backup() // includes the annotation
	f.edit(withImage("web:4", 4))
	f.waitForReady("east", "west")
	f.restore(second)
	f.start()
	f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
	f.waitForWorkload("4 × web:4", "east", "west")
}

func TestRestored_hub_does_not_overwrite_a_recreated_AppService(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 2))
	f.waitForReady("east", "west")
	old := f.backup()
	f.recreate(withImage("web:2", 9))
	f.waitForReady("east", "west")
	f.restore(old)
	f.start()
	f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
	f.edit(withImage("web:1", 3))
	f.waitForPlan()
	f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
	f.waitForWorkload("9 × web:2", "east", "west")
	f.acceptHub()
	f.waitForReady("east", "west")
	f.waitForWorkload("3 × web:1", "east", "west")
}

// recreate deletes the AppService and creates it again. The workloads stay for the new AppService
// of the same name. It waits for another second, because creation times have whole seconds.
func (f *fleet) recreate(change func(*v1alpha1.AppService)) {
	f.Helper()
	f.operator.stop()
	f.read()
	was := f.app
	was.Finalizers = nil
	f.must(f.hub.Update(f.Context(), was))
	f.must(f.hub.Delete(f.Context(), was))
	f.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: was.Namespace, Name: was.Name}, Spec: was.Spec}
	change(f.app)
	f.eventually("another second", func() error {
		created := f.app.DeepCopy()
		if err := f.hub.Create(f.Context(), created); err != nil {
			return err
		}
		if created.CreationTimestamp.After(was.CreationTimestamp.Time) {
			return nil
		}
		f.must(f.hub.Delete(f.Context(), created))
		return fmt.Errorf("the creation time is still %s", created.CreationTimestamp)
	})
	f.start()
}

// A hub that was rebuilt from Git has new UIDs.
func TestRebuilt_hub_takes_over_workloads(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 2))
	f.waitForReady("east", "west")
	f.recreate(withImage("web:1", 4))
	f.waitForReady("east", "west")
	f.waitForWorkload("4 × web:1", "east", "west")
}

// One cluster shows that the hub is behind. The other cluster did not receive the edit that was
// lost.
func TestRestored_hub_that_is_behind_one_cluster_changes_no_other(t *testing.T) {
	t.Parallel()
	f := newFleet(t, withImage("web:1", 3))
	f.waitForReady("east", "west")
	old := f.backup()
	f.disconnect("west")
	f.edit(withImage("web:2", 8))
	f.waitForWorkload("8 × web:2", "east")
	f.restore(old) // this also makes west Ready again
	f.startWithOnly(t, "east")
	f.edit(withImage("web:old", 5))
	f.waitForPlan()
	f.reconnect("west")
	f.waitForEntries(map[string]string{"east": failedHubBehind, "west": failedHubBehind})
	for _, entry := range f.app.Status.Clusters {
		if !strings.Contains(entry.Message, v1alpha1.AnnotationAcceptHub+"=") || entry.Name == "west" && !strings.Contains(entry.Message, "east") {
			t.Errorf("%s has the message: %s", entry.Name, entry.Message)
		}
	}
	f.waitForWorkload("3 × web:1", "west")
	f.waitForWorkload("8 × web:2", "east")
	t.Run("a deletion removes nothing", func(t *testing.T) {
		f.must(f.hub.Delete(t.Context(), f.app))
		f.waitForEntries(map[string]string{"east": "Removing HubBehind", "west": "Removing HubBehind"})
		f.waitForWorkload("3 × web:1", "west")
		f.waitForWorkload("8 × web:2", "east")
	})
	f.acceptHub()
	f.eventually("the AppService to be gone", func() error {
		for _, name := range []string{"east", "west"} {
			f.collectGarbage(name)
			if got, _ := f.workload(name); got != "nothing" {
				return fmt.Errorf("%s runs %s", name, got)
			}
		}
		return nil
	})
}

// startWithOnly starts an operator while only one member is Ready, and waits until the operator
// detects that the hub is behind this member.
func (f *fleet) startWithOnly(t *testing.T, name string) {
	t.Helper()
	for other := range f.members {
		if other != name {
			f.setReady(other, metav1.ConditionFalse)
		}
	}
	f.start()
	f.eventually("the hub to be behind "+name, func() error {
		if f.read(); f.app.Status.Cluster(name).HubBehind == nil {
			return fmt.Errorf("%+v", f.app.Status.Clusters)
		}
		return nil
	})
}

// clearStatus stops the operator and removes data from the status of the AppService, as a restore
// without the status subresource or a CRD of an older version does.
func (f *fleet) clearStatus(change func(*v1alpha1.AppServiceStatus)) {
	f.Helper()
	f.operator.stop()
	f.read()
	change(&f.app.Status)
	f.must(f.hub.Status().Update(f.Context(), f.app))
}

func wholeStatus(status *v1alpha1.AppServiceStatus) {
	*status = v1alpha1.AppServiceStatus{ObservedGeneration: -1}
}

func onlyHistory(status *v1alpha1.AppServiceStatus) { status.PlannedSpecs = nil }

// A deletion raises the generation, so no history has the generation of the objects on the members.
func TestLost_status_does_not_stop_a_deletion(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(*v1alpha1.AppServiceStatus){"the whole status": wholeStatus, "the history": onlyHistory} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, withImage("web:1", 2))
			f.waitForReady("east", "west")
			f.clearStatus(lost)
			f.must(f.hub.Delete(t.Context(), f.app))
			f.start()
			f.eventually("the AppService to be gone", func() error {
				f.collectGarbage("east")
				f.collectGarbage("west")
				got := &v1alpha1.AppService{}
				if err := f.hub.Get(t.Context(), client.ObjectKeyFromObject(f.app), got); err == nil {
					return fmt.Errorf("%+v", got.Status.Clusters)
				}
				return nil
			})
			for _, name := range []string{"east", "west"} {
				if got, _ := f.workload(name); got != "nothing" {
					t.Errorf("%s runs %s", name, got)
				}
			}
		})
	}
}

// An edit that changes only the placement changes no object, so the objects on the members keep the
// stamp of the previous generation.
func TestLost_status_after_an_edit_of_the_placement_is_not_HubBehind(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(*v1alpha1.AppServiceStatus){"the whole status": wholeStatus, "the history": onlyHistory} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, withImage("web:1", 2))
			f.waitForReady("east", "west")
			f.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = &v1alpha1.Placement{Limit: new(int32(2))} })
			f.waitForReady("east", "west")
			f.clearStatus(lost)
			f.start()
			f.waitForReady("east", "west")
			f.edit(withImage("web:2", 3))
			f.waitForWorkload("3 × web:2", "east", "west")
			f.waitForReady("east", "west")
		})
	}
}

// withoutPlacement removes the number of the placement from the workload of a member, as if an older
// version had created it.
func (f *fleet) withoutPlacement(name string) {
	f.Helper()
	deployment := f.deployment(name)
	delete(deployment.Annotations, v1alpha1.AnnotationPlacement)
	f.must(f.members[name].Update(f.Context(), deployment))
}

// The removal is older than the second placement of the workload on that member. No edit separates
// them, so the specs and the generations are the same.
func TestRestored_removal_does_not_delete_a_workload_that_was_placed_again(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		isWithdrawn bool
		change      func(*fleet)
	}{
		"after it was removed":                      {},
		"after its removal was withdrawn":           {isWithdrawn: true},
		"by an older version, after it was removed": {change: func(f *fleet) { f.withoutPlacement("west") }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, withImage("web:1", 2), placeOnBlue)
			f.setColor("east", "blue")
			f.setColor("west", "blue")
			f.waitForReady("east", "west")
			f.disconnect("west")
			f.setColor("west", "red")
			f.waitForEntries(map[string]string{"east": "Ready", "west": "Removing ClusterUnreachable"})
			old := f.backup()

			if test.isWithdrawn {
				f.setColor("west", "blue")
				f.waitForEntries(map[string]string{"east": "Ready", "west": "Unknown ClusterUnreachable"})
				f.reconnect("west")
			} else {
				f.waitForNextSecond(f.app.Status.Cluster("west").LastTransitionTime)
				f.reconnect("west")
				f.waitForRemoval("west")
				f.setColor("west", "blue")
			}
			f.waitForReady("east", "west")
			if test.change != nil {
				test.change(f)
			}
			_, was := f.workload("west")

			f.restore(old)
			f.setReady("west", metav1.ConditionTrue)
			f.start()
			f.waitForEntries(map[string]string{"east": "Ready", "west": "Removing HubBehind"})
			if runs, uid := f.workload("west"); runs != "2 × web:1" || uid != was {
				t.Errorf("west runs %s", runs)
			}
			f.acceptHub()
			f.waitForRemoval("west")
			f.waitForEntries(map[string]string{"east": "Ready"})
		})
	}
}

// waitForNextSecond waits until a second after a time, because times of objects have whole seconds.
func (f *fleet) waitForNextSecond(after metav1.Time) {
	f.Helper()
	f.eventually("another second", func() error {
		if now := time.Now().Truncate(time.Second); !now.After(after.Time) {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
}

// waitForRemoval waits until a member runs nothing.
func (f *fleet) waitForRemoval(name string) {
	f.Helper()
	f.eventually("the workload on "+name+" to be removed", func() error {
		f.collectGarbage(name)
		if got, _ := f.workload(name); got != "nothing" {
			return fmt.Errorf("it runs %s", got)
		}
		return nil
	})
}
