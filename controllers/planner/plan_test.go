package planner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const (
	finalizer     = "PATCH appservices/web"
	revisionWrite = "POST controllerrevisions"
	statusWrite   = "PATCH appservices/web/status"
)

// Invariants 4 and 8: the finalizer is written first, then the revision that the entries name, then
// the entries, and nothing else.
func TestFinalizer_is_written_before_the_entries(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "west")
	s.app.Labels = map[string]string{"theirs": "1"}
	s.app.Annotations = map[string]string{"theirs": "1"}
	s.createApp()
	declared := s.app.DeepCopy()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending), s.entry("west", v1alpha1.ClusterPending))
	s.reconcileOnce()
	s.checkWrites(finalizer, revisionWrite, statusWrite)

	var first map[string]map[string]any
	s.must(json.Unmarshal([]byte(s.sent.list()[0].body), &first))
	delete(first["metadata"], "resourceVersion")
	if diff := cmp.Diff(map[string]map[string]any{"metadata": {"finalizers": []any{v1alpha1.Finalizer}}}, first); diff != "" {
		t.Errorf("the first write (-want +got):\n%s", diff)
	}
	s.app.ResourceVersion, s.app.ManagedFields, s.app.Finalizers, s.app.Status = declared.ResourceVersion, declared.ManagedFields, nil, declared.Status
	if diff := cmp.Diff(declared, s.app); diff != "" {
		t.Errorf("the AppService was changed (-want +got):\n%s", diff)
	}
}

func TestPlan_explains_included_and_excluded_clusters(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "north", "south", "west")
	s.setReady("north", metav1.ConditionFalse)
	s.patchMember("south", func(m *v1alpha1.MemberCluster) { m.Spec.Unschedulable = true })
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "test" })
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "prod"}}}}
	s.createApp()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending))
	s.checkCondition(v1alpha1.ConditionPlaced, metav1.ConditionTrue, v1alpha1.ReasonPlaced, "placed on 1 cluster of 4; not on 1 cluster not Ready, 1 cluster with other labels (want tier=prod), 1 cluster with spec.unschedulable")
	want := []v1alpha1.ExcludedClusters{
		{Reason: v1alpha1.ReasonClusterNotReady, Count: 1, Examples: []string{"north"}},
		{Reason: v1alpha1.ReasonSelectorMismatch, Count: 1, Examples: []string{"west"}, Requirements: []string{"tier=prod"}},
		{Reason: v1alpha1.ReasonUnschedulable, Count: 1, Examples: []string{"south"}},
	}
	if diff := cmp.Diff(want, s.app.Status.Placement.Excluded); diff != "" {
		t.Errorf("excluded (-want +got):\n%s", diff)
	}

	// Every relevant change of a member causes a new plan.
	s.setReady("north", metav1.ConditionTrue)
	s.patchMember("south", func(m *v1alpha1.MemberCluster) { m.Spec.Unschedulable = false })
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "prod" })
	s.waitForEntries(
		s.entry("east", v1alpha1.ClusterPending), s.entry("north", v1alpha1.ClusterPending),
		s.entry("south", v1alpha1.ClusterPending), s.entry("west", v1alpha1.ClusterPending),
	)
}

func TestMember_that_joins_gets_an_entry(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.join("west")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterPending))
}

func TestObservations_update_entries(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 2 clusters: east, west")
	if s.app.Status.Replicas != 2 || s.app.Status.Summary.Display != "2/2" {
		t.Errorf("replicas %d, %s ready", s.app.Status.Replicas, s.app.Status.Summary.Display)
	}

	refused := observation.Observation{
		UID: s.app.UID, Generation: 1, Phase: v1alpha1.ClusterFailed,
		Reason: v1alpha1.ReasonRefused, Message: strings.Repeat("no ", 700),
	}
	s.report("west", refused)
	entry := s.entry("west", v1alpha1.ClusterFailed, applied(1, 0), withReason(v1alpha1.ReasonRefused, refused.Message[:1023]+"…"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), entry)
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonClustersFailed, "1 of 2 clusters not ready: west (Refused)")
}

func TestObservation_of_another_AppService_is_ignored(t *testing.T) {
	t.Parallel()
	s := newPlanned(t, "east", "west")
	lost := s.readyObservation()
	lost.UID = "uid-of-another"
	s.report("east", lost)
	s.report("west", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending), s.entry("west", v1alpha1.ClusterReady))
}

func TestAppService_that_was_recreated_ignores_observations_of_its_predecessor(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.delete()
	s.waitForEntries(s.removingEntry("east"))
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForDeletion()
	s.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: s.app.Name}, Spec: s.app.Spec}
	s.createApp()
	s.revision = 2 // the garbage collector has not deleted the first yet
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending))
}

func TestEdit_updates_the_generation_of_every_entry(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	old := s.readyObservation()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(3)) })
	if s.app.Generation != 2 {
		t.Fatal("generation", s.app.Generation)
	}
	progressing := func(member string) v1alpha1.ClusterStatus {
		return s.entry(member, v1alpha1.ClusterProgressing, applied(1, 2))
	}
	s.waitForEntries(progressing("east"), progressing("west"))
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "2 of 2 clusters not ready: east (RollingOut), west (RollingOut)")

	// An observation of the previous generation does not update the entry.
	old.ReadyReplicas = 1
	s.report("east", old)
	s.report("west", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 2), func(entry *v1alpha1.ClusterStatus) { entry.ReadyReplicas, entry.UnreadyReplicas = 1, 1 }), s.entry("west", v1alpha1.ClusterReady))
}

func TestInvalid_placement_changes_no_entry(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	want := s.app.Status.Clusters
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "no such value!"}}}}
	})
	wait.Eventually(t, func() error { return s.checkStalled(v1alpha1.ReasonInvalidPlacement) })
	if diff := cmp.Diff(want, s.app.Status.Clusters); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	s.checkNeverRemoving()
}

// Invariant 5.
func TestPlanner_at_rest_writes_nothing(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.setReady("west", metav1.ConditionFalse)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.unknownEntry("west"))
	s.sent.reset()
	s.reconcileOnce()
	s.checkWrites()

	tests := map[string]func(){
		"before an observation":      func() {},
		"after the same observation": func() { s.report("east", s.readyObservation()) },
		"after a change of a member that no plan contains": func() {
			s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Annotations = map[string]string{"note": "1"} })
		},
	}
	for name, then := range tests {
		t.Run("after a restart "+name, func(t *testing.T) {
			s.restart()
			then()
			s.reconcileOnce()
			s.checkWrites()
			version := s.app.ResourceVersion
			s.readApp()
			if s.app.ResourceVersion != version {
				t.Error("the AppService was written")
			}
		})
	}
}

// The status is written once per second after the first writes, regardless of the number of reports
// and clusters. The members report until one write more has been made than the throttle allows at
// once.
func TestReports_are_coalesced_into_one_write_per_second(t *testing.T) {
	t.Parallel()
	members := []string{"east", "north", "south", "west"}
	s := newRunning(t, members...)
	s.waitForBurst()
	s.sent.reset()
	begin := time.Now()
	seen := s.readyObservation()
	for len(s.sent.list()) < statusBurst+2 {
		seen.ReadyReplicas++
		for _, member := range members {
			s.observations.Report(s.key(), member, seen)
		}
		<-time.After(5 * time.Millisecond)
	}
	var want []v1alpha1.ClusterStatus
	for _, member := range members {
		entry := s.entry(member, v1alpha1.ClusterReady)
		entry.ReadyReplicas = seen.ReadyReplicas
		want = append(want, entry)
	}
	s.waitForEntries(want...)
	took, writes := time.Since(begin), len(s.sent.list())
	t.Logf("%d reports in %v: %d writes", int(seen.ReadyReplicas)*len(members), took, writes)
	if most := int(took/statusInterval) + statusBurst + 1; writes > most {
		t.Errorf("%d writes within %v, want at most %d", writes, took, most)
	}
}

// waitForBurst waits until the throttle delays none of the next writes.
func (s *fixture) waitForBurst() {
	s.Helper()
	wait.Eventually(s.T, func() error {
		writes := s.sent.list()
		if age := time.Since(writes[len(writes)-1].at); age < (statusBurst+1)*statusInterval {
			return fmt.Errorf("the last write was %v ago", age)
		}
		return nil
	})
}

// Members that join, in any number, cause one write of each AppService per second.
func TestMembers_that_join_are_planned_in_one_write_per_second(t *testing.T) {
	t.Parallel()
	s := newPlanned(t, "member-00")
	s.sent.reset()
	begin := time.Now()
	want := []v1alpha1.ClusterStatus{s.entry("member-00", v1alpha1.ClusterPending)}
	for i := range 40 {
		member := fmt.Sprintf("member-%02d", i+1)
		s.join(member)
		want = append(want, s.entry(member, v1alpha1.ClusterPending))
	}
	s.waitForEntries(want...)
	took, writes := time.Since(begin), len(s.sent.list())
	t.Logf("40 members joined in %v: %d writes", took, writes)
	if most := int(took/statusInterval) + statusBurst + 1; writes > most {
		t.Errorf("%d writes within %v, want at most %d", writes, took, most)
	}
}

// The plan of an edit ignores the throttle, which would delay any other write for an hour here.
func TestPlan_is_written_at_once(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	r := s.reconciler(s.hub)
	reconcile := func() time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), s.request())
		s.must(err)
		s.readApp()
		return result.RequeueAfter
	}
	seen := s.readyObservation()
	seen.ReadyReplicas = 0
	s.observations.Report(s.key(), "east", seen)
	if pause := reconcile(); pause != 0 || s.app.Status.Clusters[0].ReadyReplicas != 0 {
		t.Fatalf("the first observation waits for %v, and the entry is %+v", pause, s.app.Status.Clusters[0])
	}
	r.throttle.delayWrites(s.app.UID)
	r.throttle.allowPlan(s.app.UID)
	seen.ReadyReplicas = 1
	s.observations.Report(s.key(), "east", seen)
	if pause := reconcile(); pause < 59*time.Minute || s.app.Status.Clusters[0].ReadyReplicas != 0 {
		t.Fatalf("an observation waits for %v, and the entry is %+v", pause, s.app.Status.Clusters[0])
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	if pause := reconcile(); pause != 0 || s.app.Status.Clusters[0].Generation != 2 {
		t.Errorf("the plan waits for %v, and the entry is %+v", pause, s.app.Status.Clusters[0])
	}
}

// No event reports that the wait for a cluster has expired.
func TestPlan_is_rechecked_after_the_time_limit(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "west")
	s.setReady("west", metav1.ConditionFalse)
	most := int32(4)
	s.app.Spec.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided, Rules: []v1alpha1.ReplicaRule{{Name: "all", MaxReplicas: &most}}}
	s.app.Spec.Replicas = new(int32(6))
	s.createApp()
	short := func(entry *v1alpha1.ClusterStatus) { entry.Replicas, entry.ReadyReplicas = 4, 4 }
	ready := s.readyObservation()
	ready.Planned, ready.Replicas, ready.ReadyReplicas = 4, 4, 4
	s.report("east", ready)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady, short))
	s.patchMember("west", func(m *v1alpha1.MemberCluster) {
		m.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(5*time.Second - 10*time.Minute))
	})
	s.waitForCache()
	ready.ReadyReplicas = 3 // any change, so that the AppService is planned
	s.report("east", ready)
	wait.Eventually(t, func() error {
		s.readApp()
		if stalled := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionStalled); stalled == nil || stalled.Reason != v1alpha1.ReasonReplicasOutOfBounds {
			return fmt.Errorf("conditions are %+v", s.app.Status.Conditions)
		}
		return nil
	})
}

// Otherwise each reconciliation would copy a thousand MemberClusters.
func TestGather_copies_no_MemberCluster(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.waitForCache()
	labels := func() uintptr {
		in, err := s.reconciler(s.client).gather(t.Context(), stored{app: s.app}, nil, metav1.Now())
		s.must(err)
		return reflect.ValueOf(in.Members["east"].Labels).Pointer()
	}
	if first, second := labels(), labels(); first != second {
		t.Error("two reconciliations have two copies")
	}
}

// A member that was found unreachable ends the wait for its report, so that a missing workload is
// created.
func TestGather_has_the_unreachable_members_while_a_workload_is_missing(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	r := s.reconciler(s.client)
	s.observations.ReportUnreachable("west")
	missing := s.readyObservation()
	missing.Missing = true
	for seen, want := range map[*observation.Observation]int{new(s.readyObservation()): 0, &missing: 1} {
		in, err := r.gather(t.Context(), stored{app: s.app}, map[string]observation.Observation{"east": *seen}, metav1.Now())
		s.must(err)
		if _, found := in.Unreachable["west"]; found != (want > 0) || len(in.Unreachable) != want {
			t.Errorf("missing %t: %v are unreachable", seen.Missing, in.Unreachable)
		}
	}
}
