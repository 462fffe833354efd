package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

func suspended(app *v1alpha1.AppService) { app.Spec.Suspend = true }

// asObserved sets the observed generation in a planned entry.
func asObserved(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.ObservedGeneration = generation }
}

func TestSuspended_AppService_changes_nothing(t *testing.T) {
	tests := map[string]struct {
		given func(*scene)
		want  string
	}{
		"by an edit": {
			func(s *scene) {
				s.edit(func(app *v1alpha1.AppService) {
					app.Spec.Image, app.Spec.Ports, app.Spec.Replicas = "web:2", nil, new(int32(9))
				})
				s.plan(asObserved(1))
			},
			running,
		},
		"by a row that is Removing": {
			func(s *scene) { s.plan(inPhase(v1alpha1.ClusterRemoving), asObserved(1)) },
			running,
		},
		"by a row that is Removing, with deletionPolicy Orphan": {
			func(s *scene) { s.edit(orphaning); s.plan(inPhase(v1alpha1.ClusterRemoving), asObserved(1)) },
			running,
		},
		"where somebody else has": {
			func(s *scene) { s.spoil("bad:1"); s.plan(asObserved(1)) },
			"1 × bad:1 A=1; ClusterIP 80→8080/TCP",
		},
		"where an object is gone": {
			func(s *scene) { s.must(onMember.Delete(s.Context(), s.service())); s.plan(asObserved(1)) },
			"1 × web:1 A=1; no Service",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := delivered(t)
			s.edit(suspended)
			s.plan(asObserved(1))
			s.reports(s.seenWhileSuspended())
			s.sent.reset()
			test.given(s)
			s.reports(s.seenWhileSuspended())
			_, _, err := s.look()
			s.must(err)
			s.sendsNo(t, "PATCH", "POST", "DELETE")
			s.runs(test.want)
		})
	}
}

// seenWhileSuspended returns the expected report while the member keeps running the first
// generation.
func (s *scene) seenWhileSuspended() observation.Observation {
	seen := s.ready()
	seen.Applied, seen.Replicas, seen.ReadyReplicas = 1, 1, 1
	return seen
}

func TestSuspended_AppService_that_is_new_creates_nothing(t *testing.T) {
	t.Parallel()
	s := declared(t, suspended)
	s.plan()
	_, _, err := s.look()
	s.must(err)
	s.runs("no Deployment; no Service")
	s.sendsNo(t, "PATCH", "POST")
}

func TestSuspended_AppService_is_observed(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.edit(suspended)
	s.plan(asObserved(1))
	s.reports(s.seenWhileSuspended())
	s.scale(4)
	want := s.seenWhileSuspended()
	want.Replicas, want.ReadyReplicas = 4, 4
	s.reports(want)

	// Delivery resumes when the AppService is no longer suspended.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Suspend = false })
	s.plan()
	s.runs(running)
	s.reports(s.ready())
}

func TestSuspended_AppService_can_be_deleted(t *testing.T) {
	t.Parallel()
	s := delivered(t)
	s.edit(suspended)
	s.beingDeleted()
	s.plan(inPhase(v1alpha1.ClusterRemoving))
	s.reports(s.removing(s.gone))
	s.runs("no Deployment; no Service")
}

// Adoption is a change too.
func TestSuspended_AppService_adopts_nothing(t *testing.T) {
	t.Parallel()
	s := undelivered(t, suspended, conflictPolicy(v1alpha1.ConflictAdopt))
	was := s.somebodys(twinDeployment, nil, nil)
	s.connect()
	s.plan()
	_, _, err := s.look()
	s.must(err)
	s.untouched(was)
	if diff := cmp.Diff([]string(nil), s.sent.writes()); diff != "" {
		t.Errorf("sent to the member (-want +got):\n%s", diff)
	}
}
