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
)

const onWest = "PATCH memberclusters/west/status"

// onRecord waits until west has exactly these tombstones.
func (s *scene) onRecord(want ...v1alpha1.AbandonedAppService) {
	s.Helper()
	eventually(s.T, func() error {
		west := &v1alpha1.MemberCluster{}
		s.must(hub.Get(s.Context(), client.ObjectKey{Name: "west"}, west))
		if diff := cmp.Diff(want, west.Status.Abandoned); diff != "" {
			return fmt.Errorf("on record (-want +got):\n%s", diff)
		}
		if !west.IsReady() && west.Status.Conditions[0].Reason != v1alpha1.ReasonConnected {
			return fmt.Errorf("the rest of the status changed: %+v", west.Status)
		}
		return nil
	})
}

func (s *scene) record() v1alpha1.AbandonedAppService {
	return v1alpha1.AbandonedAppService{Namespace: s.app.Namespace, Name: s.app.Name, UID: s.app.UID}
}

// Invariant 8: the tombstone is written before the AppService is released.
func TestAbandoned_cluster_has_a_tombstone_before_the_deletion_ends(t *testing.T) {
	s := running(t, "west")
	s.answers("west", metav1.ConditionFalse)
	s.has(s.unknown("west"))
	s.delete()
	s.has(s.unreachable("west"))
	s.sent.refusing("memberclusters/west/status")
	s.edit(annotate(v1alpha1.AnnotationAbandon, "no-such-cluster, west"))
	eventually(t, func() error {
		if !slices.Contains(s.sent.lines(), onWest) {
			return fmt.Errorf("sent %v", s.sent.lines())
		}
		return nil
	})
	s.read()
	s.has(s.unreachable("west"))
	if !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
		t.Error("the finalizer went before it was on record")
	}
	s.onRecord()
	s.sent.refusing("")
	s.isGone()
	s.onRecord(s.record())
	s.told(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again")
	lines := s.sent.lines()
	tried := slices.Index(lines, onWest)
	if released := tried + slices.Index(lines[tried:], finalizer); slices.Contains(lines[released:], onWest) || released < tried {
		t.Errorf("sent %v", lines)
	}
}

func TestAbandoned_cluster_has_no_tombstone_with_deletionPolicy_Orphan(t *testing.T) {
	s := running(t, "west")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	s.answers("west", metav1.ConditionFalse)
	s.delete()
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.isGone()
	s.onRecord()
	s.told(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects stay there")
}

func TestAbandoned_cluster_without_Secret_is_released_at_once(t *testing.T) {
	s := running(t, "east", "west")
	s.detach("west")
	s.has(s.row("east", v1alpha1.ClusterReady), s.row("west", v1alpha1.ClusterDetached, saying(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready")))
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.has(s.row("east", v1alpha1.ClusterReady))
	s.told(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects stay there")
}

// The Secret may return at any time, together with the workload.
func TestDeletion_leaves_a_tombstone_on_a_member_whose_Secret_is_missing(t *testing.T) {
	s := running(t, "west")
	s.member("west", func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = new(metav1.Now()) })
	detached := s.row("west", v1alpha1.ClusterDetached, saying(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.has(detached)
	s.delete()
	s.look()
	s.has(detached)
	s.onRecord()
	s.stop()
	s.app.Status.Clusters[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Minute))
	s.must(hub.Status().Update(t.Context(), s.app))
	s.start()
	s.isGone()
	s.onRecord(s.record())
	s.told(v1alpha1.ReasonAbandoned, "west", "west: the AppService was abandoned on the cluster; its objects are removed when the cluster can be reached again")
}

// The tombstone is removed before the entry is written. Otherwise delivery would delete the objects
// of the entry.
func TestAbandoned_cluster_that_is_chosen_again_loses_its_tombstone(t *testing.T) {
	s := running(t, "east", "west")
	s.edit(annotate(v1alpha1.AnnotationAbandon, "west"))
	s.edit(onlyOn("east"))
	s.onRecord(s.record())
	s.has(s.row("east", v1alpha1.ClusterProgressing, ran(1, 2)))
	s.sent.reset()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	s.has(s.row("east", v1alpha1.ClusterProgressing, ran(1, 2)), s.row("west", v1alpha1.ClusterPending))
	s.onRecord()
	writes := s.sent.all()
	record := slices.IndexFunc(writes, func(w write) bool { return w.line == onWest })
	row := slices.IndexFunc(writes, func(w write) bool { return w.line == statusWrite && strings.Contains(w.body, "west") })
	if record < 0 || row < record {
		t.Errorf("sent %v", s.sent.lines())
	}
}

// The status has other writers: the tombstones of other AppServices stay.
func TestAbandoned_clusters_keep_other_tombstones(t *testing.T) {
	s := running(t, "west")
	other := v1alpha1.AbandonedAppService{Namespace: "shop", Name: "other", UID: "uid-other"}
	s.member("west", func(m *v1alpha1.MemberCluster) { m.Status.Abandoned = []v1alpha1.AbandonedAppService{other} })
	s.edit(func(app *v1alpha1.AppService) {
		onlyOn("east")(app) // east has not joined, so a removal would wait for it
		app.Annotations = map[string]string{
			v1alpha1.AnnotationAbandon: "west", v1alpha1.AnnotationAcceptRemovals: "1@2", v1alpha1.AnnotationAcceptUnready: "true",
		}
	})
	s.onRecord(other, s.record())
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	s.onRecord(other)
}
