package delivery

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

func withOrphan(app *v1alpha1.AppService) { app.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }

func TestOrphans_keep_running_unmanaged(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"when the plan no longer has the cluster": func(*setup) {},
		"when the AppService is being deleted":    (*setup).deleteApp,
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t, withOrphan)
			given(s)
			was := []client.Object{s.deployment(), s.service()}
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			s.expectReport(s.removing(s.confirmed))
			is := []client.Object{s.deployment(), s.service()}
			for i, object := range is {
				if managers := managersOf(object); slices.Contains(managers, v1alpha1.ManagedBy) {
					t.Errorf("the %s is managed by %v", kindOf(object), managers)
				}
				removeMarks(was[i])
				removeVersions(was[i])
				removeVersions(object)
			}
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("more than the marks changed (-before +after):\n%s", diff)
			}
			s.expectNoRequests(t, "DELETE")
			s.expectEvents(v1alpha1.ReasonOrphaned,
				"Deployment web keeps running without Fleetwright, because spec.deletionPolicy is Orphan",
				"Service web keeps running without Fleetwright, because spec.deletionPolicy is Orphan")

			s.restart()
			s.expectReport(s.removing(s.confirmed))
			s.expectNoRequests(t, "DELETE", "PATCH")
		})
	}
}

// removeMarks removes the marks that a release removes.
func removeMarks(object client.Object) {
	labels := object.GetLabels()
	delete(labels, v1alpha1.LabelManagedBy)
	delete(labels, v1alpha1.LabelAppService)
	object.SetAnnotations(nil) // all of them are Fleetwright's
}

// removeVersions removes the fields that change with every write. Changes of annotations increase
// the generation of a Deployment.
func removeVersions(object client.Object) {
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	object.SetGeneration(0)
	if d, isDeployment := object.(*appsv1.Deployment); isDeployment {
		d.Status.ObservedGeneration = 0
	}
}

func managersOf(object client.Object) []string {
	var managers []string
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, entry.Manager)
	}
	return managers
}

// A released object is unmanaged: when the AppService returns, it adopts the object under its
// conflict policy, like any other unmanaged object.
func TestOrphan_can_be_adopted_again(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withOrphan, withConflictPolicy(v1alpha1.ConflictAdoptIfIdentical))
	deployment := s.deployment()
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	s.plan()
	s.expectReport(s.ready())
	if s.deployment().UID != deployment.UID {
		t.Error("the Deployment was created again")
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Env = nil })
	s.plan()
	s.expectReport(s.ready())
	s.expectWorkload("1 × web:1; ClusterIP 80→8080/TCP")
}

func TestOrphaning_changes_no_foreign_object(t *testing.T) {
	t.Parallel()
	for kind, object := range deliveredKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, withOrphan)
			owner := otherOwners()["another hub"]
			was := s.createByOther(object, owner.labels, owner.annotations)
			s.start()
			s.plan(withPhase(v1alpha1.ClusterRemoving))
			s.expectReport(s.removing(s.confirmed))
			s.expectUnchanged(was)
			want := []string{"GET deployments/web", "GET services/web"}
			if kind == "Service" { // without a Deployment, no record lists them
				want = []string{"GET deployments/web", "GET horizontalpodautoscalers/web", "GET poddisruptionbudgets/web", "GET services/web"}
			}
			// A late event of the member may cause another reconciliation, which sends the same.
			if diff := cmp.Diff(want, slices.Compact(slices.Sorted(slices.Values(s.sent.all())))); diff != "" {
				t.Errorf("sent to the member (-want +got):\n%s", diff)
			}
		})
	}
}

// Invariant 2: a release cannot be undone either.
func TestOrphaning_that_the_hub_does_not_verify_releases_nothing(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withOrphan)
	s.end()
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	cached := s.app.DeepCopy()
	s.plan()
	s.connect()
	deployment, service := s.deployment(), s.service()
	_, _, err := s.reconcileWith(staleCluster{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.expectUnchanged(deployment)
	s.expectUnchanged(service)
}

// Replicas that were given up to an autoscaler stay unchanged when the marks are removed.
func TestOrphan_keeps_replicas_that_were_given_up(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withOrphan, withReplicas(3), withExternalScaling)
	s.expectNeverFewer(3)
	s.edit(editImage)
	s.plan()
	s.expectReport(s.ready())
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	if managers := managersOf(s.deployment()); slices.Contains(managers, object.ReplicasManager) {
		t.Error("it is managed by", managers)
	}
	s.expectWorkload("3 × web:2 A=1; ClusterIP 80→8080/TCP")
}

// The queue backs off, because an immediate retry would loop forever.
func TestOrphans_whose_marks_come_back_are_retried_with_back_off(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withOrphan)
	s.disengage()
	s.connect()
	was, err := json.Marshal(s.deployment())
	s.must(err)
	s.sent.answers(func(request string) (*http.Response, error) {
		if request != "PATCH deployments/web" {
			return nil, nil
		}
		header := http.Header{"Content-Type": {"application/json"}}
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(was))}, nil
	})
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	seen, result, err := s.reconcileOnce()
	if err == nil || result.RequeueAfter != 0 {
		t.Errorf("requeued after %s (%v)", result.RequeueAfter, err)
	}
	want := "another manager restores Fleetwright's labels and annotations on Deployment, Service: stop it, so that the objects can be released"
	if seen.Phase != v1alpha1.ClusterRemoving || seen.Reason != v1alpha1.ReasonApplyFailed || seen.Message != want {
		t.Errorf("reported %+v", seen)
	}
}
