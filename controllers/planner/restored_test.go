package planner

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// A backup may have the slices without the status, the status without the slices, or neither. All
// members run the AppService. Delivery reports what runs without an entry. Nothing is removed from
// a member, and the entries are in slices again.
func TestHub_that_is_restored_with_another_status_than_slices(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *fixture){
		"slices without a status": (*fixture).clearStatus,
		"slices without a status, one with a removal that was stopped": func(s *fixture) {
			slice := s.slice("west")
			slice.Clusters[0] = s.removingEntry("west")
			slice.Clusters[0].LastTransitionTime = s.transitionTime("west")
			s.must(s.hub.Update(s.Context(), slice))
			s.clearStatus()
		},
		"a status that names slices, and no slice": (*fixture).deleteSlices,
		"a status that names slices, and one slice": func(s *fixture) {
			kept := s.slice("west")
			s.deleteSlices()
			kept.UID, kept.ResourceVersion = "", ""
			s.must(s.hub.Create(s.Context(), kept))
		},
		"neither a status nor slices": func(s *fixture) {
			s.clearStatus()
			s.deleteSlices()
		},
		"a status with three entries, and no slice": func(s *fixture) {
			s.app.Status.ClustersIn, s.app.Status.Clusters = "", s.allReady(four[:3]...)
			for i := range s.app.Status.Clusters {
				s.app.Status.Clusters[i].LastTransitionTime = s.app.CreationTimestamp
			}
			s.must(s.hub.Status().Update(s.Context(), s.app))
			s.deleteSlices()
		},
	}
	for name, restore := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSliced(t)
			s.stop()
			s.readApp()
			restore(s)
			s.start()
			for _, member := range four { // delivery has no entry yet
				s.observations.Report(s.key(), member, observation.Observation{UID: s.app.UID, Found: true, Planned: 2})
			}
			wait.Eventually(t, func() error {
				s.readApp()
				stored, err := entries.ReadSlices(t.Context(), s.listSlicesReader(), s.app)
				s.must(err)
				if missing := stored.Missing(); missing > 0 || s.app.Status.ClustersIn != v1alpha1.ClustersInSlices || len(s.app.Status.Clusters) != len(four) {
					return fmt.Errorf("%d entries in %q, and %d slices are missing", len(s.app.Status.Clusters), s.app.Status.ClustersIn, missing)
				}
				return nil
			})
			s.reportReady(four...)
			s.checkNeverRemoving()
			s.restart()
			s.reconcileOnce()
			s.checkWrites()
		})
	}
}

// The placement was edited after the backup, and the backup has only a part of the record. What runs
// on a cluster that the plan does not have is not removed without approval.
func TestHub_that_is_restored_in_part_removes_nothing_without_approval(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*fixture){"with slices alone": (*fixture).clearStatus, "with the status alone": (*fixture).deleteSlices}
	for name, restore := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSliced(t)
			s.stop()
			s.readApp()
			restore(s)
			s.edit(onlyOn("east", "north", "south"))
			s.start()
			s.report("west", observation.Observation{UID: s.app.UID, Found: true, Planned: 2})
			wait.Eventually(t, func() error {
				s.readApp()
				west := s.app.Status.Cluster("west")
				if west == nil || west.Reason != v1alpha1.ReasonRemovalNeedsApproval {
					return fmt.Errorf("the entry of west is %+v", west)
				}
				if len(s.app.Status.Clusters) != len(four) || s.app.Status.ClustersIn != v1alpha1.ClustersInSlices {
					return errors.New("not all entries are in slices")
				}
				return nil
			})
			s.checkNeverRemoving()
		})
	}
}

// deleteSlices deletes all slices in the namespace of the AppService.
func (s *fixture) deleteSlices() {
	s.Helper()
	s.must(s.hub.DeleteAllOf(s.Context(), &v1alpha1.AppServiceSlice{}, client.InNamespace(s.app.Namespace)))
}

// An older version that was installed although entries were in slices has written its entries to the
// status. They are newer than those in the slices, in which west is still to be removed.
func TestEntries_that_an_older_version_wrote_count_instead_of_the_slices(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.stop()
	slice := s.slice("west")
	slice.Clusters[0].Phase, slice.Clusters[0].Reason = v1alpha1.ClusterRemoving, v1alpha1.ReasonRemoving
	s.must(s.hub.Update(t.Context(), slice))
	written := s.stored()
	written.Status.Clusters = s.allReady(four...)
	for i := range written.Status.Clusters {
		written.Status.Clusters[i].LastTransitionTime = s.app.CreationTimestamp
	}
	s.must(s.hub.Status().Update(t.Context(), written))
	if west, known, err := entries.Of(t.Context(), s.hub, s.stored(), "west"); err != nil || !known || west.Phase != v1alpha1.ClusterReady {
		t.Errorf("delivery reads the entry %+v, %v, %v", west, known, err)
	}
	s.start()
	wait.Eventually(t, func() error {
		if app := s.stored(); !app.Status.HasSlices() {
			return fmt.Errorf("%d entries are in the status, and clustersIn is %q", len(app.Status.Clusters), app.Status.ClustersIn)
		}
		return nil
	})
	s.waitForEntries(s.allReady(four...)...)
	s.waitForSlices(v1alpha1.SliceCount)
	s.checkNeverRemoving()
}

// stored returns the AppService as the hub stores it.
func (s *fixture) stored() *v1alpha1.AppService {
	s.Helper()
	app := &v1alpha1.AppService{}
	s.must(s.hub.Get(s.Context(), s.key(), app))
	return app
}

// An older version does not know slices, so the entries are moved back before it is installed.
func TestEntries_move_back_when_the_threshold_is_raised(t *testing.T) {
	t.Parallel()
	s := newSliced(t)
	s.stop()
	s.options.SliceThreshold = appslice.DefaultThreshold
	s.start()
	s.waitForSlices(0)
	s.waitForEntries(s.allReady(four...)...)
	if s.app.Status.ClustersIn != "" || s.app.Status.WorstClusters != nil {
		t.Errorf("the status is %+v", s.app.Status)
	}
	s.checkNeverRemoving()
	s.restart()
	s.reconcileOnce()
	s.checkWrites()
}

// The hub was restored to before a revision that a member still has. Its number is not given to another
// template, although the entry of the member names a lower one.
func TestNumber_of_a_revision_that_a_restore_has_lost_is_not_given_again(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	behind := s.readyObservation()
	behind.StampedRevision = 2
	s.report("west", behind)
	s.setImage("web:2", 3)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-3": "web:2"})
}
