package lineage_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const behind = "Failed HubBehind"

// to is an edit.
func to(image string, replicas int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Replicas = image, &replicas }
}

// accept annotates the AppService with what its Ready condition prints.
func (f *fleetOf) accept() {
	f.Helper()
	f.read()
	for _, c := range f.app.Status.Conditions {
		_, value, found := strings.Cut(c.Message, "annotation "+v1alpha1.AnnotationAcceptHub+"=")
		if c.Type == v1alpha1.ConditionReady && found {
			f.edit(func(app *v1alpha1.AppService) {
				metav1.SetMetaDataAnnotation(&app.ObjectMeta, v1alpha1.AnnotationAcceptHub, value)
			})
			return
		}
	}
	f.Fatalf("no condition says how to accept it: %+v", f.app.Status.Conditions)
}

// settled waits until the operator has planned the present generation.
func (f *fleetOf) settled() {
	f.Helper()
	f.eventually("the generation to be planned", func() error {
		if f.read(); f.app.Status.ObservedGeneration != f.app.Generation {
			return fmt.Errorf("generation %d is", f.app.Status.ObservedGeneration)
		}
		return nil
	})
}

func TestRestored_hub_that_is_edited_stays_behind_until_that_is_accepted(t *testing.T) {
	tests := map[string]struct {
		before bool // the edit comes before the operator starts
		edits  int
	}{
		"an edit once it is reported":             {edits: 1},
		"edits beyond what was lost":              {edits: 3},
		"an edit before the operator starts":      {before: true, edits: 1},
		"several edits before the operator start": {before: true, edits: 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := deployed(t, to("web:1", 3))
			f.ready("east", "west")
			old := f.backup()
			f.edit(to("web:2", 8))
			f.ready("east", "west")
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
			f.has(map[string]string{"east": behind, "west": behind})
			if !test.before {
				edit()
				f.settled()
				f.has(map[string]string{"east": behind, "west": behind})
			}
			f.runs("8 × web:2", "east", "west")

			f.accept()
			f.runs(fmt.Sprintf("%d × web:1", 4+test.edits), "east", "west")
			f.ready("east", "west")
			f.edit(func(app *v1alpha1.AppService) { app.Annotations = nil })
			f.edit(to("web:3", 2))
			f.ready("east", "west")
			f.runs("2 × web:3", "east", "west")
		})
	}
}

// What was accepted once does not accept what the next restore loses.
func TestRestored_hub_is_behind_again_after_the_next_restore(t *testing.T) {
	f := deployed(t, to("web:1", 3))
	f.ready("east", "west")
	first := f.backup()
	f.edit(to("web:2", 8))
	f.ready("east", "west")
	f.restore(first)
	f.start()
	f.has(map[string]string{"east": behind, "west": behind})
	f.accept()
	f.runs("3 × web:1", "east", "west")
	f.ready("east", "west")
	second := f.backup() // with the annotation
	f.edit(to("web:4", 4))
	f.ready("east", "west")
	f.restore(second)
	f.start()
	f.has(map[string]string{"east": behind, "west": behind})
	f.runs("4 × web:4", "east", "west")
}

func TestRestored_hub_overwrites_no_AppService_that_was_created_again(t *testing.T) {
	f := deployed(t, to("web:1", 2))
	f.ready("east", "west")
	old := f.backup()
	f.recreate(to("web:2", 9))
	f.ready("east", "west")
	f.restore(old)
	f.start()
	f.has(map[string]string{"east": behind, "west": behind})
	f.edit(to("web:1", 3))
	f.settled()
	f.has(map[string]string{"east": behind, "west": behind})
	f.runs("9 × web:2", "east", "west")
	f.accept()
	f.ready("east", "west")
	f.runs("3 × web:1", "east", "west")
}

// recreate deletes the AppService, leaves the workloads to the next one of its name, and creates it again. Creation times have whole seconds.
func (f *fleetOf) recreate(change func(*v1alpha1.AppService)) {
	f.Helper()
	f.operator.stop()
	f.read()
	was := f.app
	was.Finalizers = nil
	f.must(hub.Update(f.Context(), was))
	f.must(hub.Delete(f.Context(), was))
	f.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: was.Namespace, Name: was.Name}, Spec: was.Spec}
	change(f.app)
	f.eventually("another second", func() error {
		created := f.app.DeepCopy()
		if err := hub.Create(f.Context(), created); err != nil {
			return err
		}
		if created.CreationTimestamp.After(was.CreationTimestamp.Time) {
			return nil
		}
		f.must(hub.Delete(f.Context(), created))
		return fmt.Errorf("it is still %s", created.CreationTimestamp)
	})
	f.start()
}

// A hub that was rebuilt from Git has new UIDs.
func TestRebuilt_hub_takes_over_what_runs(t *testing.T) {
	f := deployed(t, to("web:1", 2))
	f.ready("east", "west")
	f.recreate(to("web:1", 4))
	f.ready("east", "west")
	f.runs("4 × web:1", "east", "west")
}

// One cluster knows that the hub is behind; the other one has not seen the edit that was lost.
func TestRestored_hub_that_is_behind_one_cluster_changes_no_other(t *testing.T) {
	f := deployed(t, to("web:1", 3))
	f.ready("east", "west")
	old := f.backup()
	f.loses("west")
	f.edit(to("web:2", 8))
	f.runs("8 × web:2", "east")
	f.restore(old) // and west is back
	f.operatorKnowsOf(t, "east")
	f.edit(to("web:old", 5))
	f.settled()
	f.finds("west")
	f.has(map[string]string{"east": behind, "west": behind})
	for _, row := range f.app.Status.Clusters {
		if !strings.Contains(row.Message, v1alpha1.AnnotationAcceptHub+"=") || row.Name == "west" && !strings.Contains(row.Message, "east") {
			t.Errorf("%s says: %s", row.Name, row.Message)
		}
	}
	f.runs("3 × web:1", "west")
	f.runs("8 × web:2", "east")
	t.Run("nor takes it away", func(t *testing.T) {
		f.must(hub.Delete(t.Context(), f.app))
		f.has(map[string]string{"east": "Removing HubBehind", "west": "Removing HubBehind"})
		f.runs("3 × web:1", "west")
		f.runs("8 × web:2", "east")
	})
	f.accept()
	f.eventually("the AppService to be gone", func() error {
		for _, name := range []string{"east", "west"} {
			f.collects(name)
			if got, _ := f.outline(name); got != "nothing" {
				return fmt.Errorf("%s runs %s", name, got)
			}
		}
		return nil
	})
}

// operatorKnowsOf starts an operator while only one member answers, and waits until it knows that the hub is behind that.
func (f *fleetOf) operatorKnowsOf(t *testing.T, name string) {
	t.Helper()
	for other := range members {
		if other != name {
			f.answers(other, metav1.ConditionFalse)
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

// losesStatus ends the operator, and takes the status from the AppService: as a restore without the status subresource does, or a CRD of an older version.
func (f *fleetOf) losesStatus(change func(*v1alpha1.AppServiceStatus)) {
	f.Helper()
	f.operator.stop()
	f.read()
	change(&f.app.Status)
	f.must(hub.Status().Update(f.Context(), f.app))
}

func all(status *v1alpha1.AppServiceStatus) {
	*status = v1alpha1.AppServiceStatus{ObservedGeneration: -1}
}

func onlyHistory(status *v1alpha1.AppServiceStatus) { status.PlannedSpecs = nil }

// A deletion raises the generation, so no history has the generation that the members have.
func TestStatus_that_is_lost_does_not_stop_a_deletion(t *testing.T) {
	for name, lost := range map[string]func(*v1alpha1.AppServiceStatus){"all of it": all, "its history": onlyHistory} {
		t.Run(name, func(t *testing.T) {
			f := deployed(t, to("web:1", 2))
			f.ready("east", "west")
			f.losesStatus(lost)
			f.must(hub.Delete(t.Context(), f.app))
			f.start()
			f.eventually("the AppService to be gone", func() error {
				f.collects("east")
				f.collects("west")
				got := &v1alpha1.AppService{}
				if err := hub.Get(t.Context(), client.ObjectKeyFromObject(f.app), got); err == nil {
					return fmt.Errorf("%+v", got.Status.Clusters)
				}
				return nil
			})
			for _, name := range []string{"east", "west"} {
				if got, _ := f.outline(name); got != "nothing" {
					t.Errorf("%s runs %s", name, got)
				}
			}
		})
	}
}

// An edit of the placement alone changes no object, so the members keep the stamp of the generation before it.
func TestStatus_that_is_lost_after_an_edit_of_the_placement_makes_no_hub_behind(t *testing.T) {
	for name, lost := range map[string]func(*v1alpha1.AppServiceStatus){"all of it": all, "its history": onlyHistory} {
		t.Run(name, func(t *testing.T) {
			f := deployed(t, to("web:1", 2))
			f.ready("east", "west")
			f.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = &v1alpha1.Placement{Limit: new(int32(2))} })
			f.ready("east", "west")
			f.losesStatus(lost)
			f.start()
			f.ready("east", "west")
			f.edit(to("web:2", 3))
			f.runs("3 × web:2", "east", "west")
			f.ready("east", "west")
		})
	}
}
