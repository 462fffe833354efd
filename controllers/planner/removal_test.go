package planner

import (
	"context"
	"errors"
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
	"github.com/fleetwright/fleetwright/internal/wait"
)

// checkStalled reads the AppService and returns an error until it is Stalled with the reason.
func (s *fixture) checkStalled(reason string) error {
	s.readApp()
	got := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionStalled)
	if got == nil || got.Reason != reason {
		return fmt.Errorf("Stalled is %+v, want %s", got, reason)
	}
	return nil
}

// checkNeverRemoving fails the test if an entry was ever Removing, because delivery would have
// deleted objects.
func (s *fixture) checkNeverRemoving() {
	s.Helper()
	for _, w := range s.sent.list() {
		if strings.Contains(w.body, string(v1alpha1.ClusterRemoving)) {
			s.Error("an entry was Removing:", w.body)
		}
	}
}

// unknownEntry returns the entry of an unreachable member that ran the current generation.
func (s *fixture) unknownEntry(member string) v1alpha1.ClusterStatus {
	return s.entry(member, v1alpha1.ClusterUnknown, withReason(v1alpha1.ReasonClusterUnreachable,
		"MemberCluster "+member+" is not Ready; last known: Ready, 2 of 2 replicas ready"))
}

// removingEntry returns the entry of a member that ran generation 1 and is Removing.
func (s *fixture) removingEntry(member string) v1alpha1.ClusterStatus {
	return s.entry(member, v1alpha1.ClusterRemoving, applied(1, 2))
}

// unreachableEntry returns the entry of an unreachable member that is Removing.
func (s *fixture) unreachableEntry(member string) v1alpha1.ClusterStatus {
	return s.entry(member, v1alpha1.ClusterRemoving, applied(1, 2), withReason(v1alpha1.ReasonClusterUnreachable,
		"the removal continues when the cluster can be reached; see MemberCluster "+member+"; to stop waiting: "+s.abandonCommand(member)), lastKnown(v1alpha1.ClusterRemoving))
}

// abandonCommand returns the command that abandons a member.
func (s *fixture) abandonCommand(member string) string {
	return "kubectl annotate appservice web -n " + s.app.Namespace + " fleetwright.dev/abandon=" + member
}

// lastKnown sets the last phase in which the member was observed.
func lastKnown(phase v1alpha1.ClusterPhase) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.LastKnownPhase = phase }
}

// Invariant 3.
func TestUnreachable_member_is_Unknown_with_its_last_known_state(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	before := s.transitionTime("west")
	s.setReady("west", metav1.ConditionUnknown)
	s.observations.ForgetCluster("west")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.unknownEntry("west"))
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonClustersUnknown, "1 of 2 clusters not ready: west (ClusterUnreachable)")
	if since := s.transitionTime("west"); since.Before(&before) {
		t.Errorf("Unknown since %v, Ready since %v", since, before)
	}

	// An edit changes the desired state, not the last known state.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	west := s.unknownEntry("west")
	applied(1, 2)(&west)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 2)), west)
}

// A reachable member is no evidence of what it runs.
func TestReachable_member_is_Ready_after_an_observation(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.setReady("east", metav1.ConditionFalse)
	s.observations.ForgetCluster("east")
	s.waitForEntries(s.unknownEntry("east"))
	s.setReady("east", metav1.ConditionTrue)
	s.reconcileOnce()
	s.waitForEntries(s.unknownEntry("east"))
	s.reportReady("east")
}

// Invariants 2 and 8.
func TestMember_without_MemberCluster_is_Detached_and_never_Removing(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.detach("west")
	s.observations.ForgetCluster("west")
	detached := s.entry("west", v1alpha1.ClusterDetached, withReason(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), detached)
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 1 cluster: east")

	// Neither an edit, nor a placement without it, nor a restart makes it Removing.
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	})
	s.report("east", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), detached)
	s.restart()
	s.reconcileOnce()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), detached)
	s.checkNeverRemoving()

	// The Secret returns.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	s.join("west")
	s.reportReady("east", "west")
}

// The MemberCluster outlives its Secret. For an AppService, that is the same as a deleted
// MemberCluster, even if the member was not Ready before.
func TestMember_without_Secret_is_Detached_until_the_Secret_returns(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.setReady("west", metav1.ConditionFalse)
	s.observations.ForgetCluster("west")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.unknownEntry("west"))
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = new(metav1.Now()) })
	detached := s.entry("west", v1alpha1.ClusterDetached, withReason(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), detached)
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 1 cluster: east")
	want := []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonSecretMissing, Count: 1, Examples: []string{"west"}}}
	if diff := cmp.Diff(want, s.app.Status.Placement.Excluded); diff != "" {
		t.Errorf("excluded (-want +got):\n%s", diff)
	}
	s.checkNeverRemoving()

	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = nil })
	s.setReady("west", metav1.ConditionTrue)
	s.reportReady("east", "west")
}

func TestMember_that_no_longer_matches_is_Removing_until_nothing_is_left(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "west")
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "prod"}}}}
	s.createApp()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending), s.entry("west", v1alpha1.ClusterPending))
	s.reportReady("east", "west")
	s.patchMember("west", func(m *v1alpha1.MemberCluster) { m.Labels["tier"] = "test" })
	removing := s.removingEntry("west")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), removing)
	s.checkCondition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRemoving, "removing it from 1 cluster")

	// The confirmation of an earlier removal does not confirm this one.
	s.report("west", s.removalConfirmed(metav1.NewTime(s.transitionTime("west").Add(-time.Minute))))
	s.reconcileOnce()
	applied(1, 0)(&removing)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), removing)

	s.restart()
	s.reconcileOnce()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), removing)
	s.report("west", s.removalConfirmed(s.transitionTime("west")))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
}

func TestMember_that_matches_again_is_no_longer_Removing(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) {
		onlyOn("west")(app) // west has not joined, so a removal would wait for it
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptRemovals: "1@2", v1alpha1.AnnotationAcceptUnready: "true"}
	})
	removing := s.removingEntry("east")
	removing.Generation = 1
	s.waitForEntries(removing)
	since := s.transitionTime("east")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Placement = nil })
	surging := func(entry *v1alpha1.ClusterStatus) { entry.Surging = true }
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending, applied(1, 2), surging)) // what was observed is from before the removal
	s.report("east", s.removalConfirmed(since))                                        // an answer that arrives too late
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 0), surging))
}

func TestDeletion_ends_when_every_member_has_confirmed(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.sent.reset()
	s.delete()
	s.waitForEntries(s.removingEntry("east"), s.removingEntry("west"))
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "removing it from 2 clusters: east, west")
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForEntries(s.removingEntry("west"))
	if !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
		t.Error("the finalizer was removed before the last entry")
	}
	s.restart()
	s.reconcileOnce()
	s.waitForEntries(s.removingEntry("west"))
	s.report("west", s.removalConfirmed(s.transitionTime("west")))
	s.waitForDeletion()
	wait.Eventually(t, func() error {
		if left := s.observations.of(s.key()); len(left) > 0 {
			return fmt.Errorf("observations that are still stored: %v", left)
		}
		return nil
	})
}

func TestDeletion_waits_for_an_unreachable_member_and_names_it(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.setReady("west", metav1.ConditionFalse)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.unknownEntry("west"))
	s.delete()
	s.waitForEntries(s.removingEntry("east"), s.unreachableEntry("west"))
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForEntries(s.unreachableEntry("west"))
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting, "removing it from 1 cluster: west (ClusterUnreachable)"+
		"; to stop waiting for 1 cluster that cannot be reached: "+s.abandonCommand("west"))
	s.reconcileOnce()
	s.waitForEntries(s.unreachableEntry("west"))
	s.setReady("west", metav1.ConditionTrue)
	s.waitForEntries(s.removingEntry("west"))
	s.report("west", s.removalConfirmed(s.transitionTime("west")))
	s.waitForDeletion()
}

// The workload on a cluster without Secret is kept, so the AppService is released, but not at once:
// a MemberCluster that was deleted by hand is created again.
func TestDeletion_releases_a_member_that_stays_Detached(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.detach("east")
	detached := s.entry("east", v1alpha1.ClusterDetached, withReason(v1alpha1.ReasonClusterDetached,
		"the cluster's Secret is gone; its workload is left running; last known: Ready, 2 of 2 replicas ready"))
	s.waitForEntries(detached)
	s.delete()
	wait.Eventually(t, func() error { // otherwise both planners write
		s.readApp()
		if s.app.Status.ObservedGeneration != s.app.Generation {
			return errors.New("the deletion is not planned yet")
		}
		return nil
	})
	if pause := s.reconcileOnce().RequeueAfter; pause != 10*time.Second {
		t.Errorf("RequeueAfter is %v, want 10s", pause)
	}
	s.waitForEntries(detached)
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting,
		"removing it from 1 cluster: east (ClusterDetached); waiting up to 30s, in case the Secret of a Detached cluster was deleted by mistake and returns")
	s.checkNeverRemoving()
	s.stop()
	s.app.Status.Clusters[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
	s.must(s.hub.Status().Update(t.Context(), s.app))
	s.start()
	s.waitForDeletion()
	s.checkNeverRemoving()
}

func TestAppService_without_entries_is_released_at_once(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createApp()
	wait.Eventually(t, func() error {
		s.readApp()
		if !controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) || s.app.Status.ObservedGeneration != 1 {
			return fmt.Errorf("the AppService is not planned yet: %+v", s.app)
		}
		return nil
	})
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNoClusters, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT")
	if diff := cmp.Diff([]string{finalizer, revisionWrite, statusWrite}, s.sent.lines()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	s.must(s.hub.Delete(t.Context(), s.app))
	s.waitForDeletion()
}

// The AppService stays, so its status must not name clusters that have nothing of it any more.
func TestDeletion_with_the_finalizer_of_another_ends_with_a_status_without_clusters(t *testing.T) {
	t.Parallel()
	const other = "example.com/hold"
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = append(app.Finalizers, other) })
	s.delete()
	s.waitForEntries(s.removingEntry("east"))
	s.sent.reset()
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	wait.Eventually(t, func() error {
		if s.readApp(); controllerutil.ContainsFinalizer(s.app, v1alpha1.Finalizer) {
			return errors.New("our finalizer is still there")
		}
		return nil
	})
	s.waitForEntries()
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonDeleting,
		"Fleetwright has finished with all clusters; the AppService stays until these finalizers are removed: "+other)
	if diff := cmp.Diff([]string{statusWrite, finalizer}, s.sent.lines()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	s.restart()
	s.reconcileOnce()
	if sent := s.sent.lines(); len(sent) > 0 {
		t.Errorf("sent after a restart: %q", sent)
	}
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = nil })
	s.waitForDeletion()
}

// staleClient is a client whose cache still has an old version of an AppService.
type staleClient struct {
	client.Client
	cached *v1alpha1.AppService
	then   func() // called when the MemberClusters are read
}

func (b staleClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	app, isAppService := into.(*v1alpha1.AppService)
	if !isAppService {
		return b.Client.Get(ctx, key, into, options...)
	}
	b.cached.DeepCopyInto(app)
	return nil
}

func (b staleClient) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if b.then != nil {
		b.then()
	}
	return b.Client.List(ctx, into, options...)
}

func TestAppService_that_is_deleted_during_a_reconciliation_is_no_error(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	cached := s.app.DeepCopy()
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = nil })
	s.must(s.hub.Delete(t.Context(), s.app))
	r := s.reconciler(staleClient{s.hub, cached, nil})
	if _, err := r.Reconcile(t.Context(), s.request()); err != nil {
		t.Error(err)
	}
}

// Otherwise the log of each operator that is stopped during a write would have an error.
func TestReconciliation_that_the_end_of_the_process_interrupts_is_no_error(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := s.reconciler(staleClient{s.hub, s.app.DeepCopy(), nil}) // reads as from a cache, which does not end
	if _, err := r.Reconcile(ctx, s.request()); err != nil {
		t.Error(err)
	}
	if s.readApp(); s.app.Status.ObservedGeneration == s.app.Generation {
		t.Error("the status was written")
	}
}

// Delivery reports once that nothing is left. If the report were lost, the entry would stay
// Removing forever.
func TestConfirmation_is_not_lost_while_the_planner_is_behind(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	cached := s.app.DeepCopy()
	s.delete()
	s.waitForEntries(s.removingEntry("east"))
	s.stop()
	cached.DeletionTimestamp, cached.Generation = s.app.DeletionTimestamp, s.app.Generation // the entry is still Ready
	confirm := func() { s.observations.Report(s.key(), "east", s.removalConfirmed(s.transitionTime("east"))) }
	r := s.reconciler(staleClient{s.hub, cached, confirm})
	_, err := r.Reconcile(t.Context(), s.request())
	s.must(err)
	if next := r.throttle.of(s.app.UID).nextPlan; !next.IsZero() {
		t.Errorf("a status that could not be written delays the next plan until %v", next)
	}
	r.hub = s.hub
	wait.Eventually(t, func() error { // first the entry is removed, then the finalizer
		_, err := r.Reconcile(t.Context(), s.request())
		s.must(err)
		return s.checkDeleted()
	})
}
