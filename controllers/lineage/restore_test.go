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

// to returns an edit that sets the image and the replicas.
func to(image string, replicas int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Replicas = image, &replicas }
}

// accept sets the annotation that the Ready condition of the AppService prints.
func (f *fleetOf) accept() {
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
		before bool // the edit is made before the operator starts
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

// The accepted value of one restore does not accept the edits that the next restore loses.
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
	second := f.backup() // includes the annotation
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

// recreate deletes the AppService and creates it again. The workloads stay for the new AppService
// of the same name. It waits for another second, because creation times have whole seconds.
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

// One cluster shows that the hub is behind. The other cluster did not receive the edit that was
// lost.
func TestRestored_hub_that_is_behind_one_cluster_changes_no_other(t *testing.T) {
	f := deployed(t, to("web:1", 3))
	f.ready("east", "west")
	old := f.backup()
	f.loses("west")
	f.edit(to("web:2", 8))
	f.runs("8 × web:2", "east")
	f.restore(old) // this also makes west Ready again
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

// operatorKnowsOf starts an operator while only one member is Ready, and waits until the operator
// detects that the hub is behind this member.
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

// losesStatus stops the operator and removes data from the status of the AppService, as a restore
// without the status subresource or a CRD of an older version does.
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

// A deletion raises the generation, so no history has the generation of the objects on the members.
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

// An edit that changes only the placement changes no object, so the objects on the members keep the
// stamp of the previous generation.
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
