package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Law 2: who deletes a namespace of the hub does not say that the members are to lose what they run.
func TestNamespace_that_is_deleted_takes_nothing_from_the_members(t *testing.T) {
	s := running(t, "east", "west")
	s.must(hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.must(hub.Delete(t.Context(), s.app)) // as the namespace controller does
	s.isGone()
	s.neverRemoved()
	s.toldIn("default", v1alpha1.ReasonNamespaceOrCRDDeleted, "web", fmt.Sprintf("AppService %[1]s/web goes with Namespace %[1]s; 2 clusters keep what they run of it", s.app.Namespace))
}

func TestNamespace_that_is_deleted_ends_the_deletion_of_what_is_in_it(t *testing.T) {
	s := running(t, "east", "west")
	s.answers("west", metav1.ConditionFalse)
	s.delete()
	s.has(s.removing("east"), s.unreachable("west"))
	if wait := s.look().RequeueAfter; wait != 10*time.Second {
		t.Errorf("looks again after %v, want 10s", wait)
	}
	s.must(hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.look()
	s.isGone()
	// Somebody has deleted the AppService before the namespace: what runs on west is removed when west is back.
	s.onRecord(s.record())
}

// Law 8: the tombstone is there before the AppService goes.
func TestNamespace_that_is_deleted_leaves_a_tombstone_first(t *testing.T) {
	s := running(t, "west")
	s.answers("west", metav1.ConditionFalse)
	s.delete()
	s.has(s.unreachable("west"))
	s.stop()
	s.must(hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.start()
	s.isGone()
	var got []string
	for _, line := range s.sent.lines() {
		if line == onWest || line == finalizer {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff([]string{onWest, finalizer}, got); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func TestCRD_that_is_deleted_takes_nothing_from_the_members(t *testing.T) {
	ownHub(t)
	s := running(t, "east", "west")
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: crdName}}
	crd.SetGroupVersionKind(crdKind)
	s.must(hub.Delete(t.Context(), crd)) // the API server deletes every AppService then
	s.isGone()
	s.neverRemoved()
	s.toldIn("default", v1alpha1.ReasonNamespaceOrCRDDeleted, "web", fmt.Sprintf("AppService %s/web goes with CustomResourceDefinition %s; 2 clusters keep what they run of it", s.app.Namespace, crdName))
}

// unreadable is a hub that cannot be asked about objects of a kind.
type unreadable struct {
	client.Reader
	kind string
}

func (u unreadable) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if into.GetObjectKind().GroupVersionKind().Kind == u.kind {
		return errors.New("forbidden, says the test")
	}
	return u.Reader.Get(ctx, key, into, options...)
}

// Law 2: what cannot be read is no evidence.
func TestDeletion_waits_until_it_is_known_who_deletes(t *testing.T) {
	s := running(t, "east")
	s.stop()
	s.delete()
	for _, kind := range []string{namespaceKind.Kind, crdKind.Kind} {
		r := newReconciler(hub, unreadable{hub, kind}, events.NewFakeRecorder(10), s.observations)
		if _, err := r.Reconcile(t.Context(), s.request()); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s cannot be read, and the error is %v", kind, err)
		}
		s.read()
		if s.app.Status.Clusters[0].Phase != v1alpha1.ClusterReady || !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
			t.Errorf("%s cannot be read, and yet: %+v", kind, s.app.Status.Clusters[0])
		}
	}
	s.start()
	s.has(s.removing("east"))
}

// A status that was lost says nothing of where it runs. Whoever can be asked is asked; the others are noted.
func TestDeletion_without_a_status_asks_every_cluster(t *testing.T) {
	s := running(t, "east", "west")
	s.stop()
	s.answers("west", metav1.ConditionFalse)
	s.loseStatus()
	s.delete()
	s.start()
	s.has(s.row("east", v1alpha1.ClusterRemoving, ran(0, 0), func(row *v1alpha1.ClusterStatus) { row.Replicas = 0 }))
	s.onRecord(s.record())
	s.sees("east", s.gone(s.since("east")))
	s.isGone()
	s.onRecord(s.record())
}

// Where nobody can be asked, all that can be done is to note it.
func TestDeletion_without_a_status_and_without_reachable_clusters_leaves_tombstones(t *testing.T) {
	s := running(t, "west")
	s.stop()
	s.answers("west", metav1.ConditionFalse)
	s.loseStatus()
	s.delete()
	s.start()
	s.isGone()
	s.onRecord(s.record())
}

// Law 2: who deletes a namespace says nothing of the members, also when no status says where it runs.
func TestNamespace_that_is_deleted_leaves_no_tombstone_without_a_status(t *testing.T) {
	s := running(t, "east", "west")
	s.stop()
	s.answers("west", metav1.ConditionFalse)
	s.loseStatus()
	s.must(hub.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.app.Namespace}}))
	s.delete()
	s.start()
	s.isGone()
	s.neverRemoved()
	s.onRecord()
}

// One that was planned for no cluster is gone at once, as ever.
func TestDeletion_of_what_runs_nowhere_asks_nobody(t *testing.T) {
	s := undeclared(t, "east")
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "none"}}}}
	s.declare()
	eventually(t, func() error {
		s.read()
		if s.app.Status.ObservedGeneration != s.app.Generation {
			return errors.New("it is not planned yet")
		}
		return nil
	})
	s.must(hub.Delete(t.Context(), s.app))
	s.isGone()
	s.neverRemoved()
}

// loseStatus is a restore of what has a finalizer and no status.
func (s *scene) loseStatus() {
	s.Helper()
	s.read()
	s.app.Status = v1alpha1.AppServiceStatus{ObservedGeneration: -1}
	s.must(hub.Status().Update(s.Context(), s.app))
}

// ownHub has the test run on an API server that no other test does.
func ownHub(t *testing.T) {
	t.Helper()
	sharedHub, sharedGranted := hub, granted
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../config/crd/bases"}, UseExistingCluster: new(false), ControlPlaneStartTimeout: time.Minute}
	t.Cleanup(func() {
		hub, granted = sharedHub, sharedGranted
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := start(environment); err != nil {
		t.Fatal(err)
	}
}
