package planner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// waitForEvent waits for an event about the AppService with a related member.
func (s *fixture) waitForEvent(reason, member, note string) {
	s.Helper()
	s.waitForEventIn(s.app.Namespace, reason, member, note)
}

func (s *fixture) waitForEventIn(namespace, reason, related, note string) {
	s.Helper()
	eventually(s.T, func() error {
		var list eventsv1.EventList
		s.must(hub.List(s.Context(), &list, client.InNamespace(namespace)))
		var notes []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Related != nil && e.Related.Name == related && e.Note == note {
				return nil
			}
			notes = append(notes, fmt.Sprintf("%s %v: %s", e.Reason, e.Related, e.Note))
		}
		return fmt.Errorf("no event has the note %q, only:\n%s", note, strings.Join(notes, "\n"))
	})
}

func TestEvents_announce_changes_of_clusters(t *testing.T) {
	s := newRunning(t, "east", "west")
	s.waitForEvent(v1alpha1.ReasonReady, "east", "east: the AppService is ready")
	s.waitForEvent(v1alpha1.ReasonReady, "west", "west: the AppService is ready")
	s.edit(onlyOn("east"))
	s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 2)), s.entry("west", v1alpha1.ClusterRemoving, atGeneration(1), applied(1, 2)))
	s.report("west", s.removalConfirmed(s.transitionTime("west")))
	s.waitForEvent(v1alpha1.ReasonRemoved, "west", "west: the AppService was removed from the cluster")
	s.report("east", observation.Observation{UID: s.app.UID, Generation: 2, Phase: v1alpha1.ClusterFailed, Reason: v1alpha1.ReasonRefused, Message: strings.Repeat("é", 1000)})
	s.waitForEvent(v1alpha1.ReasonRefused, "east", "east: "+strings.Repeat("é", 497)+"…")
}

// drainEvents returns the events of a recorder.
func drainEvents(recorder *events.FakeRecorder) []string {
	var got []string
	for len(recorder.Events) > 0 {
		got = append(got, <-recorder.Events)
	}
	return got
}

func TestEvents_of_one_status_are_limited(t *testing.T) {
	s := newFixture(t)
	s.createApp()
	s.waitForCache()
	recorder := events.NewFakeRecorder(100)
	r := newReconciler(hub, hub, recorder, s.observations, s.options)
	in := rollout.Input{App: s.app.DeepCopy()}
	after := v1alpha1.AppServiceStatus{}
	for i := range 25 {
		entry := s.entry(fmt.Sprintf("m-%02d", i), v1alpha1.ClusterPending)
		in.App.Status.Clusters = append(in.App.Status.Clusters, entry)
		entry.Phase, entry.Reason = v1alpha1.ClusterReady, ""
		after.Clusters = append(after.Clusters, entry)
	}
	r.announce(in, after)
	got := drainEvents(recorder)
	if len(got) != maxEvents+1 || got[0] != "Normal Ready m-00: the AppService is ready" || got[maxEvents] != "Normal Ready 15 more changes; see the entries of the status, or of its AppServiceSlices" {
		t.Errorf("%d events: %q", len(got), got)
	}
}

// The removals of a deletion that the planner notices together are one event.
func TestEvents_of_a_deletion_name_its_clusters(t *testing.T) {
	s := newFixture(t)
	s.createApp()
	s.waitForCache()
	recorder := events.NewFakeRecorder(100)
	r := newReconciler(hub, hub, recorder, s.observations, s.options)
	in := rollout.Input{App: s.app.DeepCopy(), Members: map[string]*v1alpha1.MemberCluster{}, Observations: map[string]observation.Observation{}}
	in.App.DeletionTimestamp = new(metav1.Now())
	for i := range 12 {
		entry := s.entry(fmt.Sprintf("m-%02d", i), v1alpha1.ClusterRemoving)
		entry.LastTransitionTime = metav1.Now()
		in.App.Status.Clusters = append(in.App.Status.Clusters, entry)
		in.Members[entry.Name] = &v1alpha1.MemberCluster{}
		in.Observations[entry.Name] = s.removalConfirmed(entry.LastTransitionTime)
	}
	r.announce(in, v1alpha1.AppServiceStatus{})
	want := []string{"Normal Removed m-00, m-01, m-02, m-03, m-04, m-05, m-06, m-07, m-08, m-09 and 2 more: the AppService was removed from the cluster"}
	if diff := cmp.Diff(want, drainEvents(recorder)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEvents_are_emitted_once_and_after_the_status_write(t *testing.T) {
	s := newRunning(t, "east")
	s.stop()
	recorder := events.NewFakeRecorder(100)
	reconcile := func(hub client.Client) {
		t.Helper()
		r := newReconciler(hub, hub, recorder, NewObservations(), s.options) // a new Reconciler, as after a restart
		_, err := r.Reconcile(t.Context(), s.request())
		s.must(err)
	}
	reconcile(hub)
	cached := s.app.DeepCopy()
	cached.Status.Clusters[0].Phase = v1alpha1.ClusterProgressing
	cached.ResourceVersion = "1" // an old version: the hub rejects a write that is based on it
	s.observations = NewObservations()
	s.observations.Report(s.key(), "east", s.readyObservation())
	r := newReconciler(staleClient{hub, cached, nil}, hub, recorder, s.observations, s.options)
	if _, err := r.Reconcile(t.Context(), s.request()); err != nil {
		t.Error(err)
	}
	if got := drainEvents(recorder); got != nil {
		t.Errorf("events %q", got)
	}
}

func TestEvents_of_pending_removals_are_emitted_once(t *testing.T) {
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = append(app.Finalizers, "example.com/theirs") })
	s.delete()
	s.waitForEntries(s.removingEntry("east"))
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForEvent(v1alpha1.ReasonRemoved, "east", "east: the AppService was removed from the cluster")
	recorder := events.NewFakeRecorder(100)
	_, err := newReconciler(hub, hub, recorder, s.observations, s.options).Reconcile(t.Context(), s.request())
	s.must(err)
	if got := drainEvents(recorder); got != nil {
		t.Errorf("events %q", got)
	}
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = nil })
	s.waitForDeletion()
}
