package planner

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// newConfigured returns a scene whose planner reads the sources in its namespace, with the ConfigMap
// settings, and with an AppService that has it and that all members run.
func newConfigured(t *testing.T, members ...string) *fixture {
	s := newFixture(t, members...)
	s.stop()
	s.grantPropagation()
	s.start()
	s.putSettings("debug=false")
	configured(s.app)
	s.createApp()
	s.waitForRevision(1)
	s.reportReady(members...)
	return s
}

// grantPropagation makes the planners that start from now on read the sources in the namespace of the
// AppService. The namespace of the operator has the key.
func (s *fixture) grantPropagation() {
	s.Helper()
	operator := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}}
	s.must(s.hub.Create(s.Context(), operator))
	s.grantConfiguration(s.app.Namespace, "get", "list", "watch", "create", "delete")
	s.grantConfiguration(operator.Name, "get", "create")
	namespaces, err := sources.ParseNamespaces(s.app.Namespace)
	s.must(err)
	s.propagation = sources.Options{Namespaces: namespaces, OperatorNamespace: operator.Name}
}

func (s *fixture) grantConfiguration(namespace string, verbs ...string) {
	s.Helper()
	metadata := metav1.ObjectMeta{Namespace: namespace, Name: "propagation"}
	s.must(s.hub.Create(s.Context(), &rbacv1.Role{ObjectMeta: metadata, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: verbs}}}))
	s.must(s.hub.Create(s.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metadata, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: metadata.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "fleetwright"}},
	}))
}

// newSources returns running sources, if there is a namespace whose objects may leave the hub.
func (s *fixture) newSources(ctx context.Context, hubConfig *rest.Config) *sources.Sources {
	s.Helper()
	if s.propagation.Namespaces.IsEmpty() {
		return nil
	}
	found, err := sources.New(hubConfig, s.propagation)
	s.must(err)
	var running sync.WaitGroup
	running.Go(func() {
		if err := found.Start(ctx); err != nil {
			s.Error("the sources returned:", err)
		}
	})
	s.Cleanup(running.Wait)
	return found
}

// putSettings creates or changes the ConfigMap settings.
func (s *fixture) putSettings(text string) {
	s.Helper()
	settings := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "settings", Labels: map[string]string{v1alpha1.LabelPropagate: "true"}},
		Data:       map[string]string{"settings": text},
	}
	if err := s.hub.Update(s.Context(), settings); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	} else if err != nil {
		s.must(s.hub.Create(s.Context(), settings))
	}
}

func (s *fixture) deleteSettings() {
	s.Helper()
	s.must(s.hub.Delete(s.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "settings"}}))
}

// snapshots returns the texts of the snapshots of settings by name.
func (s *fixture) snapshots() map[string]string {
	s.Helper()
	var list corev1.ConfigMapList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: s.app.Name}))
	texts := map[string]string{}
	for _, object := range list.Items {
		texts[object.Name] = object.Data["settings"]
	}
	return texts
}

// revisionTexts returns the text that each stored revision has for settings, and fails the test if a
// revision names a snapshot that does not exist.
func (s *fixture) revisionTexts() map[int64]string {
	s.Helper()
	var list appsv1.ControllerRevisionList
	s.must(s.hub.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	snapshots, texts := s.snapshots(), map[int64]string{}
	for i := range list.Items {
		stored, err := revision.Read(s.app, &list.Items[i])
		s.must(err)
		for _, named := range stored.Configuration {
			text, exists := snapshots[named.Snapshot]
			if !exists {
				s.Fatalf("revision %d names %s, which does not exist", stored.Number, named.Snapshot)
			}
			texts[stored.Number] = text
		}
	}
	return texts
}

func (s *fixture) checkRevisionTexts(want map[int64]string) {
	s.Helper()
	if diff := cmp.Diff(want, s.revisionTexts()); diff != "" {
		s.Errorf("contents of revisions (-want +got):\n%s", diff)
	}
}

// settings returns the item of status.configuration of settings.
func (s *fixture) settings() v1alpha1.ConfigurationStatus {
	s.Helper()
	s.readApp()
	if len(s.app.Status.Configuration) != 1 {
		s.Fatalf("status.configuration is %+v", s.app.Status.Configuration)
	}
	return s.app.Status.Configuration[0]
}

// waitForConfigured waits until Configured has a reason.
func (s *fixture) waitForConfigured(want string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		condition := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionConfigured)
		if condition == nil || condition.Reason != want {
			return fmt.Errorf("Configured is %+v, want the reason %s", condition, want)
		}
		return nil
	})
}

func TestChange_of_a_source_is_a_revision(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	lines := slices.DeleteFunc(s.sent.lines(), func(line string) bool { return line == "POST secrets" }) // the key
	want := []string{"PATCH appservices/web", "POST configmaps", "POST controllerrevisions", "PATCH appservices/web/status", "PATCH appservices/web/status"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("writes of a new AppService (-want +got):\n%s", diff)
	}
	s.checkRevisionTexts(map[int64]string{1: "debug=false"})
	first := s.settings()
	s.checkCondition(v1alpha1.ConditionConfigured, metav1.ConditionTrue, v1alpha1.ReasonConfigured, "the snapshots have the present content of all sources")

	s.sent.reset()
	s.putSettings("debug=true")
	s.revision = 2
	s.waitForRevision(2)
	if diff := cmp.Diff([]string{"PATCH appservices/web/status", "POST configmaps", "POST controllerrevisions", "PATCH appservices/web/status"}, s.sent.lines()); diff != "" {
		t.Errorf("writes of a change (-want +got):\n%s", diff)
	}
	for _, part := range []string{`"reason":"ConfigurationChanged"`, `"type":"Reconciling"`} {
		if body := s.sent.list()[0].body; !strings.Contains(body, part) {
			t.Errorf("the first status does not have %s: %s", part, body)
		}
	}
	s.checkRevisionTexts(map[int64]string{1: "debug=false", 2: "debug=true"})
	second := s.settings()
	if first.Snapshot == second.Snapshot || s.snapshots()[second.Snapshot] != "debug=true" {
		t.Errorf("status.configuration is %+v, and was %+v", second, first)
	}
	if diff := cmp.Diff([]string{"settings"}, s.app.Status.Rollout.ChangedSources); diff != "" {
		t.Errorf("changed sources (-want +got):\n%s", diff)
	}
	s.waitForEvent(v1alpha1.ReasonConfigurationChanged, "", "revision 2 has another content of settings")
	s.reportReady("east")
	s.checkRestart("east")

	s.putSettings("debug=false") // the content of the revision before: another revision, with its snapshot
	s.revision = 3
	s.waitForRevision(3)
	s.checkRevisionTexts(map[int64]string{1: "debug=false", 2: "debug=true", 3: "debug=false"})
	if len(s.snapshots()) != 2 {
		t.Errorf("there are %d snapshots, want 2", len(s.snapshots()))
	}
}

// The same content in another version of the source is no revision.
func TestSource_with_the_same_content_is_no_revision(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	before := s.settings()
	s.sent.reset()
	settings := &corev1.ConfigMap{}
	s.must(s.hub.Get(t.Context(), client.ObjectKey{Namespace: s.app.Namespace, Name: "settings"}, settings))
	metav1.SetMetaDataAnnotation(&settings.ObjectMeta, "example.com/note", "another version")
	s.must(s.hub.Update(t.Context(), settings))
	wait.Eventually(t, func() error {
		if s.settings().ObservedVersion == before.ObservedVersion {
			return fmt.Errorf("status.configuration is %+v", s.settings())
		}
		return nil
	})
	s.checkWrites("PATCH appservices/web/status") // Ready stays True
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 1 cluster: east")
	s.checkRevisionTexts(map[int64]string{1: "debug=false"})
}

// The snapshots of content that is withdrawn are deleted when no stored revision names them any more,
// also after a restart. It is enough to lower the limit of the history.
func TestSnapshots_of_withdrawn_content_are_deleted(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Configuration = nil })
	s.waitForRevision(2)
	s.reportReady("east")
	s.setImage("web:2", 3)
	s.reportReady("east")
	s.edit(func(app *v1alpha1.AppService) { app.Spec.RevisionHistoryLimit = new(int32(0)) })
	s.waitForStoredRevisions(2)
	waitForDeletion := func() {
		t.Helper()
		wait.Eventually(t, func() error { // snapshots are kept for ten minutes
			if after := s.reconcileOnce().RequeueAfter; after < time.Minute || after > 10*time.Minute {
				return fmt.Errorf("the next plan is after %s", after)
			}
			return nil
		})
	}
	waitForDeletion()
	s.restart()
	waitForDeletion()
	if got := s.app.Status.Configuration; len(got) > 0 {
		t.Errorf("status.configuration is %+v", got)
	}
}

// Invariant 2: a source that is gone changes nothing that runs.
func TestSource_that_is_deleted_changes_nothing(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	s.deleteSettings()
	s.waitForConfigured(v1alpha1.ReasonSourceDeleted)
	s.checkCondition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "running on 1 cluster: east")
	s.waitForEvent(v1alpha1.ReasonSourceDeleted, "", "ConfigMap settings was deleted in namespace "+s.app.Namespace+
		": create it again, or remove it from spec.configuration to withdraw its content; until then, clusters keep its last content")
	s.checkRevisionTexts(map[int64]string{1: "debug=false"})
	s.join("west")
	s.waitForRevisions(map[string]int64{"east": 1, "west": 1})
	s.setImage("web:2", 2) // an edit does not wait for it
	s.checkRevisionTexts(map[int64]string{1: "debug=false", 2: "debug=false"})
	s.revision = 2
	s.reportReady("east", "west")
	s.checkRestart("east", "west")
	s.putSettings("debug=true")
	s.waitForRevision(3)
	s.waitForConfigured(v1alpha1.ReasonConfigured)
	s.waitForEvent(v1alpha1.ReasonConfigurationChanged, "", "revision 3 has another content of settings")
}

// The spec waits until the source exists, also if the operator is restarted.
func TestEdit_waits_until_its_source_exists(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	s.stop()
	s.grantPropagation()
	s.start()
	s.createApp()
	s.waitForRevision(1)
	s.reportReady("east")
	s.edit(func(app *v1alpha1.AppService) {
		configured(app)
		app.Spec.Image = "web:2"
	})
	s.revision = 1
	s.waitForConfigured(v1alpha1.ReasonConfigurationMissing)
	s.report("east", s.readyObservation())
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady))
	s.restart()
	s.report("east", s.readyObservation())
	s.checkRevisions(map[string]string{"web-1": "web:1"})
	s.putSettings("debug=false")
	s.waitForRevision(2)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
	s.checkRevisionTexts(map[int64]string{2: "debug=false"})
}

func TestContent_of_the_stable_revision_cancels_a_rollout(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east", "south", "west")
	s.edit(inStages)
	s.waitForReason(v1alpha1.ReasonCompleted)
	s.reportRunning("east", "south", "west")
	s.putSettings("debug=true")
	s.waitForRevisions(map[string]int64{"east": 2, "south": 1, "west": 1})
	s.reportRunning("east", "south", "west")
	s.waitForReason(v1alpha1.ReasonSoaking)
	condition := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
	if want := "revision 2 (configuration: settings), stage "; !strings.HasPrefix(condition.Message, want) {
		t.Errorf("Ready says %q, want %q", condition.Message, want)
	}
	s.putSettings("debug=false")
	s.waitForRevisions(map[string]int64{"east": 1, "south": 1, "west": 1})
	s.reportRunning("east", "south", "west")
	s.waitForReason(v1alpha1.ReasonCompleted)
	if got := s.app.Status.Rollout; got.Revision != 1 || len(got.ChangedSources) > 0 {
		t.Errorf("status.rollout is %+v", got)
	}
	s.checkRevisionTexts(map[int64]string{1: "debug=false", 2: "debug=true"})
}

// While a snapshot cannot be created, the status says so, and everything else goes on.
func TestConfiguration_that_cannot_be_stored_stops_nothing_else(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	s.sent.refuseWrites("/configmaps")
	s.putSettings("debug=true")
	s.waitForConfigured(v1alpha1.ReasonConfigurationUnavailable)
	if got, want := s.settings().Message, "the hub gave no usable answer: create ConfigMap "+s.app.Namespace+"/web-settings-"; !strings.HasPrefix(got, want) {
		t.Errorf("the message is %q, want %q", got, want)
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(3)) })
	s.waitForPlan()
	seen := s.readyObservation()
	seen.Phase, seen.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRolloutFailed
	s.report("east", seen)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterFailed, withReason(v1alpha1.ReasonRolloutFailed, "")))
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionReconciling} { // a tool must wait
		if found := meta.FindStatusCondition(s.app.Status.Conditions, condition); found == nil || found.Reason != v1alpha1.ReasonConfigurationUnavailable {
			t.Errorf("%s is %+v", condition, found)
		}
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" }) // with the content that there is
	s.waitForRevision(2)
	s.checkRevisionTexts(map[int64]string{1: "debug=false", 2: "debug=false"})
	s.sent.refuseWrites("")
	s.waitForRevision(3)
	s.waitForConfigured(v1alpha1.ReasonConfigured)
	s.checkRevisionTexts(map[int64]string{1: "debug=false", 2: "debug=false", 3: "debug=true"})
}

// A new AppService whose first snapshot cannot be created says so, and continues by itself.
func TestNew_AppService_whose_configuration_cannot_be_stored(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east")
	s.stop()
	s.grantPropagation()
	s.start()
	s.sent.refuseWrites("/configmaps")
	s.putSettings("debug=false")
	configured(s.app)
	s.createApp()
	s.waitForConfigured(v1alpha1.ReasonConfigurationUnavailable)
	s.waitForEntries(s.entry("east", v1alpha1.ClusterPending, waitsFor(v1alpha1.ReasonConfigurationUnavailable)))
	ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != v1alpha1.ReasonConfigurationUnavailable || !strings.Contains(ready.Message, "it is tried again by itself") {
		t.Errorf("Ready is %+v", ready)
	}
	s.waitForEvent(v1alpha1.ReasonConfigurationUnavailable, "", s.settings().Message)
	before := s.app.ResourceVersion
	wait.Eventually(t, func() error { // it is tried again, and nothing is written
		if attempts := slices.DeleteFunc(s.sent.lines(), func(line string) bool { return line != "POST configmaps" }); len(attempts) < 3 {
			return fmt.Errorf("%d attempts", len(attempts))
		}
		return nil
	})
	if s.readApp(); s.app.ResourceVersion != before {
		t.Errorf("another attempt has changed the status: %+v", s.app.Status)
	}
	s.sent.refuseWrites("")
	s.waitForRevision(1)
	s.waitForConfigured(v1alpha1.ReasonConfigured)
	s.checkRevisionTexts(map[int64]string{1: "debug=false"})
}

// A crash between the writes of a status in slices must not leave a revision without the snapshots of
// sources that are updated in place.
func TestLimits_of_a_status_have_the_configuration(t *testing.T) {
	next := v1alpha1.AppServiceStatus{Configuration: []v1alpha1.ConfigurationStatus{{From: "settings", Snapshot: "web-settings-2.snapshot"}}}
	if diff := cmp.Diff(next.Configuration, withLimits(v1alpha1.AppServiceStatus{}, next).Configuration); diff != "" {
		t.Errorf("status.configuration (-want +got):\n%s", diff)
	}
}

// A cluster gets no revision whose snapshot is gone, and those that have it keep it.
func TestRevision_whose_snapshot_is_lost_is_not_assigned(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	snapshot := s.settings().Snapshot
	s.deleteSettings()
	s.waitForConfigured(v1alpha1.ReasonSourceDeleted)
	s.must(s.hub.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: snapshot}}))
	s.waitForConfigured(v1alpha1.ReasonSnapshotMissing)
	s.join("west")
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), s.entry("west", v1alpha1.ClusterPending, waitsFor(v1alpha1.ReasonSnapshotMissing)))
	s.putSettings("debug=false") // the same content again
	s.waitForRevisions(map[string]int64{"east": 1, "west": 1})
	s.waitForConfigured(v1alpha1.ReasonConfigured)
	s.checkRevisionTexts(map[int64]string{1: "debug=false"})
}

// A content that is updated in place reaches the clusters without a revision.
func TestContent_that_is_updated_in_place_is_counted(t *testing.T) {
	t.Parallel()
	s := newFixture(t, "east", "west")
	s.stop()
	s.grantPropagation()
	s.start()
	s.putSettings("debug=false")
	configured(s.app)
	s.app.Spec.Configuration[0].Update = v1alpha1.ConfigurationInPlace
	s.createApp()
	s.waitForRevision(1)
	holds := func(serial int64) observation.Observation {
		seen := s.readyObservation()
		id := configuration.Identity{Namespace: s.app.Namespace, AppService: s.app.Name, Ref: configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}}
		seen.Configuration = []observation.ConfigurationSerial{{Kind: v1alpha1.ConfigurationConfigMap, Copy: configuration.InPlaceCopy(id), Serial: serial}}
		return seen
	}
	waitFor := func(serial int64, upToDate string) {
		t.Helper()
		wait.Eventually(t, func() error {
			if got := s.settings(); got.Serial != serial || got.UpToDate != upToDate {
				return fmt.Errorf("status.configuration is %+v, want serial %d, up to date %s", got, serial, upToDate)
			}
			return nil
		})
	}
	waitFor(1, "0/2")
	s.report("east", holds(1))
	s.report("west", holds(1))
	waitFor(1, "2/2")
	s.putSettings("debug=true")
	waitFor(2, "0/2")
	if got := s.app.Status.Rollout.Revision; got != 1 {
		t.Errorf("the revision is %d, want 1", got)
	}
	s.waitForEvent(v1alpha1.ReasonConfigurationChanged, "", "ConfigMap settings has another content, serial 2, which reaches all clusters at once")
	s.report("east", holds(2))
	waitFor(2, "1/2")
	before := s.app.ResourceVersion
	s.restart()
	s.report("east", holds(2))
	s.reconcileOnce()
	if s.readApp(); s.app.ResourceVersion != before {
		t.Error("a restart changed the status")
	}
	s.report("west", holds(7)) // the hub was restored
	s.waitForConfigured(v1alpha1.ReasonHubBehind)
}

// The operator is killed after each request of a change, and started again.
func TestConfiguration_although_the_operator_is_killed(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east", "west")
	s.stop()
	texts := []string{"debug=false"}
	for killedAfter := 0; ; killedAfter++ {
		text := fmt.Sprintf("debug=%d", killedAfter)
		texts = append(texts, text)
		s.putSettings(text)
		wasKilled := s.planUntilKilled(killedAfter)
		known := s.revisionTexts() // fails if a snapshot is missing
		s.readApp()
		if _, exists := known[s.app.Status.Rollout.Revision]; !exists {
			t.Fatalf("killed after %d writes: the status names revision %d, and there is %v", killedAfter, s.app.Status.Rollout.Revision, known)
		}
		if snapshot := s.settings().Snapshot; s.snapshots()[snapshot] == "" {
			t.Fatalf("killed after %d writes: the status names %s, which does not exist", killedAfter, snapshot)
		}
		if s.planUntilKilled(1000) {
			t.Fatal("it is not at rest")
		}
		s.readApp()
		if got := s.revisionTexts()[s.app.Status.Rollout.Revision]; got != text {
			t.Fatalf("killed after %d writes: the revision has %s, want %s", killedAfter, got, text)
		}
		if got := len(s.snapshots()); got != len(texts) {
			t.Fatalf("killed after %d writes: there are %d snapshots of %d contents", killedAfter, got, len(texts))
		}
		if got := len(s.revisionTexts()); got != len(texts) {
			t.Fatalf("killed after %d writes: there are %d revisions of %d contents", killedAfter, got, len(texts))
		}
		if !wasKilled {
			break
		}
	}
	if len(texts) < 4 {
		t.Errorf("there were only %d writes", len(texts))
	}
}

// planUntilKilled plans with a new process until it has sent this many writes, or until nothing is
// left to do. It reports whether it was killed.
func (s *fixture) planUntilKilled(writes int) bool {
	s.Helper()
	var left atomic.Int64
	left.Store(int64(writes))
	var wasKilled atomic.Bool
	limited := rest.CopyConfig(s.hub.granted)
	limited.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && left.Add(-1) < 0 {
				wasKilled.Store(true)
				return nil, context.Canceled
			}
			return next.RoundTrip(r)
		})
	})
	c, err := client.New(limited, client.Options{Scheme: kinds})
	s.must(err)
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	options := s.options
	options.Sources = s.newSources(ctx, limited)
	r := newReconciler(c, s.hub, events.NewFakeRecorder(100), s.observations, options)
	wait.Eventually(s.T, func() error {
		r.throttle.forget(s.app.UID)
		result, err := r.Reconcile(ctx, s.request())
		switch {
		case wasKilled.Load():
			return nil
		case err != nil:
			return err
		case result.RequeueAfter > 0:
			return fmt.Errorf("another plan after %s", result.RequeueAfter)
		case meta.IsStatusConditionFalse(s.settingsCondition(), v1alpha1.ConditionConfigured):
			return fmt.Errorf("the conditions are %+v", s.app.Status.Conditions)
		case s.settingsVersion() != s.settings().ObservedVersion:
			return fmt.Errorf("status.configuration is %+v", s.settings())
		}
		return nil
	})
	return wasKilled.Load()
}

func (s *fixture) settingsCondition() []metav1.Condition {
	s.Helper()
	s.readApp()
	return s.app.Status.Conditions
}

// settingsVersion returns the version of the source.
func (s *fixture) settingsVersion() string {
	s.Helper()
	object := &corev1.ConfigMap{}
	s.must(s.hub.Get(s.Context(), client.ObjectKey{Namespace: s.app.Namespace, Name: "settings"}, object))
	return string(object.UID) + "/" + object.ResourceVersion
}

// A new process has to list the revisions of an AppService with configuration before its first
// plan. If it may not, everything goes on that needs no content.
func TestAppService_with_configuration_is_planned_although_its_revisions_cannot_be_listed(t *testing.T) {
	t.Parallel()
	s := newConfigured(t, "east")
	s.stop()
	s.options.PodSecurityLevel = podsecurity.Baseline
	s.start()
	s.setImage("web:2", 2)
	s.reportReady("east")
	settings := s.app.Status.Configuration
	restore := s.forbidRevisions()
	s.restart()
	s.waitForUnlisted(cannotList)
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Replicas = new(int32(5)) })
	wait.Eventually(t, func() error {
		s.readApp()
		if east := s.app.Status.Cluster("east"); east.Replicas != 5 || east.Revision != 2 {
			return fmt.Errorf("the entry of east is %+v", east)
		}
		return nil
	})
	if configured := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionConfigured); configured == nil || !cmp.Equal(settings, s.app.Status.Configuration) {
		t.Errorf("Configured is %+v, and the sources (-before +after):\n%s", configured, cmp.Diff(settings, s.app.Status.Configuration))
	}
	s.checkRollout(2, false, &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityBaseline, Version: "v1.36"}) // nothing allows more
	restore()
	s.restart() // which tries again at once
	s.putSettings("debug=true")
	s.waitForRevision(3)
}
