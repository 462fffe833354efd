package delivery

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/sample"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// interruptedChange is a change of an AppService with configuration that is interrupted.
type interruptedChange struct {
	app []func(*v1alpha1.AppService)
	// prepare brings the member into the state before the change. It may be nil.
	prepare func(*configured, *testReconciler)
	// plan plans the change, and returns the copies that the member must have in the end.
	plan func(*configured) map[string]string
	// createsDeployment is set if pods may wait for copies, because their owner comes first.
	createsDeployment bool
}

func firstRevision(c *configured) map[string]string {
	c.planRevision()
	return c.allCopies("1", "1", "1")
}

func secondRevision(c *configured) map[string]string {
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.change(v1alpha1.ConfigurationSecret, "db", "2")
	c.planRevision()
	return c.allCopies("2", "2", "1")
}

func deliverFirstRevision(c *configured, w *testReconciler) { c.settle(w, firstRevision(c)) }

func interruptedChanges() map[string]interruptedChange {
	withoutReferences := func(app *v1alpha1.AppService) {
		app.Spec.EnvFrom, app.Spec.ImagePullSecrets = nil, nil
		app.Spec.Configuration[2].Update = v1alpha1.ConfigurationInPlace // as it is by default for a pull secret
	}
	return map[string]interruptedChange{
		"the first revision":                 {plan: firstRevision, createsDeployment: true},
		"the first revision with 0 replicas": {app: []func(*v1alpha1.AppService){withReplicas(0)}, plan: firstRevision, createsDeployment: true},
		"the first revision, to which no pod refers": {
			app: []func(*v1alpha1.AppService){withoutReferences}, plan: firstRevision, createsDeployment: true,
		},
		"another content": {prepare: deliverFirstRevision, plan: secondRevision},
		"a rollback": {
			prepare: func(c *configured, w *testReconciler) {
				deliverFirstRevision(c, w)
				first := slices.Clone(c.named)
				c.settle(w, secondRevision(c))
				c.named = first
			},
			plan: func(c *configured) map[string]string {
				c.planConfigured(withRevision(1))
				return c.allCopies("1", "1", "1")
			},
		},
		"a content in place": {
			prepare: deliverFirstRevision,
			plan: func(c *configured) map[string]string {
				c.changeInPlace("registry", "2", 2)
				c.planConfigured()
				return c.allCopies("1", "1", "2")
			},
		},
		"no configuration any more": {
			prepare: deliverFirstRevision,
			plan: func(c *configured) map[string]string {
				c.edit(func(app *v1alpha1.AppService) {
					withoutReferences(app)
					app.Spec.Configuration = nil
				})
				c.revision, c.named, c.app.Status.Configuration = 2, nil, nil
				c.planRevision()
				return map[string]string{}
			},
		},
		"an adoption": {
			app:     []func(*v1alpha1.AppService){withConflictPolicy(v1alpha1.ConflictAdopt)},
			prepare: func(c *configured, _ *testReconciler) { c.createUnmanaged() },
			plan:    firstRevision,
		},
	}
}

// createUnmanaged creates a Deployment of the same name that nobody has adopted.
func (c *configured) createUnmanaged() *appsv1.Deployment {
	c.Helper()
	c.must(onMember.Create(c.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.app.Namespace}}))
	labels := map[string]string{"app": "web"}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.app.Namespace, Name: "web", Annotations: map[string]string{v1alpha1.AnnotationCopies: "ConfigMap/" + c.ofSettings()}}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	deployment.Spec.Template.Labels = labels
	deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:0"}}
	c.must(onMember.Create(c.Context(), deployment))
	return deployment
}

// The connection to the member ends after each request of each change, or the process does. A Deployment
// that exists never refers to a copy that is not there. The change is completed at once, and does not
// wait until pods say what they lack.
func TestCopies_are_completed_after_an_interruption(t *testing.T) {
	t.Parallel()
	for name, change := range interruptedChanges() {
		t.Run(name+" by the next process", func(t *testing.T) {
			t.Parallel()
			change.interruptEverywhere(t, func(c *configured, _ *testReconciler, n int) *testReconciler {
				if n%2 == 0 {
					c.changeDeploymentByOther()
				}
				return c.newReconciler()
			})
		})
		if name != "the first revision" && name != "another content" {
			continue
		}
		t.Run(name+" by the same process", func(t *testing.T) {
			t.Parallel()
			change.interruptEverywhere(t, func(_ *configured, w *testReconciler, _ int) *testReconciler { return w })
		})
	}
}

// interruptEverywhere interrupts the change after each of its writes, or in a sample after every third.
// The function returns the reconciler that completes the change.
func (i interruptedChange) interruptEverywhere(t *testing.T, next func(c *configured, w *testReconciler, writes int) *testReconciler) {
	t.Helper()
	first, step := 0, 1
	if number, isSample := sample.Number(); isSample {
		first, step = int(number%3), 3
	}
	for n := first; i.interrupt(t, n, next); n += step {
		if n > 20 {
			t.Fatal("the change does not end")
		}
	}
}

// changeDeploymentByOther raises the generation of the Deployment, if there is one.
func (c *configured) changeDeploymentByOther() {
	c.Helper()
	if deployment := c.deployment(); deployment != nil {
		c.changeByOther(deployment, func() { deployment.Spec.RevisionHistoryLimit = new(int32(3)) })
	}
}

// interrupt makes all requests to the member fail after n writes, and then lets a reconciler complete the
// change. It reports whether the change took more than n writes.
func (i interruptedChange) interrupt(t *testing.T, n int, next func(c *configured, w *testReconciler, writes int) *testReconciler) (interrupted bool) {
	t.Helper()
	c := newConfigured(t, i.app...)
	c.connect()
	defer c.end()
	w := c.newReconciler()
	w.copies.DeletionRetry = 0 // otherwise a deletion that failed is repeated after minutes
	if i.prepare != nil {
		i.prepare(c, w)
	}
	want := i.plan(c)
	var mu sync.Mutex
	writes := 0
	c.sent.reset()
	c.sent.answers(func(request string) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasSuffix(request, " events") {
			return nil, nil
		}
		if !strings.HasPrefix(request, http.MethodGet) {
			interrupted = interrupted || writes == n
			writes++
		}
		if interrupted {
			return nil, errors.New("the connection ended")
		}
		return nil, nil
	})
	isInterrupted := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return interrupted
	}
	wait.Eventually(t, func() error {
		err := c.reconcileAndCompare(w, want)
		if isInterrupted() {
			return nil
		}
		return err
	})
	if !i.createsDeployment {
		c.expectNoMissingCopy()
	}
	c.sent.answers(nil)
	c.settle(next(c, w, n), want)
	if c.sent.count("GET pods") > 0 {
		t.Errorf("after %d writes, the change was completed by a diagnosis of pods", n)
	}
	return interrupted
}

// settle reconciles until the member has exactly these copies.
func (c *configured) settle(w *testReconciler, want map[string]string) {
	c.Helper()
	wait.Eventually(c.T, func() error { return c.reconcileAndCompare(w, want) })
}

func (c *configured) reconcileAndCompare(w *testReconciler, want map[string]string) error {
	c.Helper()
	c.catchUp()
	_, err := w.Reconcile(c.Context(), requestFor(c.clusterName(), c.key()))
	if err == nil {
		err = c.compareCopies(want)
	}
	if err == nil && w.reported.last(c.key(), c.cluster).Phase != v1alpha1.ClusterReady {
		err = fmt.Errorf("reported %+v", w.reported.last(c.key(), c.cluster))
	}
	return err
}

// The record was written a moment ago, and the member's cache shows neither that nor that the member
// has observed the generation before. The record is not sent again, and the cluster stays Ready.
func TestRecord_is_sent_once_while_the_cache_is_behind(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.connect()
	w := c.newReconciler()
	c.planRevision()
	c.settle(w, c.allCopies("1", "1", "1"))
	c.observedDeployment()
	c.catchUp()
	cached := &appsv1.Deployment{}
	c.must(c.member.GetClient().Get(t.Context(), c.key(), cached))
	cached.Status.ObservedGeneration = cached.Generation - 1 // which differs in the record only
	w.reader.cached = staleCluster{c.member, []client.Object{cached}}.GetClient()
	c.sent.reset()
	reports := len(w.reported.all(c.key(), c.cluster))
	c.changeInPlace("registry", "2", 2)
	c.planConfigured()
	for range 3 {
		w.reconcileOnce()
	}
	if diff := cmp.Diff([]string{"PATCH secrets/" + c.ofRegistry(), "PATCH deployments/web"}, c.sent.all()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	// A member that was restored has the earlier generation for good.
	w.memories.of(c.app).records.time = time.Now().Add(-maxCacheLag)
	w.reconcileOnce()
	if got := c.sent.count("PATCH deployments/web"); got != 2 {
		t.Errorf("the record was sent %d times, want again after the limit", got)
	}
	for _, seen := range w.reported.all(c.key(), c.cluster)[reports:] {
		if seen.Phase != v1alpha1.ClusterReady {
			t.Errorf("reported %s: %s", seen.Phase, seen.Message)
		}
	}
	w.reader.cached = c.member.GetClient()
	c.settle(w, c.allCopies("1", "1", "2"))
}

// expectNoMissingCopy fails the test if the Deployment refers to a copy that the member does not have.
func (c *configured) expectNoMissingCopy() {
	c.Helper()
	found := c.copiesOnMember()
	for _, name := range references(c.deployment()) {
		_, isConfigMap := found["ConfigMap/"+name]
		_, isSecret := found["Secret/"+name]
		if !isConfigMap && !isSecret {
			c.Errorf("the Deployment refers to %s, which is not there", name)
		}
	}
}

// observedDeployment returns the Deployment after its controller has seen it.
func (c *configured) observedDeployment() *appsv1.Deployment {
	c.Helper()
	wait.Eventually(c.T, func() error {
		if d := c.deployment(); d.Status.ObservedGeneration != d.Generation {
			return errors.New("the Deployment is not observed")
		}
		return nil
	})
	return c.deployment()
}

// A member that refuses the copies keeps the Deployment as it is, also one that is adopted. Nothing
// announces that its pods are replaced.
func TestAdoption_waits_for_copies(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, withConflictPolicy(v1alpha1.ConflictAdopt))
	c.createUnmanaged()
	before := c.observedDeployment()
	granted := c.config
	c.config = memberConfig
	c.start()
	c.planRevision()
	c.expectRefused("configmaps \"" + c.ofSettings() + "\" is forbidden")
	c.expectUnchanged(before)
	c.expectEvents(v1alpha1.ReasonAdoptionRestartsPods)

	// The content changes before the permissions are granted.
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.planRevision()
	c.config = granted
	c.restart()
	c.expectReferences()
	c.expectCopies(c.allCopies("2", "1", "1"))
	c.expectReport(c.readyWith(1))
	if got := c.deployment().UID; got != before.UID {
		t.Error("the Deployment was created again")
	}
	c.expectAtRestWithCopies()
}

// A rollout proves that the copies are there if its pods do not start without them: a new AppService
// costs one request for each copy, and a restart none.
func TestRecord_that_the_rollout_confirms_is_not_written(t *testing.T) {
	t.Parallel()
	c := newConfigured(t, func(app *v1alpha1.AppService) {
		app.Spec.ImagePullSecrets, app.Spec.Configuration = nil, app.Spec.Configuration[:2]
	})
	c.app.Status.Configuration = nil
	c.start()
	c.planRevision()
	c.expectReport(c.ready())
	want := []string{"PATCH deployments/web", "POST namespaces", "PATCH configmaps/" + c.ofSettings(), "PATCH secrets/" + c.ofDB(), "PATCH services/web"}
	if got := len(c.sent.writes()); got != len(want) {
		t.Errorf("sent %v", c.sent.writes())
	}
	if n := c.sent.count("PATCH deployments/web"); n != 2 { // the first fails without the namespace
		t.Errorf("the Deployment was written %d times", n)
	}
	c.expectAtRestWithCopies()

	// A change of the AppService confirms the record.
	c.revision++
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "2")
	c.planRevision()
	wait.Eventually(t, func() error {
		deployment := c.deployment()
		if text := deployment.Annotations[v1alpha1.AnnotationCopies]; !strings.HasSuffix(text, ",Deployment/"+string(deployment.UID)) {
			return errors.New(text)
		}
		return nil
	})
	c.expectReport(c.ready())
	c.expectAtRestWithCopies()
}

// While it is not known whether a copy is there, its serial is not reported.
func TestSerial_of_a_copy_that_may_be_missing(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.connect()
	c.planRevision()
	c.sent.answers(refuse("PATCH secrets/"+c.ofRegistry(), http.StatusForbidden, "no"))
	for range 2 {
		seen, _, err := c.reconcileOnce()
		c.must(err)
		if seen.Reason != v1alpha1.ReasonConfigurationRefused || len(seen.Configuration) > 0 {
			t.Errorf("reported %+v", seen)
		}
	}
	c.sent.answers(nil)
	w := c.newReconciler()
	var seen observation.Observation
	wait.Eventually(t, func() error {
		if seen, _ = w.reconcileOnce(); len(seen.Configuration) != 1 || seen.Phase != v1alpha1.ClusterReady {
			return fmt.Errorf("reported %+v", seen)
		}
		return nil
	})
}

// A backup tool creates the Deployment again while no operator runs: the copies belong to the Deployment
// that is gone, so the garbage collector of the member is about to delete them.
func TestCopies_of_a_Deployment_that_was_restored_from_a_backup(t *testing.T) {
	t.Parallel()
	c := deliveredConfigured(t)
	c.end()
	backup := c.deployment()
	c.must(onMember.Delete(t.Context(), backup.DeepCopy()))
	wait.Eventually(t, func() error {
		if c.deployment() != nil {
			return errors.New("the Deployment is not deleted yet")
		}
		return nil
	})
	backup.ObjectMeta = metav1.ObjectMeta{Namespace: backup.Namespace, Name: backup.Name, Labels: backup.Labels, Annotations: backup.Annotations}
	c.must(onMember.Create(t.Context(), backup))
	c.start()
	c.expectOwner(backup)
	c.expectReport(c.readyWith(1))
	c.expectAtRestWithCopies()
}

// expectOwner waits until the Deployment owns each copy.
func (c *configured) expectOwner(deployment *appsv1.Deployment) {
	c.Helper()
	wait.Eventually(c.T, func() error {
		for name := range c.allCopies("", "", "") {
			var object client.Object = &corev1.ConfigMap{}
			kind, name, _ := strings.Cut(name, "/")
			if kind == "Secret" {
				object = &corev1.Secret{}
			}
			if err := onMember.Get(c.Context(), client.ObjectKey{Namespace: c.app.Namespace, Name: name}, object); err != nil {
				return err
			}
			if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != deployment.UID {
				return fmt.Errorf("%s %s has the owners %v", kind, name, owners)
			}
		}
		return nil
	})
}

// The etcd of a member is restored: the process remembers copies that the member has not any more.
func TestCopies_of_a_member_that_was_restored(t *testing.T) {
	t.Parallel()
	c := newConfigured(t)
	c.connect()
	w := c.newReconciler()
	c.settle(w, firstRevision(c))
	earlier, first := c.deployment(), c.allCopies("1", "1", "1")
	second := secondRevision(c)
	c.changeInPlace("registry", "2", 2)
	c.planConfigured()
	second["Secret/"+c.ofRegistry()] = canary + "2"
	c.settle(w, second)

	w.reconcileOnce() // it sees the last record
	c.restoreMember(earlier, first)
	c.sent.reset()
	c.settle(w, second)
	if diff := c.compareReferences(); diff != nil {
		t.Error(diff)
	}
	if c.sent.count("GET pods") > 0 {
		t.Error("the copies were found by a diagnosis of pods")
	}
}

// restoreMember gives the member the Deployment and the copies that it had earlier.
func (c *configured) restoreMember(earlier *appsv1.Deployment, copies map[string]string) {
	c.Helper()
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: earlier.Name, UID: earlier.UID}}
	all := c.copiesOnMember()
	for name, value := range copies {
		all[name] = value
	}
	for name := range all {
		kind, name, _ := strings.Cut(name, "/")
		meta := metav1.ObjectMeta{Namespace: c.app.Namespace, Name: name, OwnerReferences: owner, Labels: map[string]string{v1alpha1.LabelAppService: c.app.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}
		var object client.Object = &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"value": copies[kind+"/"+name]}}
		if kind == "Secret" {
			object = &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"password": []byte(copies[kind+"/"+name])}}
		}
		c.must(client.IgnoreNotFound(onMember.Delete(c.Context(), object)))
		if _, had := copies[kind+"/"+name]; had {
			object.SetResourceVersion("")
			object.SetUID("")
			c.must(onMember.Create(c.Context(), object))
		}
	}
	now := c.deployment()
	restored := earlier.DeepCopy()
	restored.ResourceVersion = now.ResourceVersion
	c.must(onMember.Update(c.Context(), restored, client.FieldOwner(v1alpha1.ManagedBy)))
}

// Somebody writes absurd numbers into the annotations of a Deployment while no operator runs. They are
// corrected as any drift, and the next content reaches the member.
func TestAbsurd_numbers_of_a_Deployment_are_corrected(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"999999999", "1000000000", "9223372036854775807"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			c := deliveredConfigured(t)
			c.expectCopies(c.allCopies("1", "1", "1"))
			c.end()
			deployment := c.deployment()
			before := deployment.DeepCopy()
			deployment.Annotations[v1alpha1.AnnotationCopies] = strings.Replace(deployment.Annotations[v1alpha1.AnnotationCopies], "@1", "@"+number, 1)
			deployment.Annotations[v1alpha1.AnnotationRevision] = number
			c.must(onMember.Patch(c.Context(), deployment, client.MergeFrom(before)))
			c.changeInPlace("registry", "2", 2)
			c.start()
			c.planConfigured()
			c.expectCopies(c.allCopies("1", "1", "2"))
			c.expectReport(c.readyWith(2))
			if annotations := c.deployment().Annotations; !strings.Contains(annotations[v1alpha1.AnnotationCopies], c.ofRegistry()+"@2,") || annotations[v1alpha1.AnnotationRevision] != "1" {
				t.Errorf("the annotations are %v", annotations)
			}
		})
	}
}
