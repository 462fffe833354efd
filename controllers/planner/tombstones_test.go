package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const westStatusWrite = "PATCH memberclusters/west/status"

// waitForTombstones waits until west has exactly these tombstones.
func (s *fixture) waitForTombstones(want ...v1alpha1.AbandonedAppService) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		west := &v1alpha1.MemberCluster{}
		s.must(s.hub.Get(s.Context(), client.ObjectKey{Name: "west"}, west))
		if diff := cmp.Diff(want, west.Status.Abandoned); diff != "" {
			return fmt.Errorf("tombstones (-want +got):\n%s", diff)
		}
		if !west.IsReady() && west.Status.Conditions[0].Reason != v1alpha1.ReasonConnected {
			return fmt.Errorf("the rest of the status changed: %+v", west.Status)
		}
		return nil
	})
}

func (s *fixture) tombstone() v1alpha1.AbandonedAppService {
	return v1alpha1.AbandonedAppService{Namespace: s.app.Namespace, Name: s.app.Name, UID: s.app.UID}
}

// tombstoneOf returns the tombstone of a placement that ended. That of a deletion has no number.
func (s *fixture) tombstoneOf(placement int64) v1alpha1.AbandonedAppService {
	tombstone := s.tombstone()
	tombstone.Placement = &placement
	return tombstone
}

// Invariant 8: the tombstone is written before the AppService is released.
func TestAbandoned_cluster_has_a_tombstone_before_the_deletion_ends(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "west")
	s.setReady("west", metav1.ConditionFalse)
	s.waitForEntries(s.unknownEntry("west"))
	s.delete()
	s.waitForEntries(s.unreachableEntry("west"))
	s.sent.refuseWrites("memberclusters/west/status")
	s.edit(annotate(v1alpha1.AnnotationAbandon, "no-such-cluster, west"))
	wait.Eventually(t, func() error {
		if !slices.Contains(s.sent.lines(), westStatusWrite) {
			return fmt.Errorf("writes %v", s.sent.lines())
		}
		return nil
	})
	s.readApp()
	s.waitForEntries(s.unreachableEntry("west"))
	if !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
		t.Error("the finalizer was removed before the tombstone was written")
	}
	s.waitForTombstones()
	s.sent.refuseWrites("")
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
	s.waitForEvent(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again")
	lines := s.sent.lines()
	tried := slices.Index(lines, westStatusWrite)
	if released := tried + slices.Index(lines[tried:], finalizer); slices.Contains(lines[released:], westStatusWrite) || released < tried {
		t.Errorf("writes %v", lines)
	}
}

func TestAbandoned_cluster_has_no_tombstone_with_deletionPolicy_Orphan(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "west")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	s.setReady("west", metav1.ConditionFalse)
	s.delete()
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.waitForDeletion()
	s.waitForTombstones()
	s.waitForEvent(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects stay there")
}

func TestAbandoned_cluster_without_Secret_is_released_at_once(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.detach("west")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterDetached, withReason(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready")))
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
	s.waitForEvent(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects stay there")
}

// The Secret may return at any time, together with the workload.
func TestDeletion_leaves_a_tombstone_on_a_member_whose_Secret_is_missing(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "west")
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = new(metav1.Now()) })
	detached := s.entry("west", v1alpha1.ClusterDetached, withReason(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.waitForEntries(detached)
	s.delete()
	s.reconcileOnce()
	s.waitForEntries(detached)
	s.waitForTombstones()
	s.stop()
	s.app.Status.Clusters[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Minute))
	s.must(s.hub.Status().Update(t.Context(), s.app))
	s.start()
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
	s.waitForEvent(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again")
}

// The tombstone is removed before the entry is written. Otherwise delivery would delete the objects
// of the entry.
func TestTombstone_is_removed_before_the_cluster_is_chosen_again(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.edit(onlyOn("east"))
	s.report("east", s.readyObservation())
	s.waitForTombstones(s.tombstoneOf(1))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
	s.sent.reset()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(2, 2)), s.entry("west", v1alpha1.ClusterPending))
	s.waitForTombstones()
	writes := s.sent.list()
	record := slices.IndexFunc(writes, func(w write) bool { return w.line == westStatusWrite })
	entry := slices.IndexFunc(writes, func(w write) bool { return w.line == statusWrite && strings.Contains(w.body, "west") })
	if record < 0 || entry < record {
		t.Errorf("writes %v", s.sent.lines())
	}
}

// Otherwise neither a tombstone nor an entry would account for the objects on the cluster, until
// the throttle allows to write the entry.
func TestTombstone_stays_until_the_entry_may_be_written(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	taint := func(taints ...v1alpha1.Taint) {
		s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Spec.Taints = taints })
	}
	taint(v1alpha1.Taint{Key: "drain", Effect: v1alpha1.TaintNoExecute})
	s.waitForTombstones(s.tombstoneOf(1))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
	s.stop()
	taint()
	r := s.reconciler(s.hub)
	r.throttle.delayWrites(s.app.UID)
	result, err := r.Reconcile(t.Context(), s.request())
	s.must(err)
	if result.RequeueAfter < 59*time.Minute {
		t.Errorf("RequeueAfter is %v", result.RequeueAfter)
	}
	s.waitForTombstones(s.tombstoneOf(1))

	r.throttle.forget(s.app.UID)
	_, err = r.Reconcile(t.Context(), s.request())
	s.must(err)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterPending))
	s.waitForTombstones()
}

// Otherwise the last observation of the removed workload would make the new entry Ready.
func TestCluster_that_is_chosen_again_is_Pending_although_the_response_to_the_last_write_was_lost(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.sent.loseResponses(statusWrite[len("PATCH "):])
	s.patchMember("west", func(m *v1alpha1.MemberCluster) {
		m.Spec.Taints = []v1alpha1.Taint{{Key: "drain", Effect: v1alpha1.TaintNoExecute}}
	})
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
	s.sent.loseResponses("")
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Spec.Taints = nil })
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterPending))
}

// The status has other writers: the tombstones of other AppServices stay.
func TestAbandoned_clusters_keep_other_tombstones(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "west")
	other := v1alpha1.AbandonedAppService{Namespace: "shop", Name: "other", UID: "uid-other"}
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Status.Abandoned = []v1alpha1.AbandonedAppService{other} })
	s.edit(func(app *v1alpha1.AppService) {
		onlyOn("east")(app) // east has not joined, so a removal would wait for it
		app.Annotations = map[string]string{
			v1alpha1.AnnotationAbandon: "west", v1alpha1.AnnotationAcceptRemovals: "1@2", v1alpha1.AnnotationAcceptUnready: "true",
		}
	})
	s.waitForTombstones(other, s.tombstoneOf(1))
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	s.waitForTombstones(other)
}
