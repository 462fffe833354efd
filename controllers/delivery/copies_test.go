package delivery

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis/podtest"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// A new cluster gets the Deployment first, because it owns the copies. Then nothing is sent or read
// any more, also by another process. The member grants no right to read.
func TestCopies_of_a_new_cluster(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.start()
	c.planRevision()
	c.expectCopies(c.allCopies("1", "1", "1"))
	c.expectReferences()
	c.expectReport(c.readyWith(1))
	want := []string{
		"PATCH deployments/web", "POST namespaces/" + c.app.Namespace, "PATCH configmaps/" + c.ofSettings(),
		"PATCH secrets/" + c.ofDB(), "PATCH secrets/" + c.ofRegistry(), "PATCH services/web",
	}
	if c.ofDB() > c.ofRegistry() {
		want[3], want[4] = want[4], want[3]
	}
	got := c.sent.writes()
	for i := range got {
		if strings.HasPrefix(got[i], "POST namespaces") {
			got[i] = want[1]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}

	secret := &corev1.Secret{}
	c.must(onMember.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: c.ofDB()}, secret))
	deployment := c.deployment()
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: deployment.UID}}
	if diff := cmp.Diff(owner, secret.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	if secret.Immutable == nil || !*secret.Immutable || secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("the Secret has the type %s, immutable %v", secret.Type, secret.Immutable)
	}
	c.must(onMember.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: c.ofRegistry()}, secret))
	if secret.Immutable != nil && *secret.Immutable {
		t.Error("the copy that is updated in place is immutable")
	}

	before := len(hubRequests.all())
	c.expectAtRestWithCopies()
	for _, request := range hubRequests.all()[before:] {
		if strings.Contains(request, c.ofDB()) || strings.Contains(request, c.ofSettings()) {
			t.Errorf("at rest, the hub received %s", request)
		}
	}
	c.expectNoRequests(t, "GET configmaps", "GET secrets")
}

// readyWith returns the expected report of a Ready member whose Secret registry has this serial.
func (c *configured) readyWith(serial int64) observation.Observation {
	c.Helper()
	want := c.ready()
	want.Configuration = []observation.ConfigurationSerial{{Kind: v1alpha1.ConfigurationSecret, Copy: c.ofRegistry(), Serial: serial}}
	return want
}

// expectAtRestWithCopies checks that nothing is sent, as expectAtRestAlsoAfterRestart.
func (c *configured) expectAtRestWithCopies() {
	c.Helper()
	c.sent.reset()
	_, _, err := c.reconcileOnce()
	c.must(err)
	c.expectNoRequests(c.T, "PATCH", "POST", "DELETE")
	c.restart()
	wait.Eventually(c.T, func() error {
		if c.reported.last(c.key(), c.cluster).Phase != v1alpha1.ClusterReady {
			return errors.New("not Ready")
		}
		return nil
	})
	_, _, err = c.reconcileOnce()
	c.must(err)
	c.expectNoRequests(c.T, "PATCH", "POST", "DELETE")
}

// The copies of a revision are there before the Deployment refers to them, and those of the
// previous revision until its last pod is gone.
func TestCopies_of_the_previous_revision_outlive_its_pods(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, paused)
	c.start()
	c.planRevision()
	c.expectReferences()
	c.expectCopies(c.allCopies("1", "1", "1"))
	c.completeRollout()
	c.expectReport(c.readyWith(1))
	old := c.allCopies("1", "1", "1")

	c.sent.reset()
	c.sent.answers(func(request string) (*http.Response, error) {
		if request == "PATCH deployments/web" && len(c.copiesOnMember()) < 4 {
			c.Error("the Deployment is changed before the member has its copies")
		}
		return nil, nil
	})
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.planRevision()
	c.expectReferences()
	both := c.allCopies("2", "1", "1")
	for name, value := range old {
		both[name] = value
	}
	c.expectCopies(both)
	if diff := cmp.Diff([]string{"PATCH configmaps/" + c.ofSettings(), "PATCH deployments/web"}, c.sent.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c.reconcileSeveralTimes()
	c.expectCopies(both) // the rollout is not complete

	c.sent.reset()
	c.sent.answers(nil)
	c.completeRollout()
	c.expectCopies(c.allCopies("2", "1", "1"))
	c.expectReport(c.readyWith(1))
	phases := c.reported.all(c.key(), c.cluster)
	if last := phases[len(phases)-1]; last.Phase != v1alpha1.ClusterReady {
		t.Errorf("the deletion of old copies is reported as %s", last.Phase)
	}
	c.completeRollout() // the controller observes the new record
	c.expectAtRestWithCopies()
}

func sortedKeys(of map[string]string) []string { return slices.Sorted(maps.Keys(of)) }

func (c *configured) reconcileSeveralTimes() {
	c.Helper()
	for range 3 {
		_, _, err := c.reconcileOnce()
		c.must(err)
	}
}

// The process is killed after old copies were deleted, before the record says so. A rollback needs
// them.
func TestCopies_are_completed_after_a_crash(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	first := c.allCopies("1", "1", "1")
	c.end()
	// The second revision is complete, and only the last request is missing.
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.start()
	c.planRevision()
	c.expectCopies(c.allCopies("2", "1", "1"))
	c.end()
	deployment := c.deployment()
	c.changeByOther(deployment, func() {
		deployment.Annotations[v1alpha1.AnnotationCopies] += "," + strings.Join(sortedKeys(first), ",")
	})
	// It returns to the first revision.
	c.named[slices.IndexFunc(c.named, func(n configuration.Named) bool { return n.From == "settings" })].Snapshot = c.snapshot(v1alpha1.ConfigurationConfigMap, "settings", "1", 0)
	c.start()
	c.planConfigured(withRevision(1))
	c.expectReferences()
	c.expectCopies(first)
}

// A content that is updated in place reaches the member without a new revision and without new
// pods.
func TestCopy_in_place(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	before := c.deployment()
	c.sent.reset()
	reports := len(c.reported.all(c.key(), c.cluster))

	c.changeInPlace("registry", "2", 2)
	c.planConfigured()
	c.expectReport(c.readyWith(2))
	c.expectCopies(c.allCopies("1", "1", "2"))
	after := c.deployment()
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the Deployment changed (-before +after):\n%s", diff)
	}
	for _, seen := range c.reported.all(c.key(), c.cluster)[reports:] {
		if seen.Phase != v1alpha1.ClusterReady {
			t.Errorf("reported %s: %s", seen.Phase, seen.Message)
		}
	}
	if diff := cmp.Diff([]string{"PATCH secrets/" + c.ofRegistry(), "PATCH deployments/web"}, c.sent.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c.expectAtRestWithCopies()

	// The hub was restored: it has serial 1 again.
	c.sent.reset()
	c.changeInPlace("registry", "1", 1)
	c.planConfigured()
	c.reconcileSeveralTimes()
	c.expectReport(c.readyWith(2))
	c.expectCopies(c.allCopies("1", "1", "2"))
	c.expectNoRequests(t, "PATCH", "POST", "DELETE")

	c.changeInPlace("registry", "3", 3)
	c.planConfigured()
	c.expectReport(c.readyWith(3))
	c.expectCopies(c.allCopies("1", "1", "3"))
}

// A member that refuses a copy keeps its Deployment. Of an answer about a Secret, only the reason
// and the code are reported, because an admission webhook may quote content.
func TestCopies_that_are_refused(t *testing.T) {
	t.Parallel()
	t.Run("by missing permissions", func(t *testing.T) {
		t.Parallel()
		c := newConfigured(t, paused)
		granted := c.config
		c.config = memberConfig
		c.start()
		c.planRevision()
		c.expectRefused("configmaps \"" + c.ofSettings() + "\" is forbidden")
		c.reconcileSeveralTimes()
		c.config = granted
		c.restart()
		c.expectCopies(c.allCopies("1", "1", "1"))
	})
	t.Run("by a webhook that quotes the Secret", func(t *testing.T) {
		t.Parallel()
		c := deliveredConfigured(t)
		before := c.allCopies("1", "1", "1")
		c.sent.answers(refuse("PATCH secrets/", http.StatusBadRequest, "password "+canary+" is too short"))
		c.revision++
		c.change(v1alpha1.ConfigurationSecret, "db", "2")
		c.planRevision()
		c.expectRefused("apply Secret " + c.ofDB() + ": the member answered 400")
		c.expectCopies(before)
		if got := c.reported.last(c.key(), c.cluster).Message; strings.Contains(got, canary) {
			t.Errorf("reported %q", got)
		}
	})
}

func (c *configured) expectRefused(message string) {
	c.Helper()
	wait.Eventually(c.T, func() error {
		seen := c.reported.last(c.key(), c.cluster)
		if seen.Phase != v1alpha1.ClusterFailed || seen.Reason != v1alpha1.ReasonConfigurationRefused || !strings.Contains(seen.Message, message) {
			return errors.New(string(seen.Phase) + " " + seen.Reason + ": " + seen.Message)
		}
		return nil
	})
}

// Without a snapshot, the cluster keeps what it runs.
func TestCopies_without_their_snapshot(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	before := c.observedDeployment()
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	for _, named := range c.named {
		if named.From == "settings" {
			c.must(onHub.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: named.Snapshot}}))
		}
	}
	c.planRevision()
	wait.Eventually(t, func() error {
		if seen := c.reported.last(c.key(), c.cluster); seen.Reason != v1alpha1.ReasonSnapshotMissing || seen.Phase != v1alpha1.ClusterFailed {
			return errors.New(seen.Reason + ": " + seen.Message)
		}
		return nil
	})
	c.expectUnchanged(before)
}

// The pods say that a copy is missing: it is applied again.
func TestCopy_that_is_missing_is_applied_again(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.connect()
	c.planRevision()
	w := c.newReconciler()
	c.settle(w, c.allCopies("1", "1", "1"))
	c.observedDeployment()
	c.must(onMember.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: c.ofSettings()}}))
	c.makeUnavailable()
	c.sent.reset()
	w.reconcileOnce()
	c.createPod(podtest.Waiting("CreateContainerConfigError", `configmap "`+c.ofSettings()+`" not found`))
	w.makeListingDue()
	w.reconcileOnce()
	c.expectCopies(c.allCopies("1", "1", "1"))
	w.reconcileOnce()
	if diff := cmp.Diff([]string{"PATCH configmaps/" + c.ofSettings()}, c.sent.writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if n := c.sent.count("PATCH configmaps/" + c.ofSettings()); n != 1 {
		t.Errorf("the copy was applied %d times for one diagnosis", n)
	}
}

// The new Deployment owns all copies.
func TestCopies_of_a_Deployment_that_is_created_again(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	first := c.deployment()
	c.must(onMember.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: "web"}}))
	wait.Eventually(t, func() error {
		deployment := c.deployment()
		if deployment == nil || deployment.UID == first.UID {
			return errors.New("the Deployment is not created again")
		}
		secret := &corev1.Secret{}
		if err := onMember.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: c.ofDB()}, secret); err != nil {
			return err
		}
		if len(secret.OwnerReferences) != 1 || secret.OwnerReferences[0].UID != deployment.UID {
			return errors.New("the Secret has another owner")
		}
		return nil
	})
}

// The record of a Deployment can be changed by anybody on the member. Only copies that the
// Deployment owns are deleted.
func TestRecord_does_not_delete_what_the_Deployment_does_not_own(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: "foreign"}}
	c.must(onMember.Create(t.Context(), foreign))
	deployment := c.deployment()
	c.changeByOther(deployment, func() { deployment.Annotations[v1alpha1.AnnotationCopies] += ",Secret/foreign,nonsense" })
	c.expectCopies(c.allCopies("1", "1", "1"))
	c.must(onMember.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	c.expectAtRestWithCopies()
}

// An AppService whose configuration is removed keeps no copy.
func TestCopies_are_deleted_without_configuration(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	c.edit(func(app *v1alpha1.AppService) {
		app.Spec.Configuration, app.Spec.EnvFrom, app.Spec.ImagePullSecrets = nil, nil, nil
	})
	c.revision, c.named, c.app.Status.Configuration = 2, nil, nil
	c.planRevision()
	wait.Eventually(t, func() error {
		if found := c.copiesOnMember(); len(found) > 0 || len(c.recorded()) > 0 {
			return errors.New(strings.Join(append(sortedKeys(found), c.recorded()...), ", "))
		}
		return nil
	})
	c.expectAtRestWithCopies()
}

// A hub that was restored knows no revision as high as that of the member: nothing is changed there
// until a user accepts it. The generation has not moved.
func TestHubBehind_by_a_revision_of_the_configuration(t *testing.T) {
	t.Parallel()
	for name, inSlices := range map[string]bool{"entries in the status": false, "entries in slices": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConfigured(t)
			c.inSlices = inSlices
			c.start()
			c.planRevision()
			first := slices.Clone(c.named)
			c.expectCopies(c.allCopies("1", "1", "1"))
			c.revision++
			c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
			c.planRevision()
			c.expectCopies(c.allCopies("2", "1", "1"))
			c.expectReport(c.readyWith(1))

			second := c.allCopies("2", "1", "1")
			c.end()
			c.revision, c.named = 1, first
			c.planConfigured(withRevision(1))
			c.start()
			wait.Eventually(t, func() error {
				seen := c.reported.last(c.key(), c.cluster)
				if seen.HubBehind == nil || seen.HubBehind.Revision != 2 || !strings.Contains(seen.Message, "revision 2") || seen.Revision != 1 || seen.StampedRevision != 2 {
					return fmt.Errorf("reported %+v", seen)
				}
				return nil
			})
			c.expectCopies(second)
			keep := c.app.Status.Configuration
			c.edit(acceptStamp(c.reported.last(c.key(), c.cluster).HubBehind.Accept))
			c.app.Status.Configuration = keep
			c.expectReferences()
			c.expectCopies(c.allCopies("1", "1", "1"))
			c.expectReport(c.readyWith(1))
		})
	}
}

// The operator runs while the hub is restored. The revision that the restore has lost is on the
// member, and its number belongs to another template now.
func TestTemplate_that_a_restore_of_the_hub_has_lost_is_not_delivered(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	first := slices.Clone(c.named)
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "lost")
	c.planRevision()
	c.expectCopies(c.allCopies("lost", "1", "1"))
	c.expectReport(c.readyWith(1))

	lost := &appsv1.ControllerRevision{}
	lost.Namespace, lost.Name = c.app.Namespace, revision.Name(c.app.Name, 2)
	c.must(onHub.Delete(c.Context(), lost))
	c.revision, c.named = 1, first
	c.planConfigured(withRevision(1))
	wait.Eventually(t, func() error {
		if seen := c.reported.last(c.key(), c.cluster); seen.HubBehind == nil {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
	keep := c.app.Status.Configuration
	c.edit(acceptStamp(c.reported.last(c.key(), c.cluster).HubBehind.Accept))
	c.app.Status.Configuration = keep
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "new")
	c.planRevision()
	c.expectCopies(c.allCopies("new", "1", "1"))
	c.expectReport(c.readyWith(1))
}

// All members of an AppService get a content that is updated in place, also if the entries are in
// slices and do not change.
func TestCopy_in_place_with_slices(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.inSlices = true
	c.start()
	c.planRevision()
	c.expectReport(c.readyWith(1))
	c.changeInPlace("registry", "2", 2)
	c.app.Status.ClustersIn = v1alpha1.ClustersInSlices
	c.must(onHub.Status().Update(t.Context(), c.app)) // not the slices
	c.expectReport(c.readyWith(2))
}

// Nothing on the way of a Secret is logged at any verbosity, neither the requests nor the answer of
// a webhook, and no event and no error has it.
func TestSecrets_are_in_no_log(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.connect()
	c.planRevision()
	c.catchUp()
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, prefix+" "+args)
	}, funcr.Options{Verbosity: 10})
	ctx := logr.NewContext(t.Context(), log)
	w := c.newReconciler()
	_, err := w.Reconcile(ctx, requestFor(c.clusterName(), c.key()))
	c.must(err)
	c.expectCopies(c.allCopies("1", "1", "1"))
	c.revision++
	c.change(v1alpha1.ConfigurationSecret, "db", "2")
	c.planRevision()
	c.catchUp()
	// The webhook of the member quotes the Secret. The answers of the API server go through the
	// same code of client-go.
	c.sent.answers(refuse("PATCH secrets/", http.StatusForbidden, "password "+canary+" is too short"))
	_, err = w.Reconcile(ctx, requestFor(c.clusterName(), c.key()))
	c.must(err)
	c.sent.answers(func(request string) (*http.Response, error) {
		if strings.HasPrefix(request, "PATCH secrets/") {
			return &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("webhook failed: " + canary))}, nil
		}
		return nil, nil
	})
	if _, err = w.Reconcile(ctx, requestFor(c.clusterName(), c.key())); err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("the error is %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "Request Body") }) {
		t.Error("the log does not have the requests, so this proves nothing")
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))[:20]
	for _, line := range lines {
		if strings.Contains(line, canary) || strings.Contains(line, encoded) {
			t.Errorf("logged %s", line[:min(len(line), 300)])
		}
	}
	for _, seen := range w.reported.all(c.key(), c.cluster) {
		if strings.Contains(seen.Message, canary) {
			t.Errorf("reported %s", seen.Message)
		}
	}
	for _, server := range []*server{onHub, onMember} {
		var events eventsv1.EventList
		c.must(server.List(t.Context(), &events, client.InNamespace(c.app.Namespace)))
		for _, event := range events.Items {
			if strings.Contains(event.Note, canary) {
				t.Errorf("announced %s", event.Note)
			}
		}
	}
}

// A Deployment that is adopted gets its copies, and a Deployment of an earlier AppService keeps
// them with the new content.
func TestCopies_of_a_Deployment_that_exists(t *testing.T) {
	t.Parallel()
	t.Run("adopted", func(t *testing.T) {
		t.Parallel()
		c := newConfigured(t, func(app *v1alpha1.AppService) { app.Spec.ConflictPolicy = v1alpha1.ConflictAdopt })
		deployment := c.createUnmanaged()
		c.start()
		c.planRevision()
		c.expectReferences()
		c.expectCopies(c.allCopies("1", "1", "1"))
		if got := c.deployment().UID; got != deployment.UID {
			t.Error("the Deployment was created again")
		}
	})
	t.Run("of an earlier AppService", func(t *testing.T) {
		t.Parallel()
		c := newConfigured(t)
		c.start()
		c.planRevision()
		c.changeInPlace("registry", "9", 9)
		c.planConfigured()
		c.expectReport(c.readyWith(9))
		c.expectCopies(c.allCopies("1", "1", "9"))
		// The AppService is deleted without its finalizer, and created again.
		spec, name := c.app.Spec, c.app.ObjectMeta
		c.must(onHub.Delete(t.Context(), c.app))
		for _, kind := range []client.Object{&appsv1.ControllerRevision{}, &corev1.ConfigMap{}, &corev1.Secret{}} {
			c.must(onHub.DeleteAllOf(t.Context(), kind, client.InNamespace(c.app.Namespace)))
		}
		time.Sleep(time.Second) // the creation time has seconds
		c.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}, Spec: spec}
		c.must(onHub.Create(t.Context(), c.app))
		c.named = nil
		c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
		c.change(v1alpha1.ConfigurationSecret, "db", "1")
		c.changeInPlace("registry", "1", 1)
		c.planRevision()
		c.expectReferences()
		c.expectCopies(c.allCopies("2", "1", "1"))
		c.expectReport(c.readyWith(1))
	})
}

// Members share the read of a snapshot, and its content while it is in use. An object that is no
// snapshot of the AppService is not used.
func TestSnapshot_is_read_once(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	reader := snapshots.NewReader(hubCached.GetAPIReader(), 1, newTestKey()) // there is memory for one content
	name := c.named[1].Snapshot
	var all, inUse sync.WaitGroup
	inUse.Add(50)
	first := make(chan *byte, 50)
	for range 50 {
		all.Go(func() {
			content, err := reader.Content(t.Context(), c.app, v1alpha1.ConfigurationSecret, name)
			if err != nil || !strings.Contains(string(content.Fields()), `,"type":"Opaque"`) {
				t.Errorf("%v, %v", content, err)
				inUse.Done()
				return
			}
			first <- &content.Fields()[0]
			inUse.Done()
			inUse.Wait() // all use it at the same time
			content.Release()
		})
	}
	all.Wait()
	for one := <-first; len(first) > 0; {
		if one != <-first {
			t.Fatal("two members do not share the content")
		}
	}
	if n := hubRequests.count("GET secrets/" + name); n != 1 {
		t.Errorf("the snapshot was read %d times", n)
	}
	other := c.app.DeepCopy()
	other.UID = "uid-of-another"
	if _, err := reader.Content(t.Context(), other, v1alpha1.ConfigurationSecret, name); !snapshots.IsMissing(err) {
		t.Errorf("the snapshot of another AppService: %v", err)
	}
	if _, err := reader.Content(t.Context(), c.app, v1alpha1.ConfigurationSecret, "web-db-none.snapshot"); !snapshots.IsMissing(err) {
		t.Errorf("no snapshot: %v", err)
	}
	forged := &corev1.Secret{}
	c.must(onHub.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: name}, forged))
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: c.app.Namespace, Name: "web-db-forged0000.snapshot", OwnerReferences: forged.OwnerReferences, Annotations: forged.Annotations, Labels: forged.Labels}
	c.must(onHub.Create(t.Context(), forged))
	if _, err := reader.Content(t.Context(), c.app, v1alpha1.ConfigurationSecret, forged.Name); !snapshots.IsMissing(err) {
		t.Errorf("a snapshot with another digest: %v", err)
	}
}

// Somebody who may write ConfigMaps replaces a snapshot, with all of its metadata. The copy keeps
// what was proved, and what a cluster lacks is not delivered.
func TestSnapshot_with_another_content_is_not_delivered(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	name := c.snapshotNamed("settings")
	proved := &corev1.ConfigMap{}
	c.must(onHub.Get(t.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: name}, proved))
	c.must(onHub.Delete(t.Context(), proved))
	forged := proved.DeepCopy()
	forged.UID, forged.ResourceVersion, forged.Data = "", "", map[string]string{"value": "forged"}
	c.must(onHub.Create(t.Context(), forged))
	reader := snapshots.NewReader(hubCached.GetAPIReader(), snapshots.MaxInUse, newTestKey())
	if content, err := reader.Content(t.Context(), c.app, v1alpha1.ConfigurationConfigMap, name); !snapshots.IsMissing(err) || !strings.Contains(err.Error(), "digest of another content") {
		t.Errorf("%s, %v", content.Fields(), err)
	}
	c.start()
	c.planRevision()
	c.expectReport(c.failed(v1alpha1.ReasonSnapshotMissing, "the cluster keeps what it runs: the snapshot is missing: ConfigMap "+name+" has the digest of another content: it was not created by the operator"))
}

// An optional source that has never existed holds up nothing, and its name is no object.
func TestCopies_of_an_optional_source(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, func(app *v1alpha1.AppService) {
		app.Spec.Configuration[0].Optional = true
		app.Spec.EnvFrom[0].ConfigMapRef.Optional = new(true)
	})
	i := slices.IndexFunc(c.named, func(n configuration.Named) bool { return n.From == "settings" })
	c.named[i].Snapshot = configuration.AbsentName(configuration.Identity{Namespace: c.app.Namespace, AppService: "web", Ref: configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}})
	c.start()
	c.planRevision()
	c.expectReferences()
	c.expectReport(c.readyWith(1))
	want := c.allCopies("", "1", "1")
	delete(want, "ConfigMap/"+c.ofSettings())
	c.expectCopies(want)
	c.expectAtRestWithCopies()
}
