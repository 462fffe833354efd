package delivery

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// createMemberCluster creates a MemberCluster for the member on the hub.
func (s *setup) createMemberCluster() {
	s.Helper()
	s.must(client.IgnoreAlreadyExists(onHub.Create(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster}})))
}

// addTombstones writes tombstones: AppServices with these UIDs were abandoned on the cluster.
func (s *setup) addTombstones(uids ...types.UID) {
	s.Helper()
	mc := &v1alpha1.MemberCluster{}
	s.must(onHub.Get(s.Context(), client.ObjectKey{Name: s.cluster}, mc))
	for _, uid := range uids {
		mc.Status.Abandoned = append(mc.Status.Abandoned, v1alpha1.AbandonedAppService{Namespace: s.app.Namespace, Name: s.app.Name, UID: uid})
	}
	s.must(onHub.Status().Update(s.Context(), mc))
}

// expectNoTombstones waits until the tombstones are removed.
func (s *setup) expectNoTombstones() {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if left := s.tombstonesOnHub(); len(left) > 0 {
			return fmt.Errorf("tombstones: %v", left)
		}
		return nil
	})
}

func (s *setup) tombstonesOnHub() []v1alpha1.AbandonedAppService {
	s.Helper()
	mc := &v1alpha1.MemberCluster{}
	s.must(onHub.Get(s.Context(), client.ObjectKey{Name: s.cluster}, mc))
	return mc.Status.Abandoned
}

func TestTombstone_removes_the_objects_and_then_itself(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"when the tombstone appears": func(s *setup) { s.addTombstones(s.app.UID) },
		"when the member returns": func(s *setup) {
			s.end()
			s.addTombstones(s.app.UID)
			wait.Eventually(s.T, func() error { // wait for the hub's cache
				mc := &v1alpha1.MemberCluster{}
				if err := hubCached.GetClient().Get(s.Context(), client.ObjectKey{Name: s.cluster}, mc); err != nil || len(mc.Status.Abandoned) == 0 {
					return fmt.Errorf("%w: %v", err, mc.Status.Abandoned)
				}
				return nil
			})
			s.start()
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.createMemberCluster()
			s.must(onHub.Delete(t.Context(), s.app))
			given(s)
			s.expectNoTombstones()
			s.expectWorkload("no Deployment; no Service")
			var notes []string
			for _, kind := range []string{"Deployment", "Service"} {
				notes = append(notes, fmt.Sprintf("%s web: %s web was deleted: AppService %s was abandoned on this cluster while the cluster could not be reached (by hub %s)", kind, kind, s.key(), testHubID))
			}
			wait.Eventually(t, func() error {
				if diff := cmp.Diff(notes, s.eventsOn(onMember, v1alpha1.ReasonRemoved)); diff != "" {
					return fmt.Errorf("events (-want +got):\n%s", diff)
				}
				return nil
			})
		})
	}
}

// Another hub has taken over the Deployment, so that it does not list the optional objects any more. They
// would scale the Deployment of the other hub for good.
func TestTombstone_removes_optional_objects_that_the_Deployment_does_not_list(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withAutoscaler, withBudget)
	s.plan(withBounds(2, 5))
	s.expectOptional("HorizontalPodAutoscaler 2-5", "PodDisruptionBudget 1")
	s.expectReady()
	s.end()
	for _, object := range []client.Object{s.deployment(), s.service()} {
		s.changeByOther(object, func() {
			object.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2"
			delete(object.GetAnnotations(), v1alpha1.AnnotationOwnedKinds)
		})
	}
	s.must(onHub.Delete(t.Context(), s.app))
	s.addTombstones(s.app.UID)
	s.start()
	s.expectNoTombstones()
	s.expectOptional()
	if s.deployment() == nil || s.service() == nil {
		t.Error("the objects of the other hub are gone")
	}
}

func TestTombstone_stays_while_an_object_has_a_finalizer(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.createMemberCluster()
	held := s.deployment()
	s.changeByOther(held, func() { held.Finalizers = append(held.Finalizers, "example.com/hold") })
	s.must(onHub.Delete(t.Context(), s.app))
	s.addTombstones(s.app.UID)
	s.expectWorkload("1 × web:1 A=1; no Service")
	_, result, err := s.reconcileOnce()
	s.must(err)
	if result.RequeueAfter != removalPoll {
		t.Error("requeued after", result.RequeueAfter)
	}
	if left := s.tombstonesOnHub(); len(left) != 1 {
		t.Error("tombstones:", left)
	}
	if got := slices.Compact(slices.DeleteFunc(s.sent.writes(), func(r string) bool { return r != "DELETE deployments/web" })); len(got) != 1 {
		t.Error("sent", got)
	}
	held = s.deployment()
	s.changeByOther(held, func() { held.Finalizers = nil })
	s.expectNoTombstones()
	s.expectWorkload("no Deployment; no Service")
}

// The successor inherits a Service of the earlier AppService as it inherits a Deployment, even if
// the successor wants no Service. The tombstone waits until every object is inherited or deleted.
func TestTombstone_is_removed_when_the_successor_wants_no_Service(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.createMemberCluster()
	deployment, before := s.deployment(), s.app.UID
	s.end()
	s.recreateApp(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.addTombstones(before)
	s.plan()
	s.start()
	s.expectWorkload("1 × web:1 A=1; no Service")
	s.expectReport(s.ready())
	s.expectNoTombstones()
	if s.deployment().UID != deployment.UID {
		t.Error("the Deployment was created again")
	}
	s.expectAtRestAlsoAfterRestart()
}

// The AppService that owns the Service was created after the backup from which the hub was
// restored.
func TestService_that_is_ahead_of_the_hub_is_not_deleted(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	service := s.service()
	s.end()
	s.recreateApp(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.changeByOther(service, func() {
		service.GetAnnotations()[v1alpha1.AnnotationCreated] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	})
	s.plan()
	s.start()
	s.expectReport(s.reportBehind(service), ignoreReplicas)
	s.expectWorkload(running)
	s.expectNoRequests(t, "PATCH", "POST", "DELETE")
}

// Invariant 2: a tombstone permits the removal of objects with its UID only.
func TestTombstone_removes_nothing_else(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup) types.UID{
		"of another UID": func(*setup) types.UID { return "another" },
		"of another UID, without an AppService on the hub": func(s *setup) types.UID { s.must(onHub.Delete(s.Context(), s.app)); return "another" },
		"of an AppService with an entry for this member":   func(s *setup) types.UID { return s.app.UID },
		"of another hub": func(s *setup) types.UID {
			for _, object := range []client.Object{s.deployment(), s.service()} {
				s.changeByOther(object, func() { object.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2" })
			}
			s.must(onHub.Delete(s.Context(), s.app))
			return s.app.UID
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.createMemberCluster()
			s.sent.reset()
			s.addTombstones(given(s))
			s.expectNoTombstones()
			s.expectNoRequests(t, "DELETE")
			s.expectWorkload(running)
		})
	}
}

// The cache may show a tombstone that no longer exists on the hub, or lack an entry that exists.
func TestTombstone_is_read_live(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.createMemberCluster()
	s.disengage()
	s.connect()
	cached := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster, UID: "cached"}}
	cached.Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: s.app.Namespace, Name: s.app.Name, UID: s.app.UID}}
	_, _, err := s.reconcileWith(staleCluster{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.expectNoRequests(t, "DELETE")
	s.addTombstones(s.app.UID)
	s.catchUp()
	cachedApp := s.app.DeepCopy()
	cachedApp.Status.Clusters = nil
	_, _, err = s.reconcileWith(staleCluster{hubCached, []client.Object{cached, cachedApp}}, s.member)
	s.must(err)
	s.expectNoRequests(t, "DELETE")
	s.expectWorkload(running)
}

// Invariant 8: an object that replaces another one between the read and the deletion stays.
func TestObject_is_deleted_by_its_UID(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.disengage()
	s.connect()
	w := s.newReconciler()
	before := s.deployment()
	s.must(onMember.Delete(t.Context(), before))
	was := s.createByOther(unmanagedDeployment, nil, nil)
	if err := w.objects.Delete(t.Context(), before); err == nil {
		t.Error("deleted the object that replaced it")
	}
	s.expectUnchanged(was)
}

func TestUnplanned_objects_are_reported_and_stay(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	found := observation.Observation{UID: s.app.UID, Found: true, Revision: 1, Planned: 1}
	s.end()
	s.writeEntries() // a restore lost the status
	s.start()
	s.expectReport(found)
	s.expectWorkload(running)
	s.expectNoRequests(t, "PATCH", "POST", "DELETE")

	s.plan()
	s.expectReport(s.ready())
	all := s.reported.all(s.key(), s.cluster)
	if i := slices.IndexFunc(all, func(o observation.Observation) bool { return !o.Found }); slices.ContainsFunc(all[i:], func(o observation.Observation) bool { return o.Found }) {
		t.Errorf("reported %+v", all)
	}
	s.expectNoRequests(t, "PATCH", "POST", "DELETE")
}

// The status is edited or restored while the operator runs.
func TestUnplanned_objects_are_reported_when_their_entry_vanishes(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	// The new operator has sent nothing, so it has no reason to reconcile again by itself.
	s.restart()
	s.expectReport(s.ready())
	s.writeEntries()
	s.expectReport(observation.Observation{UID: s.app.UID, Found: true, Revision: 1, Planned: 1})
	s.expectWorkload(running)
}

func TestUnplanned_objects_are_not_reported(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"of another hub": func(s *setup) {
			for _, object := range []client.Object{s.deployment(), s.service()} {
				s.changeByOther(object, func() { object.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2" })
			}
			s.writeEntries()
		},
		"of a Detached entry":                         func(s *setup) { s.plan(withPhase(v1alpha1.ClusterDetached)) },
		"of an AppService that the hub does not have": func(s *setup) { s.must(onHub.Delete(s.Context(), s.app)) },
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.end()
			given(s)
			s.connect()
			seen, _, err := s.reconcileOnce()
			s.must(err)
			if diff := cmp.Diff(observation.Observation{}, seen); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			s.expectWorkload(running)
			s.expectRequests()
		})
	}
}
