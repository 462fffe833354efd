package planner

import (
	"fmt"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// told waits for an event about the AppService with a related member.
func (s *scene) told(reason, member, note string) {
	s.Helper()
	s.toldIn(s.app.Namespace, reason, member, note)
}

func (s *scene) toldIn(namespace, reason, related, note string) {
	s.Helper()
	eventually(s.T, func() error {
		var list eventsv1.EventList
		s.must(hub.List(s.Context(), &list, client.InNamespace(namespace)))
		var told []string
		for _, e := range list.Items {
			if e.Reason == reason && e.Related != nil && e.Related.Name == related && e.Note == note {
				return nil
			}
			told = append(told, fmt.Sprintf("%s %v: %s", e.Reason, e.Related, e.Note))
		}
		return fmt.Errorf("no event says %q, only:\n%s", note, strings.Join(told, "\n"))
	})
}

func TestEvents_announce_changes_of_clusters(t *testing.T) {
	s := running(t, "east", "west")
	s.told(v1alpha1.ReasonReady, "east", "east: the AppService is ready")
	s.told(v1alpha1.ReasonReady, "west", "west: the AppService is ready")
	s.edit(onlyOn("east"))
	s.has(s.row("east", v1alpha1.ClusterProgressing, ran(1, 2)), s.row("west", v1alpha1.ClusterRemoving, of(1), ran(1, 2)))
	s.sees("west", s.gone(s.since("west")))
	s.told(v1alpha1.ReasonRemoved, "west", "west: the AppService was removed from the cluster")
	s.sees("east", observation.Observation{UID: s.app.UID, Generation: 2, Phase: v1alpha1.ClusterFailed, Reason: v1alpha1.ReasonRefused, Message: strings.Repeat("é", 1000)})
	s.told(v1alpha1.ReasonRefused, "east", "east: "+strings.Repeat("é", 497)+"…")
}

// recorded returns the events of a recorder.
func recorded(recorder *events.FakeRecorder) []string {
	var got []string
	for len(recorder.Events) > 0 {
		got = append(got, <-recorder.Events)
	}
	return got
}

func TestEvents_of_one_status_are_limited(t *testing.T) {
	s := undeclared(t)
	s.declare()
	s.catchUp()
	recorder := events.NewFakeRecorder(100)
	r := newReconciler(hub, hub, recorder, s.observations)
	in := rollout.Input{App: s.app.DeepCopy()}
	after := v1alpha1.AppServiceStatus{}
	for i := range 25 {
		row := s.row(fmt.Sprintf("m-%02d", i), v1alpha1.ClusterPending)
		in.App.Status.Clusters = append(in.App.Status.Clusters, row)
		row.Phase, row.Reason = v1alpha1.ClusterReady, ""
		after.Clusters = append(after.Clusters, row)
	}
	r.announce(in, after)
	got := recorded(recorder)
	if len(got) != maxEvents+1 || got[0] != "Normal Ready m-00: the AppService is ready" || got[maxEvents] != "Normal Ready 15 more changes; see status.clusters" {
		t.Errorf("%d events: %q", len(got), got)
	}
}

func TestEvents_are_emitted_once_and_after_the_status_write(t *testing.T) {
	s := running(t, "east")
	s.stop()
	recorder := events.NewFakeRecorder(100)
	reconcile := func(hub client.Client) {
		t.Helper()
		r := newReconciler(hub, hub, recorder, NewObservations()) // a new Reconciler, as after a restart
		_, err := r.Reconcile(t.Context(), s.request())
		s.must(err)
	}
	reconcile(hub)
	shown := s.app.DeepCopy()
	shown.Status.Clusters[0].Phase = v1alpha1.ClusterProgressing
	shown.ResourceVersion = "1" // an old version: the hub rejects a write that is based on it
	s.observations = NewObservations()
	s.observations.Report(s.key(), "east", s.ready())
	r := newReconciler(behind{hub, shown, nil}, hub, recorder, s.observations)
	if _, err := r.Reconcile(t.Context(), s.request()); err != nil {
		t.Error(err)
	}
	if got := recorded(recorder); got != nil {
		t.Errorf("told %q", got)
	}
}

func TestEvents_of_pending_removals_are_emitted_once(t *testing.T) {
	s := running(t, "east")
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = append(app.Finalizers, "example.com/theirs") })
	s.delete()
	s.has(s.removing("east"))
	s.sees("east", s.gone(s.since("east")))
	s.told(v1alpha1.ReasonRemoved, "east", "east: the AppService was removed from the cluster")
	recorder := events.NewFakeRecorder(100)
	_, err := newReconciler(hub, hub, recorder, s.observations).Reconcile(t.Context(), s.request())
	s.must(err)
	if got := recorded(recorder); got != nil {
		t.Errorf("told %q", got)
	}
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = nil })
	s.isGone()
}
