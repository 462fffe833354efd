package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// waitForEvent waits for an event about the AppService with a related member, or without one.
func (s *fixture) waitForEvent(reason, member, note string) {
	s.Helper()
	s.waitForEventIn(s.app.Namespace, reason, member, note)
}

func (s *fixture) waitForEventIn(namespace, reason, related, note string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		var list eventsv1.EventList
		s.must(s.hub.List(s.Context(), &list, client.InNamespace(namespace)))
		var notes []string
		for _, e := range list.Items {
			about := corev1.ObjectReference{} // without a name
			if e.Related != nil {
				about = *e.Related
			}
			if e.Reason == reason && about.Name == related && e.Note == note {
				return nil
			}
			notes = append(notes, fmt.Sprintf("%s %v: %s", e.Reason, e.Related, e.Note))
		}
		return fmt.Errorf("no event has the note %q, only:\n%s", note, strings.Join(notes, "\n"))
	})
}

func TestEvents_announce_changes_of_clusters(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.waitForEvent(v1alpha1.ReasonReady, "", "the AppService is ready on 2 of 2 clusters")
	s.edit(onlyOn("east"))
	s.report("east", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterRemoving, atGeneration(1), applied(1, 2)))
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
	t.Parallel()
	s := newFixture(t)
	s.createApp()
	s.waitForCache()
	recorder := events.NewFakeRecorder(100)
	r := newReconciler(s.hub, s.hub, recorder, s.observations, s.options)
	in := rollout.Input{App: s.app.DeepCopy()}
	after := v1alpha1.AppServiceStatus{}
	for i := range 25 {
		entry := s.entry(fmt.Sprintf("m-%02d", i), v1alpha1.ClusterPending)
		in.App.Status.Clusters = append(in.App.Status.Clusters, entry)
		entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused, "quota"
		after.Clusters = append(after.Clusters, entry)
	}
	r.announcer.announceChanges(in, after)
	got := drainEvents(recorder)
	if len(got) != maxEvents+1 || got[0] != "Warning Refused m-00: quota" || got[maxEvents] != "Warning Refused 15 more changes; see the entries of the status, or of its AppServiceSlices" {
		t.Errorf("%d events: %q", len(got), got)
	}
}

// The removals of a deletion that the planner notices together are one event.
func TestEvents_of_a_deletion_name_its_clusters(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createApp()
	s.waitForCache()
	recorder := events.NewFakeRecorder(100)
	r := newReconciler(s.hub, s.hub, recorder, s.observations, s.options)
	in := rollout.Input{App: s.app.DeepCopy(), Members: map[string]*v1alpha1.MemberCluster{}, Observations: map[string]observation.Observation{}}
	in.App.DeletionTimestamp = new(metav1.Now())
	for i := range 12 {
		entry := s.entry(fmt.Sprintf("m-%02d", i), v1alpha1.ClusterRemoving)
		entry.LastTransitionTime = metav1.Now()
		in.App.Status.Clusters = append(in.App.Status.Clusters, entry)
		in.Members[entry.Name] = &v1alpha1.MemberCluster{}
		in.Observations[entry.Name] = s.removalConfirmed(entry.LastTransitionTime)
	}
	r.announcer.announceChanges(in, v1alpha1.AppServiceStatus{})
	want := []string{"Normal Removed m-00, m-01, m-02, m-03, m-04, m-05, m-06, m-07, m-08, m-09 and 2 more: the AppService was removed from the cluster"}
	if diff := cmp.Diff(want, drainEvents(recorder)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEvents_are_emitted_once_and_after_the_status_write(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.stop()
	recorder := events.NewFakeRecorder(100)
	reconcile := func(hub client.Client) {
		t.Helper()
		r := newReconciler(hub, hub, recorder, NewObservations(), s.options) // a new Reconciler, as after a restart
		_, err := r.Reconcile(t.Context(), s.request())
		s.must(err)
	}
	reconcile(s.hub)
	cached := s.app.DeepCopy()
	cached.Status.Clusters[0].Phase = v1alpha1.ClusterProgressing
	cached.ResourceVersion = "1" // an old version: the hub rejects a write that is based on it
	s.observations = NewObservations()
	s.observations.Report(s.key(), "east", s.readyObservation())
	r := newReconciler(staleClient{s.hub, cached, nil}, s.hub, recorder, s.observations, s.options)
	if _, err := r.Reconcile(t.Context(), s.request()); err != nil {
		t.Error(err)
	}
	if got := drainEvents(recorder); got != nil {
		t.Errorf("events %q", got)
	}
}

func TestEvents_of_pending_removals_are_emitted_once(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = append(app.Finalizers, "example.com/theirs") })
	s.delete()
	s.waitForEntries(s.removingEntry("east"))
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForEvent(v1alpha1.ReasonRemoved, "east", "east: the AppService was removed from the cluster")
	recorder := events.NewFakeRecorder(100)
	_, err := newReconciler(s.hub, s.hub, recorder, s.observations, s.options).Reconcile(t.Context(), s.request())
	s.must(err)
	if got := drainEvents(recorder); got != nil {
		t.Errorf("events %q", got)
	}
	s.edit(func(app *v1alpha1.AppService) { app.Finalizers = nil })
	s.waitForDeletion()
}

// Events that differ only in their notes are merged, so the stage must be in another field.
func TestEvents_of_a_rollout_have_an_action_for_each_stage(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createApp()
	s.waitForCache()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kubernetes.NewForConfigOrDie(s.hub.granted).EventsV1()})
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	broadcaster.StartRecordingToSink(stop)
	t.Cleanup(broadcaster.Shutdown)
	r := newReconciler(s.hub, s.hub, broadcaster.NewRecorder(s.hub.Scheme(), "fleetwright"), s.observations, s.options)
	decision := rollout.Decision{Outcome: stages.Outcome{Rollout: v1alpha1.RolloutStatus{Revision: 7, StableRevision: 6, Phase: v1alpha1.RolloutProgressing}}}
	app := s.app.DeepCopy()
	app.Spec.Rollout = &v1alpha1.Rollout{}
	for _, stage := range []string{"canary", "eu"} {
		app.Spec.Rollout.Stages = append(app.Spec.Rollout.Stages, v1alpha1.RolloutStage{Name: stage})
		decision.Rollout.Stages = append(decision.Rollout.Stages, v1alpha1.RolloutStageStatus{Name: stage, Clusters: 2, Available: 2, Phase: v1alpha1.StageCompleted})
		decision.Transitions = append(decision.Transitions, stages.Transition{Type: stages.StageCompleted, Revision: 7, Stage: stage})
	}
	r.announcer.announceRollout(rollout.Input{App: app}, decision)
	wait.Eventually(t, func() error {
		var list eventsv1.EventList
		s.must(s.hub.List(t.Context(), &list, client.InNamespace(s.app.Namespace)))
		got := map[string]string{}
		for _, e := range list.Items {
			got[e.Note] = e.Action
		}
		for note, action := range map[string]string{
			"revision 7, stage canary: 2 of 2 clusters are available": "Plan stage canary",
			"revision 7, stage eu: 2 of 2 clusters are available":     "Plan stage eu",
		} {
			if got[note] != action {
				return fmt.Errorf("the event %q has the action %q, want %q", note, got[note], action)
			}
		}
		return nil
	})
}

// eventsFor returns the events with a reason about a member, or without one, with the number of
// times that each one says it occurred.
func (s *fixture) eventsFor(reason, member string) (occurrences []int32) {
	s.Helper()
	var list eventsv1.EventList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	for _, e := range list.Items {
		switch {
		case e.Reason != reason || ptr.Deref(e.Related, corev1.ObjectReference{}).Name != member:
		case e.Series != nil:
			occurrences = append(occurrences, e.Series.Count)
		default:
			occurrences = append(occurrences, 1)
		}
	}
	return occurrences
}

// progressing returns the observation of a member whose pods cannot run for this reason.
func (s *fixture) progressing(reason string) observation.Observation {
	seen := s.readyObservation()
	seen.Phase, seen.Reason, seen.Message, seen.ReadyReplicas = v1alpha1.ClusterProgressing, reason, "2 of 2 pods", 0
	return seen
}

// Pods that crash, run for a while and crash again change the reason each time. The events of a
// change that repeats within minutes are one series, which is written twice.
func TestEvents_of_pods_that_crash_again_and_again_are_one_series(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	for range 4 {
		s.report("east", s.progressing(v1alpha1.ReasonCrashLoopBackOff))
		s.waitForEntries(s.entry("east", v1alpha1.ClusterProgressing, applied(1, 0), withReason(v1alpha1.ReasonCrashLoopBackOff, "2 of 2 pods"), withUnready(2)))
		s.reportReady("east")
	}
	s.report("east", observation.Observation{UID: s.app.UID, Generation: 1, Phase: v1alpha1.ClusterFailed, Reason: v1alpha1.ReasonRefused, Message: "no"})
	s.waitForEvent(v1alpha1.ReasonRefused, "east", "east: no")
	for reason, about := range map[string]string{v1alpha1.ReasonCrashLoopBackOff: "east", v1alpha1.ReasonReady: ""} {
		wait.Eventually(t, func() error {
			if got := s.eventsFor(reason, about); !slices.Equal(got, []int32{2}) {
				return fmt.Errorf("events %s occurred %v times", reason, got)
			}
			return nil
		})
	}
}

// The recorder merges events that differ only in their notes, and keeps the first note. So an image that
// cannot be pulled is another event than the one before it, and so is another container. Another number of
// pods is not.
func TestEvents_of_another_cause_are_other_events(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	fail := func(container, message string) {
		seen := s.progressing(v1alpha1.ReasonImagePullBackOff)
		seen.Container, seen.Message = container, message
		s.report("east", seen)
		s.waitForEntryReason("east", v1alpha1.ReasonImagePullBackOff)
	}
	edit := func(image string) {
		s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = image })
		s.waitForEntryReason("east", v1alpha1.ReasonRollingOut)
	}
	edit("web:bad")
	fail("app", "1 of 2 pods: web:bad")
	s.report("east", s.progressing(v1alpha1.ReasonRollingOut))
	s.waitForEntryReason("east", v1alpha1.ReasonRollingOut)
	fail("app", "2 of 2 pods: web:bad")
	edit("web:worse")
	fail("app", "2 of 2 pods: web:worse")
	s.report("east", s.progressing(v1alpha1.ReasonRollingOut))
	s.waitForEntryReason("east", v1alpha1.ReasonRollingOut)
	fail("first", "2 of 2 pods: init:bad")
	want := []string{"east: 1 of 2 pods: web:bad, Plan revision 2 container app, 2 times", "east: 2 of 2 pods: init:bad, Plan revision 3 container first, 1 times", "east: 2 of 2 pods: web:worse, Plan revision 3 container app, 1 times"}
	wait.Eventually(t, func() error {
		var list eventsv1.EventList
		s.must(s.hub.List(t.Context(), &list, client.InNamespace(s.app.Namespace)))
		var got []string
		for _, e := range list.Items {
			if e.Reason == v1alpha1.ReasonImagePullBackOff {
				got = append(got, fmt.Sprintf("%s, %s, %d times", e.Note, e.Action, ptr.Deref(e.Series, eventsv1.EventSeries{Count: 1}).Count))
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

// waitForEntryReason waits until the entry of a member has a reason, for the present generation.
func (s *fixture) waitForEntryReason(member, reason string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		entry := s.app.Status.Cluster(member)
		if entry == nil || entry.Reason != reason || entry.Generation != s.app.Generation {
			return fmt.Errorf("the entry is %+v, want reason %s", entry, reason)
		}
		return nil
	})
}

// The source of a configuration may have a name of 253 characters, and the API server refuses an event
// whose action has more than 128.
func TestEvents_of_a_source_with_a_long_name_are_not_refused(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kubernetes.NewForConfigOrDie(s.hub.granted).EventsV1()})
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	broadcaster.StartRecordingToSink(stop)
	t.Cleanup(broadcaster.Shutdown)
	a := &announcer{events: broadcaster.NewRecorder(s.hub.Scheme(), "fleetwright")}
	name := strings.Repeat("long-", 50) + "a"
	source := v1alpha1.ConfigurationStatus{Kind: v1alpha1.ConfigurationConfigMap, From: name, Snapshot: "one", Serial: 1, UpToDate: "1/1"}
	in := rollout.Input{App: s.app.DeepCopy(), Configuration: &configuration.Decision{}}
	in.App.Status.Configuration = []v1alpha1.ConfigurationStatus{source}
	source.Snapshot, source.Serial = "two", 2
	a.announceConfiguration(in, rollout.Decision{}, v1alpha1.AppServiceStatus{Configuration: []v1alpha1.ConfigurationStatus{source}})
	s.waitForEvent(v1alpha1.ReasonConfigurationChanged, "", "ConfigMap "+name+" has another content, serial 2, which reaches all clusters at once")
}

func TestEvents_of_pods_that_cannot_run_are_not_repeated_after_a_restart(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east")
	failing := s.entry("east", v1alpha1.ClusterProgressing, applied(1, 0), withReason(v1alpha1.ReasonImagePullBackOff, "2 of 2 pods"), withUnready(2))
	s.report("east", s.progressing(v1alpha1.ReasonImagePullBackOff))
	s.waitForEntries(failing)
	s.waitForEvent(v1alpha1.ReasonImagePullBackOff, "east", "east: 2 of 2 pods")
	s.restart()
	s.report("east", s.progressing(v1alpha1.ReasonImagePullBackOff))
	s.waitForEntries(failing)
	s.report("east", s.progressing(v1alpha1.ReasonContainerConfig))
	s.waitForEvent(v1alpha1.ReasonContainerConfig, "east", "east: 2 of 2 pods")
	if got := s.eventsFor(v1alpha1.ReasonImagePullBackOff, "east"); !slices.Equal(got, []int32{1}) {
		t.Errorf("the events occurred %v times", got)
	}
}
