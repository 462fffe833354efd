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
)

// joined creates a MemberCluster for the scene's cluster on the hub.
func (s *scene) joined() {
	s.Helper()
	s.must(client.IgnoreAlreadyExists(onHub.Create(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster}})))
}

// abandons writes tombstones: AppServices with these UIDs were abandoned on the cluster.
func (s *scene) abandons(uids ...types.UID) {
	s.Helper()
	mc := &v1alpha1.MemberCluster{}
	s.must(onHub.Get(s.Context(), client.ObjectKey{Name: s.cluster}, mc))
	for _, uid := range uids {
		mc.Status.Abandoned = append(mc.Status.Abandoned, v1alpha1.AbandonedAppService{Namespace: s.app.Namespace, Name: s.app.Name, UID: uid})
	}
	s.must(onHub.Status().Update(s.Context(), mc))
}

// tombstonesGo waits until the tombstones are removed.
func (s *scene) tombstonesGo() {
	s.Helper()
	eventually(s.T, func() error {
		if left := s.records(); len(left) > 0 {
			return fmt.Errorf("tombstones: %v", left)
		}
		return nil
	})
}

func (s *scene) records() []v1alpha1.AbandonedAppService {
	s.Helper()
	mc := &v1alpha1.MemberCluster{}
	s.must(onHub.Get(s.Context(), client.ObjectKey{Name: s.cluster}, mc))
	return mc.Status.Abandoned
}

func TestTombstone_removes_the_objects_and_then_itself(t *testing.T) {
	tests := map[string]func(*scene){
		"when the record appears": func(s *scene) { s.abandons(s.app.UID) },
		"when the member is back": func(s *scene) {
			s.end()
			s.abandons(s.app.UID)
			eventually(s.T, func() error { // wait for the hub's cache
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
			s := delivered(t)
			s.joined()
			s.must(onHub.Delete(t.Context(), s.app))
			given(s)
			s.tombstonesGo()
			s.runs("no Deployment; no Service")
			var notes []string
			for _, kind := range []string{"Deployment", "Service"} {
				notes = append(notes, fmt.Sprintf("%s web: %s web was deleted: AppService %s was abandoned on this cluster while the cluster could not be reached (by hub %s)", kind, kind, s.key(), thisHub))
			}
			eventually(t, func() error {
				if diff := cmp.Diff(notes, s.eventsOn(onMember, v1alpha1.ReasonRemoved)); diff != "" {
					return fmt.Errorf("events (-want +got):\n%s", diff)
				}
				return nil
			})
		})
	}
}

func TestTombstone_stays_while_an_object_has_a_finalizer(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.joined()
	held := s.deployment()
	s.someone(held, func() { held.Finalizers = append(held.Finalizers, "example.com/hold") })
	s.must(onHub.Delete(t.Context(), s.app))
	s.abandons(s.app.UID)
	s.runs("1 × web:1 A=1; no Service")
	_, result, err := s.look()
	s.must(err)
	if result.RequeueAfter != removalPoll {
		t.Error("looks again after", result.RequeueAfter)
	}
	if left := s.records(); len(left) != 1 {
		t.Error("tombstones:", left)
	}
	if got := slices.Compact(slices.DeleteFunc(s.sent.writes(), func(r string) bool { return r != "DELETE deployments/web" })); len(got) != 1 {
		t.Error("sent", got)
	}
	held = s.deployment()
	s.someone(held, func() { held.Finalizers = nil })
	s.tombstonesGo()
	s.runs("no Deployment; no Service")
}

// The successor inherits a Service of the earlier AppService as it inherits a Deployment, even if
// the successor wants no Service. The tombstone waits until every object is inherited or deleted.
func TestTombstone_goes_when_the_successor_wants_no_Service(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.joined()
	deployment, before := s.deployment(), s.app.UID
	s.end()
	s.again(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.abandons(before)
	s.plan()
	s.start()
	s.runs("1 × web:1 A=1; no Service")
	s.reports(s.ready())
	s.tombstonesGo()
	if s.deployment().UID != deployment.UID {
		t.Error("the Deployment was made anew")
	}
	s.restsAlsoAfterRestart()
}

// The AppService that owns the Service was created after the backup from which the hub was
// restored.
func TestService_that_is_ahead_of_the_hub_is_not_deleted(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	service := s.service()
	s.end()
	s.again(func(app *v1alpha1.AppService) { app.Spec.Ports = nil })
	s.someone(service, func() {
		service.GetAnnotations()[v1alpha1.AnnotationCreated] = time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	})
	s.plan()
	s.start()
	s.reports(s.behindHub(service), whateverRuns)
	s.runs(running)
	s.sendsNo(t, "PATCH", "POST", "DELETE")
}

// Invariant 2: a tombstone permits the removal of objects with its UID only.
func TestTombstone_removes_nothing_else(t *testing.T) {
	tests := map[string]func(*scene) types.UID{
		"of another UID":                func(*scene) types.UID { return "another" },
		"of another UID, with no hub's": func(s *scene) types.UID { s.must(onHub.Delete(s.Context(), s.app)); return "another" },
		"of one that has a row here":    func(s *scene) types.UID { return s.app.UID },
		"of another hub": func(s *scene) types.UID {
			for _, object := range []client.Object{s.deployment(), s.service()} {
				s.someone(object, func() { object.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2" })
			}
			s.must(onHub.Delete(s.Context(), s.app))
			return s.app.UID
		},
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := delivered(t)
			s.joined()
			s.sent.reset()
			s.abandons(given(s))
			s.tombstonesGo()
			s.sendsNo(t, "DELETE")
			s.runs(running)
		})
	}
}

// The cache may show a tombstone that no longer exists on the hub, or lack an entry that exists.
func TestTombstone_is_read_live(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.joined()
	s.disengage()
	s.connect()
	cached := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: s.cluster}}
	cached.Status.Abandoned = []v1alpha1.AbandonedAppService{{Namespace: s.app.Namespace, Name: s.app.Name, UID: s.app.UID}}
	_, _, err := s.lookThrough(behind{hubCached, []client.Object{cached}}, s.member)
	s.must(err)
	s.sendsNo(t, "DELETE")
	s.abandons(s.app.UID)
	s.catchUp()
	cachedApp := s.app.DeepCopy()
	cachedApp.Status.Clusters = nil
	_, _, err = s.lookThrough(behind{hubCached, []client.Object{cached, cachedApp}}, s.member)
	s.must(err)
	s.sendsNo(t, "DELETE")
	s.runs(running)
}

// Invariant 8: an object that replaces another one between the read and the deletion stays.
func TestObject_is_deleted_by_its_UID(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.disengage()
	s.connect()
	w := s.witness()
	before := s.deployment()
	s.must(onMember.Delete(t.Context(), before))
	was := s.somebodys(aDeployment, nil, nil)
	if err := w.objects.Delete(t.Context(), before); err == nil {
		t.Error("deleted what took its place")
	}
	s.untouched(was)
}

func TestUnplanned_objects_are_reported_and_stay(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	found := observation.Observation{UID: s.app.UID, Found: true, Planned: 1}
	s.end()
	s.writeRows() // a restore lost the status
	s.start()
	s.reports(found)
	s.runs(running)
	s.sendsNo(t, "PATCH", "POST", "DELETE")

	s.plan()
	s.reports(s.ready())
	all := s.told.all(s.key(), s.cluster)
	if i := slices.IndexFunc(all, func(o observation.Observation) bool { return !o.Found }); slices.ContainsFunc(all[i:], func(o observation.Observation) bool { return o.Found }) {
		t.Errorf("reported %+v", all)
	}
	s.sendsNo(t, "PATCH", "POST", "DELETE")
}

// The status is edited or restored while the operator runs.
func TestUnplanned_objects_are_reported_when_their_entry_vanishes(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	// The new operator has sent nothing, so it has no reason to reconcile again by itself.
	s.restart()
	s.reports(s.ready())
	s.writeRows()
	s.reports(observation.Observation{UID: s.app.UID, Found: true, Planned: 1})
	s.runs(running)
}

func TestUnplanned_objects_are_only_those_of_the_AppService(t *testing.T) {
	tests := map[string]func(*scene){
		"but another hub's": func(s *scene) {
			for _, object := range []client.Object{s.deployment(), s.service()} {
				s.someone(object, func() { object.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2" })
			}
			s.writeRows()
		},
		"but of one whose row is Detached": func(s *scene) { s.plan(inPhase(v1alpha1.ClusterDetached)) },
		"but of one that the hub has not":  func(s *scene) { s.must(onHub.Delete(s.Context(), s.app)) },
	}
	for name, given := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := delivered(t)
			s.end()
			given(s)
			s.connect()
			seen, _, err := s.look()
			s.must(err)
			if diff := cmp.Diff(observation.Observation{}, seen); diff != "" {
				t.Errorf("reported (-want +got):\n%s", diff)
			}
			s.runs(running)
			s.hasSent()
		})
	}
}
