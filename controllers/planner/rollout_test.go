package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// onlyOn places the AppService on exactly these members.
func onlyOn(members ...string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: members}}
	}
}

func annotate(key, value string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { metav1.SetMetaDataAnnotation(&app.ObjectMeta, key, value) }
}

// atGeneration sets the generation of an entry.
func atGeneration(generation int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Generation = generation }
}

func atRevision(number int64) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Revision = number }
}

func TestEdit_that_removes_clusters_removes_them_in_turn(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "north", "south")
	s.edit(onlyOn("east"))
	s.report("east", s.readyObservation())
	waiting := s.entry("south", v1alpha1.ClusterProgressing, atGeneration(1), applied(1, 2),
		withReason(v1alpha1.ReasonRemovalPending, "the removal waits for removals from other clusters: north; at most 1 may run at a time; "+
			"annotate the AppService with fleetwright.dev/accept-removals=1@2 to approve 1 removal regardless of this limit"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("north", v1alpha1.ClusterRemoving, atGeneration(1), applied(1, 2)), waiting)
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing,
		"1 of 2 clusters not ready: south (RemovalPending); the removal from 1 cluster is pending: at most 1 may run at a time")

	s.restart() // a restart is not a change, so no removal starts
	s.reconcileOnce()
	s.checkWrites()
	s.report("east", s.readyObservation())
	s.report("north", s.removalConfirmed(s.transitionTime("north")))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("south", v1alpha1.ClusterRemoving, atGeneration(1), applied(1, 2)))
	s.report("south", s.removalConfirmed(s.transitionTime("south")))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
}

// Invariant 2: labels were removed everywhere by accident.
func TestMembers_that_stop_matching_together_need_approval(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "north", "south")
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "prod"}}}}
	s.createApp()
	s.reportReady("east", "north", "south")
	s.stop()
	s.patchMember("north", func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "test" })
	s.patchMember("south", func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "test" })
	s.start()
	held := withReason(v1alpha1.ReasonRemovalNeedsApproval, "2 clusters left the plan within an hour, and spec.placement was not edited: "+
		"annotate the AppService with fleetwright.dev/accept-removals=2@1 to approve 2 removals")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("north", v1alpha1.ClusterProgressing, applied(1, 2), held), s.entry("south", v1alpha1.ClusterProgressing, applied(1, 2), held))
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "2 of 3 clusters not ready: north (RemovalNeedsApproval), south (RemovalNeedsApproval); "+
		"the removal from 2 clusters needs approval: annotate the AppService with fleetwright.dev/accept-removals=2@1")
	s.reconcileOnce()
	s.checkNeverRemoving()
	s.edit(annotate(v1alpha1.AnnotationAcceptRemovals, "2@1"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.removingEntry("north"), s.removingEntry("south"))
}

// A label that an override matches is set on most clusters by accident, while the image is edited.
func TestReplicas_that_an_override_lowers_on_many_members_need_approval(t *testing.T) {
	t.Parallel()
	all := []string{"east", "north", "south"}
	s := newFixture(t, all...)
	s.app.Spec.Replicas = new(int32(5))
	s.app.Spec.Overrides = []v1alpha1.Override{{
		Name: "test", Replicas: new(int32(1)),
		ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "test"}}},
	}}
	s.createApp()
	s.reportReady(all...)
	s.stop()
	for _, member := range all[:2] {
		s.patchMember(member, func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "test" })
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.start()
	replicas := func() (numbers []int32) {
		s.readApp()
		for _, entry := range s.app.Status.Clusters {
			numbers = append(numbers, entry.Replicas)
		}
		return numbers
	}
	s.waitForPlan()
	if got := replicas(); !slices.Equal(got, []int32{5, 5, 5}) {
		t.Fatalf("the replicas are %v", got)
	}
	ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
	if want := "the scale-down on 2 clusters needs approval"; !strings.Contains(ready.Message, want) || !strings.Contains(ready.Message, "accept-removals=2@2") {
		t.Errorf("Ready does not say %q: %s", want, ready.Message)
	}
	s.edit(annotate(v1alpha1.AnnotationAcceptRemovals, "2@2"))
	wait.Eventually(t, func() error {
		if got := replicas(); !slices.Equal(got, []int32{1, 1, 5}) {
			return fmt.Errorf("the replicas are %v", got)
		}
		return nil
	})
}

func TestSuspended_AppService_is_only_observed(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.join("north")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("north", v1alpha1.ClusterPending), s.entry("west", v1alpha1.ClusterReady))
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement, app.Spec.Suspend, app.Spec.Image = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east", "north", "south"}}}, true, "web:2"
	})
	s.join("south")
	wait.Eventually(t, func() error {
		s.readApp()
		ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
		if want := "suspended: generation 2 is not rolled out to 2 clusters: east, north; it is not added to 1 cluster: south; " +
			"it is not removed from 1 cluster: west; 1 of 3 clusters not ready: north (Pending)"; ready.Message != want || ready.Reason != v1alpha1.ReasonSuspended {
			return fmt.Errorf("Ready is %+v", ready)
		}
		return nil
	})
	s.checkCondition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended, "spec.suspend stops all changes; the clusters keep what they run")
	for _, absent := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if meta.FindStatusCondition(s.app.Status.Conditions, absent) != nil {
			t.Errorf("condition %s is present", absent)
		}
	}
	// It is still observed.
	s.report("east", observation.Observation{UID: s.app.UID, Generation: 1, Applied: 1, Phase: v1alpha1.ClusterFailed, Reason: v1alpha1.ReasonCrashLoopBackOff, Replicas: 2})
	s.setReady("west", metav1.ConditionFalse)
	crashes := s.entry("east", v1alpha1.ClusterFailed, atGeneration(1), atRevision(1), applied(1, 2), withReason(v1alpha1.ReasonCrashLoopBackOff, ""), func(entry *v1alpha1.ClusterStatus) { entry.ReadyReplicas, entry.UnreadyReplicas = 0, 2 })
	west := s.unknownEntry("west")
	atGeneration(1)(&west)
	atRevision(1)(&west)
	applied(1, 2)(&west)
	s.waitForEntries(crashes, s.entry("north", v1alpha1.ClusterPending, atGeneration(1), atRevision(1)), west)
	s.checkNeverRemoving()

	s.setReady("west", metav1.ConditionTrue)
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Suspend = false })
	atGeneration(3)(&crashes)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 2), func(entry *v1alpha1.ClusterStatus) { entry.ReadyReplicas, entry.UnreadyReplicas = 0, 2 }),
		s.entry("north", v1alpha1.ClusterPending), s.entry("south", v1alpha1.ClusterPending),
		s.entry("west", v1alpha1.ClusterProgressing, atGeneration(1), atRevision(1), applied(1, 2), withReason(v1alpha1.ReasonRemovalPending, "the removal starts when the AppService is ready on: east, north, south; annotate the AppService with fleetwright.dev/accept-unready=true to end this wait")))
}

func TestSuspended_AppService_can_be_deleted(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Suspend = true })
	s.delete()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterRemoving, applied(1, 2)))
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForDeletion()
}

// After a restore without status, objects that are found on a member become an entry again.
func TestFound_objects_become_entries_again(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(onlyOn("east", "north"))
	north := s.join("north")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 2)), s.entry("north", v1alpha1.ClusterPending))
	s.patchMember(north.Name, func(m *v1alpha1.MemberCluster) { m.Spec.Unschedulable = true })
	s.join("west")
	s.stop()
	s.readApp()
	s.app.Status.Clusters = nil
	s.must(s.hub.Status().Update(t.Context(), s.app))
	s.start()
	pending := s.entry("east", v1alpha1.ClusterPending)
	s.waitForEntries(pending)

	found := observation.Observation{UID: s.app.UID, Found: true}
	s.report("north", found) // north is unschedulable, but its entry is not new
	s.waitForEntries(pending, s.entry("north", v1alpha1.ClusterProgressing, applied(0, 0)))
	s.checkNeverRemoving()
	s.edit(func(app *v1alpha1.AppService) {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptRemovals: "1@2", v1alpha1.AnnotationAcceptUnready: "true"} // otherwise the removal would be held, or wait for east
	})
	s.report("west", found) // west is not in the placement
	removing := s.entry("west", v1alpha1.ClusterRemoving, atGeneration(0), atRevision(0), applied(0, 0), func(entry *v1alpha1.ClusterStatus) { entry.Replicas = 0 })
	s.waitForEntries(pending, s.entry("north", v1alpha1.ClusterProgressing, applied(0, 0)), removing)
	s.report("west", s.removalConfirmed(s.transitionTime("west")))
	s.waitForEntries(pending, s.entry("north", v1alpha1.ClusterProgressing, applied(0, 0)))
}

// A tombstone may come from a backup. While its AppService exists, found objects need approval as
// usual, and the tombstone is removed.
func TestFound_objects_with_a_tombstone_need_approval_while_the_AppService_exists(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(onlyOn("east"))
	s.reportReady("east")
	s.join("west")
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Status.Abandoned = []v1alpha1.AbandonedAppService{s.tombstone()} })
	s.report("west", observation.Observation{UID: s.app.UID, Found: true})
	none := func(entry *v1alpha1.ClusterStatus) { entry.Replicas, entry.Revision = 0, 0 }
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterProgressing, atGeneration(0), applied(0, 0), none, withReason(v1alpha1.ReasonRemovalNeedsApproval,
		"the workload was found here without an entry in status.clusters, and the plan does not choose the cluster: "+
			"annotate the AppService with fleetwright.dev/accept-removals=1@2 to approve 1 removal")))
	s.checkNeverRemoving()
	s.edit(annotate(v1alpha1.AnnotationAcceptRemovals, "1@2"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterRemoving, atGeneration(0), applied(0, 0), none))
}
