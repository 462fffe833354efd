package delivery

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

func withSuspend(app *v1alpha1.AppService) { app.Spec.Suspend = true }

// withObservedGeneration sets the observed generation in a planned entry.
func withObservedGeneration(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.ObservedGeneration = generation }
}

func TestSuspended_AppService_changes_nothing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given func(*setup)
		want  string
	}{
		"by an edit": {
			func(s *setup) {
				s.edit(func(app *v1alpha1.AppService) {
					app.Spec.Image, app.Spec.Ports, app.Spec.Replicas = "web:2", nil, new(int32(9))
				})
				s.plan(withObservedGeneration(1))
			},
			running,
		},
		"by an entry that is Removing": {
			func(s *setup) { s.plan(withPhase(v1alpha1.ClusterRemoving), withObservedGeneration(1)) },
			running,
		},
		"by an entry that is Removing, with deletionPolicy Orphan": {
			func(s *setup) {
				s.edit(withOrphan)
				s.plan(withPhase(v1alpha1.ClusterRemoving), withObservedGeneration(1))
			},
			running,
		},
		"after a change by another manager": {
			func(s *setup) { s.changeImageByOther("bad:1"); s.plan(withObservedGeneration(1)) },
			"1 × bad:1 A=1; ClusterIP 80→8080/TCP",
		},
		"after a deletion of an object": {
			func(s *setup) { s.must(onMember.Delete(s.Context(), s.service())); s.plan(withObservedGeneration(1)) },
			"1 × web:1 A=1; no Service",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := deliveredSetup(t)
			s.edit(withSuspend)
			s.plan(withObservedGeneration(1))
			s.expectReport(s.reportWhileSuspended())
			s.sent.reset()
			test.given(s)
			s.expectReport(s.reportWhileSuspended())
			_, _, err := s.reconcileOnce()
			s.must(err)
			s.expectNoRequests(t, "PATCH", "POST", "DELETE")
			s.expectWorkload(test.want)
		})
	}
}

// reportWhileSuspended returns the expected report while the member keeps running the first
// generation.
func (s *setup) reportWhileSuspended() observation.Observation {
	seen := s.ready()
	seen.Applied, seen.Replicas, seen.ReadyReplicas = 1, 1, 1
	return seen
}

func TestSuspended_AppService_that_is_new_creates_nothing(t *testing.T) {
	t.Parallel()
	s := startedSetup(t, withSuspend)
	s.plan()
	_, _, err := s.reconcileOnce()
	s.must(err)
	s.expectWorkload("no Deployment; no Service")
	s.expectNoRequests(t, "PATCH", "POST")
}

func TestSuspended_AppService_is_observed(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.edit(withSuspend)
	s.plan(withObservedGeneration(1))
	s.expectReport(s.reportWhileSuspended())
	s.scale(4)
	want := s.reportWhileSuspended()
	want.Replicas, want.ReadyReplicas = 4, 4
	s.expectReport(want)

	// Delivery resumes when the AppService is no longer suspended.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Suspend = false })
	s.plan()
	s.expectWorkload(running)
	s.expectReport(s.ready())
}

func TestSuspended_AppService_can_be_deleted(t *testing.T) {
	t.Parallel()
	s := deliveredSetup(t)
	s.edit(withSuspend)
	s.deleteApp()
	s.plan(withPhase(v1alpha1.ClusterRemoving))
	s.expectReport(s.removing(s.confirmed))
	s.expectWorkload("no Deployment; no Service")
}

// Adoption is a change too.
func TestSuspended_AppService_adopts_nothing(t *testing.T) {
	t.Parallel()
	s := newSetup(t, withSuspend, withConflictPolicy(v1alpha1.ConflictAdopt))
	was := s.createByOther(identicalDeployment, nil, nil)
	s.connect()
	s.plan()
	_, _, err := s.reconcileOnce()
	s.must(err)
	s.expectUnchanged(was)
	if diff := cmp.Diff([]string(nil), s.sent.writes()); diff != "" {
		t.Errorf("sent to the member (-want +got):\n%s", diff)
	}
}
