package planner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Invariant 2: the deletion of a namespace on the hub is not evidence that members are to delete
// their workloads.
func TestNamespace_deletion_removes_nothing_from_members(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.must(s.hub.Delete(t.Context(), s.app)) // as the namespace controller does
	s.waitForDeletion()
	s.checkNeverRemoving()
	s.waitForEventIn("default", v1alpha1.ReasonNamespaceOrCRDDeleted, "web", fmt.Sprintf("AppService %[1]s/web is deleted with Namespace %[1]s; 2 clusters keep the workload", s.app.Namespace))
}

// Invariant 2: AppServices share the reads of their namespace. The read for one that a user has
// deleted is no evidence for another one that is deleted with the namespace a moment later.
func TestNamespace_deletion_is_noticed_right_after_the_deletion_of_another_AppService(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	other := s.app.DeepCopy()
	other.Name, other.ResourceVersion, other.UID = "other", "", ""
	s.must(s.hub.Create(t.Context(), other))
	r := s.reconciler(s.hub)
	s.delete()
	s.reconcileWith(r, s.key())
	s.readApp()
	if s.app.Status.Clusters[0].Phase != v1alpha1.ClusterRemoving {
		t.Fatalf("the deleted AppService is %+v", s.app.Status.Clusters[0])
	}
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.must(s.hub.Delete(t.Context(), other)) // as the namespace controller does
	s.reconcileWith(r, client.ObjectKeyFromObject(other))
	if err := s.hub.Get(t.Context(), client.ObjectKeyFromObject(other), other); !apierrors.IsNotFound(err) {
		t.Errorf("the AppService is not released: %v, %+v", err, other.Status.Clusters)
	}
}

// A deletion reads the namespace and the CRD again and again, but not for each reconcile.
func TestDeletion_shares_the_reads_of_the_namespace_and_the_CRD(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	live := &countingReader{Reader: s.hub}
	r := newReconciler(s.hub, live, events.NewFakeRecorder(10), s.observations, s.options)
	s.delete()
	start := time.Now()
	for range 10 {
		s.reconcileWith(r, s.key())
	}
	most := 2 * (1 + int32(time.Since(start)/maxSharedAge))
	if got := live.reads.Load(); got < 2 || got > most {
		t.Errorf("the hub was read %d times, want 2 to %d", got, most)
	}
}

// reconcileWith reconciles an AppService at once.
func (s *fixture) reconcileWith(r *Reconciler, key client.ObjectKey) reconcile.Result {
	s.Helper()
	app := &v1alpha1.AppService{}
	s.must(s.hub.Get(s.Context(), key, app))
	r.throttle.allowPlan(app.UID)
	result, err := r.Reconcile(s.Context(), reconcile.Request{NamespacedName: key})
	s.must(err)
	return result
}

// The progress of a deletion is written once per second, without the burst that other changes have.
// The removal of the finalizer does not wait for that.
func TestDeletion_writes_few_statuses(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.stop()
	r := s.reconciler(s.hub)
	s.delete()
	s.reconcileWith(r, s.key())
	s.readApp()
	removing := s.app.ResourceVersion
	s.observations.Report(s.key(), "east", s.removalConfirmed(s.transitionTime("east")))
	r.throttle.of(s.app.UID).lastWrite = time.Now().Add(time.Hour) // for which gap, TestGap_between_writes shows
	if pause := s.reconcileWith(r, s.key()).RequeueAfter; pause == 0 {
		t.Error("the progress is not throttled")
	}
	if s.readApp(); s.app.ResourceVersion != removing {
		t.Errorf("the status was written: %+v", s.app.Status.Clusters)
	}
	s.observations.Report(s.key(), "west", s.removalConfirmed(s.transitionTime("west")))
	s.reconcileWith(r, s.key())
	s.waitForDeletion()
}

func TestNamespace_deletion_ends_the_deletion_of_its_AppServices(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.setReady("west", metav1.ConditionFalse)
	s.delete()
	s.waitForEntries(s.removingEntry("east"), s.unreachableEntry("west"))
	if pause := s.reconcileOnce().RequeueAfter; pause != 10*time.Second {
		t.Errorf("RequeueAfter is %v, want 10s", pause)
	}
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.reconcileOnce()
	s.waitForDeletion()
	// The AppService was deleted before the namespace: the workload on west is removed when west
	// returns.
	s.waitForTombstones(s.tombstone())
}

// Invariant 8: the tombstone is written before the AppService is released.
func TestNamespace_deletion_adds_a_tombstone_first(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "west")
	s.setReady("west", metav1.ConditionFalse)
	s.delete()
	s.waitForEntries(s.unreachableEntry("west"))
	s.stop()
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.start()
	s.waitForDeletion()
	wait.Eventually(t, s.sent.checkResponses) // the deletion is seen before the response arrives
	var accepted []string
	for _, w := range s.sent.list() {
		switch {
		case w.line != westStatusWrite && w.line != finalizer:
		case w.code == http.StatusOK:
			accepted = append(accepted, w.line)
		case w.line != finalizer || !slices.Contains(accepted, finalizer):
			t.Errorf("%s: the response is %d", w.line, w.code)
		}
	}
	// The tombstone causes another reconciliation. If the cache still has the AppService by then,
	// the release is sent again, and the hub does not accept it.
	if diff := cmp.Diff([]string{westStatusWrite, finalizer}, accepted); diff != "" {
		t.Errorf("accepted by the hub (-want +got):\n%s", diff)
	}
}

func TestCRD_deletion_removes_nothing_from_members(t *testing.T) {
	t.Parallel()
	s := newFixtureOn(t, ownHub(t), "east", "west")
	s.createPlanned("east", "west")
	s.reportReady("east", "west")
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
	crd.SetGroupVersionKind(crdKind)
	s.must(s.hub.Delete(t.Context(), crd)) // the API server deletes every AppService then
	s.waitForDeletion()
	s.checkNeverRemoving()
	s.waitForEventIn("default", v1alpha1.ReasonNamespaceOrCRDDeleted, "web", fmt.Sprintf("AppService %s/web is deleted with CustomResourceDefinition %s; 2 clusters keep the workload", s.app.Namespace, crdName))
}

// failingReader is a reader that fails for objects of one kind.
type failingReader struct {
	client.Reader
	kind string
}

func (u failingReader) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if into.GetObjectKind().GroupVersionKind().Kind == u.kind {
		return errors.New("forbidden by the test")
	}
	return u.Reader.Get(ctx, key, into, options...)
}

// Invariant 2: a failed read is not evidence.
func TestDeletion_waits_until_the_namespace_and_the_CRD_are_read(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	s.delete()
	for _, kind := range []string{namespaceKind.Kind, crdKind.Kind} {
		r := newReconciler(s.hub, failingReader{s.hub, kind}, events.NewFakeRecorder(10), s.observations, s.options)
		if _, err := r.Reconcile(t.Context(), s.request()); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s cannot be read: the error is %v", kind, err)
		}
		s.readApp()
		if s.app.Status.Clusters[0].Phase != v1alpha1.ClusterReady || !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
			t.Errorf("%s cannot be read, and the AppService changed: %+v", kind, s.app.Status.Clusters[0])
		}
	}
	s.start()
	s.waitForEntries(s.removingEntry("east"))
}

// After its status was lost, the AppService may run on any cluster. Reachable clusters get
// a Removing entry, the others a tombstone.
func TestDeletion_without_status_removes_from_every_cluster(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.stop()
	s.setReady("west", metav1.ConditionFalse)
	s.clearStatus()
	s.delete()
	s.start()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterRemoving, atRevision(0), applied(0, 0), func(entry *v1alpha1.ClusterStatus) { entry.Replicas = 0 }))
	s.waitForTombstones(s.tombstone())
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
}

// If no cluster is reachable, each one gets a tombstone.
func TestDeletion_without_status_and_reachable_clusters_adds_tombstones(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "west")
	s.stop()
	s.setReady("west", metav1.ConditionFalse)
	s.clearStatus()
	s.delete()
	s.start()
	s.waitForDeletion()
	s.waitForTombstones(s.tombstone())
}

// Invariant 2: the deletion of a namespace is not evidence, even if the status was lost.
func TestNamespace_deletion_adds_no_tombstone_without_status(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.stop()
	s.setReady("west", metav1.ConditionFalse)
	s.clearStatus()
	s.must(s.hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.delete()
	s.start()
	s.waitForDeletion()
	s.checkNeverRemoving()
	s.waitForTombstones()
}

// An AppService that was never planned on a cluster is released at once.
func TestDeletion_without_entries_waits_for_no_cluster(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "none"}}}}
	s.createApp()
	wait.Eventually(t, func() error {
		s.readApp()
		if s.app.Status.ObservedGeneration != s.app.Generation {
			return errors.New("the AppService is not planned yet")
		}
		return nil
	})
	s.must(s.hub.Delete(t.Context(), s.app))
	s.waitForDeletion()
	s.checkNeverRemoving()
}

// clearStatus removes the status and keeps the finalizer, as a restore does.
func (s *fixture) clearStatus() {
	s.Helper()
	s.readApp()
	s.app.Status = v1alpha1.AppServiceStatus{ObservedGeneration: -1}
	s.must(s.hub.Status().Update(s.Context(), s.app))
}
