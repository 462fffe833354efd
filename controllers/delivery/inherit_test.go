package delivery

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// recreateApp replaces the AppService with another one of the same namespace and name. The hub
// knows nothing about the earlier one.
func (s *setup) recreateApp(changes ...func(*v1alpha1.AppService)) {
	s.Helper()
	s.must(onHub.Delete(s.Context(), s.app))
	s.app.UID, s.app.ResourceVersion, s.app.Generation = "", "", 0
	s.app.Status = v1alpha1.AppServiceStatus{}
	for _, change := range changes {
		change(s.app)
	}
	s.must(onHub.Create(s.Context(), s.app))
}

// To a member, three cases are the same: an AppService that was deleted and created again, a
// restored hub, and a hub that was rebuilt with the same identity. In each case, the existing
// objects belong to this hub and to another UID.
func TestInheritance(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"of unchanged objects": func(*setup) {},
		"of objects with a later generation": func(s *setup) {
			for _, object := range []client.Object{s.deployment(), s.service()} {
				s.changeByOther(object, func() { object.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9" })
			}
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			given(s)
			deployment, service, before := s.deployment(), s.service(), s.app.UID
			s.end()
			s.recreateApp(func(app *v1alpha1.AppService) { app.Spec.Image, app.Spec.Env = "web:2", nil })
			s.plan()
			s.start()
			s.expectReport(s.ready())
			s.expectWorkload("1 × web:2; ClusterIP 80→8080/TCP")
			if s.deployment().UID != deployment.UID || s.service().UID != service.UID {
				t.Error("an object was created again")
			}
			s.expectEvents(v1alpha1.ReasonAdopted,
				fmt.Sprintf("Deployment web was inherited from the AppService with UID %s", before),
				fmt.Sprintf("Service web was inherited from the AppService with UID %s", before))
			s.expectAtRestAlsoAfterRestart()
		})
	}
}

func TestInheritance_is_not_undone_by_a_stale_hub_cache(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	cached := s.app.DeepCopy()
	s.recreateApp()
	s.plan()
	s.expectReport(s.ready())
	s.catchUp()
	deployment, service := s.deployment(), s.service()
	_, _, err := s.reconcileWith(staleCluster{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.expectUnchanged(deployment)
	s.expectUnchanged(service)
}

// An inheritance that the member's cache does not show yet is announced only once.
func TestInheritance_is_announced_once(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	deployment, service := s.deployment(), s.service()
	before := s.app.UID
	s.recreateApp()
	s.plan()
	s.expectReport(s.ready())
	reported := func() {
		t.Helper()
		s.expectEvents(v1alpha1.ReasonAdopted,
			fmt.Sprintf("Deployment web was inherited from the AppService with UID %s", before),
			fmt.Sprintf("Service web was inherited from the AppService with UID %s", before))
	}
	reported() // events are sent after the change that they report
	s.sent.reset()
	_, _, err := s.reconcileWith(hubCached, staleCluster{s.member, []client.Object{deployment, service}})
	s.must(err)
	s.expectNoRequests(t, "PATCH", "POST")
	reported()
}

// Two hubs that share a member never change each other's objects, with any conflict policy.
func TestHubs_that_share_a_member_never_touch_the_same_object(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	second := s.onOtherMember("second")
	second.operator = &operator{}
	second.deliverer, second.reported = newDeliverer(t.Context(), t, "hub-2")
	second.isNewFor(second.deliverer)
	second.member, second.sent = connected(t.Context(), t, memberConfig)
	s.must(second.deliverer.Engage(t.Context(), second.clusterName(), second.member))
	plan := func(phase v1alpha1.ClusterPhase) {
		s.plan()
		entry := s.app.Status.Clusters[0]
		entry.Name, entry.Phase = second.cluster, phase
		s.writeEntries(s.app.Status.Clusters[0], entry)
	}
	plan(v1alpha1.ClusterPending)
	conflict := "Deployment web exists and does not belong to this AppService: it belongs to hub \"hub-1\""
	second.expectReport(second.failed(v1alpha1.ReasonConflict, conflict))

	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	plan(v1alpha1.ClusterPending)
	s.expectReport(s.ready())
	second.expectReport(second.failed(v1alpha1.ReasonConflict, conflict))

	plan(v1alpha1.ClusterRemoving)
	// The object has this AppService's UID, so the hub's identity may have changed. The report must
	// not confirm the removal.
	second.expectReport(second.removing(func(seen *observation.Observation) { seen.Reason, seen.Message = v1alpha1.ReasonConflict, conflict }))
	second.expectNoRequests(t, "PATCH", "POST", "DELETE")
	s.expectWorkload("1 × web:2 A=1; ClusterIP 80→8080/TCP")
	s.expectAtRestAlsoAfterRestart()
}
