package planner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// stalled reads the AppService and returns an error until it is Stalled with the reason.
func (s *scene) stalled(reason string) error {
	s.read()
	got := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionStalled)
	if got == nil || got.Reason != reason {
		return fmt.Errorf("Stalled is %+v, want %s", got, reason)
	}
	return nil
}

// neverRemoved fails the test if an entry was ever Removing, because delivery would have deleted
// objects.
func (s *scene) neverRemoved() {
	s.Helper()
	for _, w := range s.sent.all() {
		if strings.Contains(w.body, string(v1alpha1.ClusterRemoving)) {
			s.Error("an entry was Removing:", w.body)
		}
	}
}

// unknown returns the entry of an unreachable member that ran the current generation.
func (s *scene) unknown(member string) v1alpha1.ClusterStatus {
	return s.row(member, v1alpha1.ClusterUnknown, saying(v1alpha1.ReasonClusterUnreachable,
		"MemberCluster "+member+" is not Ready; last known: Ready, 2 of 2 replicas ready"))
}

// removing returns the entry of a member that ran generation 1 and is Removing.
func (s *scene) removing(member string) v1alpha1.ClusterStatus {
	return s.row(member, v1alpha1.ClusterRemoving, ran(1, 2))
}

// unreachable returns the entry of an unreachable member that is Removing.
func (s *scene) unreachable(member string) v1alpha1.ClusterStatus {
	return s.row(member, v1alpha1.ClusterRemoving, ran(1, 2), saying(v1alpha1.ReasonClusterUnreachable,
		"the removal continues when the cluster can be reached; see MemberCluster "+member), lastSeen(v1alpha1.ClusterRemoving))
}

// lastSeen sets the last phase in which the member was observed.
func lastSeen(phase v1alpha1.ClusterPhase) func(*v1alpha1.ClusterStatus) {
	return func(row *v1alpha1.ClusterStatus) { row.LastKnownPhase = phase }
}

// Invariant 3.
func TestUnreachable_member_is_Unknown_with_its_last_known_state(t *testing.T) {
	s := running(t, "east", "west")
	before := s.since("west")
	s.answers("west", metav1.ConditionUnknown)
	s.observations.ForgetCluster("west")
	s.has(s.row("east", v1alpha1.ClusterReady), s.unknown("west"))
	s.says(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClustersUnknown, "1 of 2 clusters not ready: west (ClusterUnreachable)")
	if since := s.since("west"); since.Before(&before) {
		t.Errorf("Unknown since %v, Ready since %v", since, before)
	}

	// An edit changes the desired state, not the last known state.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	west := s.unknown("west")
	ran(1, 2)(&west)
	s.has(s.row("east", v1alpha1.ClusterProgressing, ran(1, 2)), west)
}

// A reachable member is no evidence of what it runs.
func TestReachable_member_is_Ready_after_an_observation(t *testing.T) {
	s := running(t, "east")
	s.answers("east", metav1.ConditionFalse)
	s.observations.ForgetCluster("east")
	s.has(s.unknown("east"))
	s.answers("east", metav1.ConditionTrue)
	s.look()
	s.has(s.unknown("east"))
	s.run("east")
}

// Invariants 2 and 8.
func TestMember_without_MemberCluster_is_Detached_and_never_Removing(t *testing.T) {
	s := running(t, "east", "west")
	s.detach("west")
	s.observations.ForgetCluster("west")
	detached := s.row("west", v1alpha1.ClusterDetached, saying(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.has(s.row("east", v1alpha1.ClusterReady), detached)
	s.says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 1 cluster: east")

	// Neither an edit, nor a placement without it, nor a restart makes it Removing.
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	})
	s.sees("east", s.ready())
	s.has(s.row("east", v1alpha1.ClusterReady), detached)
	s.restart()
	s.look()
	s.has(s.row("east", v1alpha1.ClusterReady), detached)
	s.neverRemoved()

	// The Secret returns.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	s.join("west")
	s.run("east", "west")
}

// The MemberCluster outlives its Secret. For an AppService, that is the same as a deleted
// MemberCluster, even if the member was not Ready before.
func TestMember_without_Secret_is_Detached_until_the_Secret_returns(t *testing.T) {
	s := running(t, "east", "west")
	s.answers("west", metav1.ConditionFalse)
	s.observations.ForgetCluster("west")
	s.has(s.row("east", v1alpha1.ClusterReady), s.unknown("west"))
	s.member("west", func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = new(metav1.Now()) })
	detached := s.row("west", v1alpha1.ClusterDetached, saying(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.has(s.row("east", v1alpha1.ClusterReady), detached)
	s.says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 1 cluster: east")
	want := []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonSecretMissing, Count: 1, Examples: []string{"west"}}}
	if diff := cmp.Diff(want, s.app.Status.Placement.Excluded); diff != "" {
		t.Errorf("excluded (-want +got):\n%s", diff)
	}
	s.neverRemoved()

	s.member("west", func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = nil })
	s.answers("west", metav1.ConditionTrue)
	s.run("east", "west")
}

func TestMember_that_no_longer_matches_is_Removing_until_nothing_is_left(t *testing.T) {
	s := undeclared(t, "east", "west")
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "prod"}}}}
	s.declare()
	s.has(s.row("east", v1alpha1.ClusterPending), s.row("west", v1alpha1.ClusterPending))
	s.run("east", "west")
	s.member("west", func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "test" })
	removing := s.removing("west")
	s.has(s.row("east", v1alpha1.ClusterReady), removing)
	s.says(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRemoving, "removing it from 1 cluster")

	// The confirmation of an earlier removal does not confirm this one.
	s.sees("west", s.gone(metav1.NewTime(s.since("west").Add(-time.Minute))))
	s.look()
	ran(1, 0)(&removing)
	s.has(s.row("east", v1alpha1.ClusterReady), removing)

	s.restart()
	s.look()
	s.has(s.row("east", v1alpha1.ClusterReady), removing)
	s.sees("west", s.gone(s.since("west")))
	s.has(s.row("east", v1alpha1.ClusterReady))
}

func TestMember_that_matches_again_is_no_longer_Removing(t *testing.T) {
	s := running(t, "east")
	s.edit(func(app *v1alpha1.AppService) {
		onlyOn("west")(app) // west has not joined, so a removal would wait for it
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptRemovals: "1@2", v1alpha1.AnnotationAcceptUnready: "true"}
	})
	removing := s.removing("east")
	removing.Generation = 1
	s.has(removing)
	since := s.since("east")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	arriving := func(row *v1alpha1.ClusterStatus) { row.Surging = true }
	s.has(s.row("east", v1alpha1.ClusterProgressing, ran(1, 2), arriving))
	s.sees("east", s.gone(since)) // an answer that arrives too late
	s.has(s.row("east", v1alpha1.ClusterProgressing, ran(1, 0), arriving))
}

func TestDeletion_ends_when_every_member_has_confirmed(t *testing.T) {
	s := running(t, "east", "west")
	s.sent.reset()
	s.delete()
	s.has(s.removing("east"), s.removing("west"))
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "removing it from 2 clusters: east, west")
	s.sees("east", s.gone(s.since("east")))
	s.has(s.removing("west"))
	if !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
		t.Error("the finalizer was removed before the last entry")
	}
	s.restart()
	s.look()
	s.has(s.removing("west"))
	s.sees("west", s.gone(s.since("west")))
	s.isGone()
	eventually(t, func() error {
		if left := s.observations.of(s.key()); len(left) > 0 {
			return fmt.Errorf("still remembered: %v", left)
		}
		return nil
	})
}

func TestDeletion_waits_for_an_unreachable_member_and_names_it(t *testing.T) {
	s := running(t, "east", "west")
	s.answers("west", metav1.ConditionFalse)
	s.has(s.row("east", v1alpha1.ClusterReady), s.unknown("west"))
	s.delete()
	s.has(s.removing("east"), s.unreachable("west"))
	s.sees("east", s.gone(s.since("east")))
	s.has(s.unreachable("west"))
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "removing it from 1 cluster: west (ClusterUnreachable)")
	s.look()
	s.has(s.unreachable("west"))
	s.answers("west", metav1.ConditionTrue)
	s.has(s.removing("west"))
	s.sees("west", s.gone(s.since("west")))
	s.isGone()
}

// The workload on a cluster without Secret is kept, so the AppService is released, but not at once:
// a MemberCluster that was deleted by hand is created again.
func TestDeletion_releases_a_member_that_stays_Detached(t *testing.T) {
	s := running(t, "east")
	s.detach("east")
	detached := s.row("east", v1alpha1.ClusterDetached, saying(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.has(detached)
	s.delete()
	if wait := s.look().RequeueAfter; wait != 10*time.Second {
		t.Errorf("looks again after %v, want 10s", wait)
	}
	s.has(detached)
	s.neverRemoved()
	s.stop()
	s.app.Status.Clusters[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	s.must(hub.Status().Update(t.Context(), s.app))
	s.start()
	s.isGone()
	s.neverRemoved()
}

func TestAppService_without_entries_is_released_at_once(t *testing.T) {
	s := undeclared(t)
	s.declare()
	eventually(t, func() error {
		s.read()
		if !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) || s.app.Status.ObservedGeneration != 1 {
			return fmt.Errorf("the planner has not looked: %+v", s.app)
		}
		return nil
	})
	s.says(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoClusters, "no cluster is chosen; see status.placement.excluded")
	if diff := cmp.Diff([]string{finalizer, statusWrite}, s.sent.lines()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	s.must(hub.Delete(t.Context(), s.app))
	s.isGone()
}

// behind is a client whose cache still has an old version of an AppService.
type behind struct {
	client.Client
	shown *v1alpha1.AppService
	then  func() // called when the MemberClusters are read
}

func (b behind) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	b.shown.DeepCopyInto(into.(*v1alpha1.AppService))
	return nil
}

func (b behind) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if b.then != nil {
		b.then()
	}
	return b.Client.List(ctx, into, options...)
}

func TestAppService_that_is_deleted_during_a_reconciliation_is_no_error(t *testing.T) {
	s := running(t, "east")
	s.stop()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	shown := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = nil })
	s.must(hub.Delete(t.Context(), s.app))
	r := s.reconciler(behind{hub, shown, nil})
	if _, err := r.Reconcile(t.Context(), s.request()); err != nil {
		t.Error(err)
	}
}

// Delivery reports once that nothing is left. If the report were lost, the entry would stay
// Removing forever.
func TestConfirmation_is_not_lost_while_the_planner_is_behind(t *testing.T) {
	s := running(t, "east")
	shown := s.app.DeepCopy()
	s.delete()
	s.has(s.removing("east"))
	s.stop()
	shown.DeletionTimestamp, shown.Generation = s.app.DeletionTimestamp, s.app.Generation // the entry is still Ready
	confirm := func() { s.observations.Report(s.key(), "east", s.gone(s.since("east"))) }
	r := s.reconciler(behind{hub, shown, confirm})
	_, err := r.Reconcile(t.Context(), s.request())
	s.must(err)
	r.hub = hub
	for range 2 { // first the entry, then the finalizer
		_, err = r.Reconcile(t.Context(), s.request())
		s.must(err)
	}
	s.isGone()
}
