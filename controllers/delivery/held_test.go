package delivery

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
)

// storeRevision stores the present template as the revision of the spec, as the planner does.
func (s *setup) storeRevision() *appsv1.ControllerRevision {
	s.Helper()
	object, err := revision.New(s.app, s.revision, nil, nil)
	s.must(err)
	s.must(onHub.Create(s.Context(), object))
	return object
}

// editTemplate edits the AppService, whose template becomes the next revision.
func (s *setup) editTemplate(change func(*v1alpha1.AppService)) {
	s.Helper()
	s.edit(change)
	s.revision++
}

// withRevision sets the revision that the member is to run.
func withRevision(number int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Revision = number }
}

// withShare sets the replicas that the member is to run.
func withShare(replicas int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Replicas = replicas }
}

// A cluster that keeps an older revision is scaled and corrected, and gets nothing of the new
// template.
func TestCluster_that_keeps_a_revision_is_scaled_and_corrected(t *testing.T) {
	t.Parallel()
	for name, inSlices := range map[string]bool{"entries in the status": false, "entries in slices": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t)
			s.inSlices = inSlices
			s.start()
			s.plan()
			s.expectReport(s.ready())
			s.storeRevision()
			s.editTemplate(func(app *v1alpha1.AppService) {
				app.Spec.Image, app.Spec.Env, app.Spec.Ports = "web:2", []corev1.EnvVar{{Name: "B", Value: "2"}}, nil
				app.Spec.Replicas = new(int32(3))
			})
			s.plan(withRevision(1))
			s.expectWorkload("3 × web:1 A=1; ClusterIP 80→8080/TCP")
			s.expectReadyWith(3)
			if got := s.deployment().Annotations[v1alpha1.AnnotationRevision]; got != "1" {
				t.Errorf("the Deployment has revision %s", got)
			}

			s.changeImageByOther("bad:1")
			s.expectEvents(v1alpha1.ReasonDriftCorrected, `editor changed spec.template.spec.containers[name="app"].image of Deployment web; the change was reverted`)
			s.expectWorkload("3 × web:1 A=1; ClusterIP 80→8080/TCP")
			s.restart()
			s.plan(withRevision(1), withShare(2))
			s.expectWorkload("2 × web:1 A=1; ClusterIP 80→8080/TCP")
			s.expectReadyWith(2)

			s.plan()
			s.expectWorkload("3 × web:2 B=2; no Service")
			s.expectReadyWith(3)
			if got := s.deployment().Annotations[v1alpha1.AnnotationRevision]; got != "2" {
				t.Errorf("the Deployment has revision %s", got)
			}
		})
	}
}

// A cluster does not run the new template of the spec before its slice says so: the cache of the
// hub may have the new spec before the status that goes with it.
func TestSpec_is_not_delivered_by_a_status_of_an_older_generation(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.storeRevision()
	s.editTemplate(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan(withRevision(1))
	s.app.Status.ObservedGeneration, s.app.Status.Rollout.Revision = 1, 1
	s.must(onHub.Status().Update(t.Context(), s.app))
	if _, _, err := s.reconcileOnce(); err != nil {
		t.Fatal(err)
	}
	s.expectWorkload("1 × web:1 A=1; ClusterIP 80→8080/TCP")
}

// A template can patch an autoscaler that the spec no longer has.
func TestAutoscaling_is_removed_from_a_cluster_that_keeps_a_revision(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler, func(app *v1alpha1.AppService) {
		app.Spec.Overrides = []v1alpha1.Override{{Name: "all", Patches: []v1alpha1.Patch{{
			Target: v1alpha1.PatchHorizontalPodAutoscaler,
			Operations: []v1alpha1.PatchOperation{{
				Op: "add", Path: "/metadata/annotations/patched", Value: &v1alpha1.JSON{Raw: []byte(`"yes"`)},
			}},
		}}}}
	})
	s.plan(withBounds(2, 5))
	s.expectOptional("HorizontalPodAutoscaler 2-5")
	s.storeRevision()
	s.editTemplate(func(app *v1alpha1.AppService) {
		app.Spec.Autoscaling, app.Spec.Overrides, app.Spec.Image = nil, nil, "web:2"
	})
	s.plan(withRevision(1), withShare(4))
	s.expectOptional()
	s.expectWorkload("4 × web:1 A=1; ClusterIP 80→8080/TCP")
	s.expectReadyWith(4)
}

// Without the template, the cluster keeps what it runs, and its entry says so.
func TestMissing_revision_changes_nothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(*setup, *appsv1.ControllerRevision)
		want   string
	}{
		"deleted": {
			damage: func(s *setup, object *appsv1.ControllerRevision) { s.must(onHub.Delete(s.Context(), object)) },
			want:   "there is no ControllerRevision web-1",
		},
		"of another owner": {
			damage: func(s *setup, object *appsv1.ControllerRevision) {
				object.OwnerReferences[0].UID = "uid-of-another"
				s.must(onHub.Update(s.Context(), object))
			},
			want: "ControllerRevision web-1 is not controlled by AppService web with UID %s",
		},
		"of nonsense": {
			damage: func(s *setup, object *appsv1.ControllerRevision) {
				s.must(onHub.Delete(s.Context(), object))
				object.ResourceVersion, object.UID = "", ""
				object.Data = runtime.RawExtension{Raw: json.RawMessage(`{"spec":{"image":["nonsense"]}}`)}
				s.must(onHub.Create(s.Context(), object))
			},
			want: "decode ControllerRevision web-1: json: cannot unmarshal array into Go struct field AppServiceSpec.spec.image of type string",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			c.damage(s, s.storeRevision())
			s.editTemplate(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Replicas = "web:2", new(int32(3)) })
			s.plan(withRevision(1))
			message := c.want
			if name == "of another owner" {
				message = fmt.Sprintf(c.want, s.app.UID)
			}
			s.expectReport(s.failed(v1alpha1.ReasonRevisionMissing, "the cluster keeps what it runs: the revision is missing: "+message), ignoreReplicas)
			s.expectWorkload("1 × web:1 A=1; ClusterIP 80→8080/TCP")
			s.plan()
			s.expectWorkload("3 × web:2 A=1; ClusterIP 80→8080/TCP")
		})
	}
}

// Members share the read of a revision, and a missing one is not read again and again.
func TestRevision_is_read_once(t *testing.T) {
	t.Parallel()
	s := newSetup(t, func(app *v1alpha1.AppService) { app.Name = "read-once" })
	s.storeRevision()
	revisions := reader.New(hubCached.GetAPIReader(), reader.NeverRestored)
	for number, isMissing := range map[int64]bool{1: false, 2: true} {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				stored, err := revisions.Revision(t.Context(), s.app, number)
				if reader.IsMissing(err) != isMissing || !isMissing && (err != nil || stored.Template.Image != "web:1") {
					t.Errorf("revision %d: %+v, %v", number, stored, err)
				}
			})
		}
		all.Wait()
		if n := hubRequests.count(fmt.Sprintf("GET controllerrevisions/read-once-%d", number)); n != 1 {
			t.Errorf("revision %d was read %d times", number, n)
		}
	}
	s.must(onHub.DeleteAllOf(t.Context(), &appsv1.ControllerRevision{}, client.InNamespace(s.app.Namespace)))
	if _, err := revisions.Revision(t.Context(), s.app, 1); err != nil {
		t.Errorf("a revision that is known is read again: %v", err)
	}
}
