package sources

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionreview "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func inNamespace(name string) client.DeleteAllOfOption { return client.InNamespace(name) }

func (f *fixture) keySecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.operator, Name: KeyName}}
}

func TestTheKeyIsLost(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings, tls)
	f.put(settings, "one")
	f.put(tls, "two")
	f.settle()
	first := f.app.Status.Configuration
	lose := func() {
		f.must(hub.Delete(f.Context(), f.keySecret()))
		f.restart()
		f.sent.take()
	}
	t.Run("and nothing is read while no source changes", func(t *testing.T) {
		lose()
		f.settle()
		if sent := f.sent.take(); len(sent) > 0 {
			t.Errorf("requests %v", sent)
		}
	})
	t.Run("and the same content keeps its snapshot", func(t *testing.T) {
		for _, ref := range []configuration.Ref{settings, tls} {
			f.put(ref, map[configuration.Ref]string{settings: "one", tls: "two"}[ref], func(object metav1.Object) { object.SetAnnotations(map[string]string{"x": "y"}) })
		}
		wait.Eventually(f, func() error {
			f.settle()
			for i, status := range f.app.Status.Configuration {
				if status.ObservedVersion == first[i].ObservedVersion {
					return fmt.Errorf("%s was not read", status.From)
				}
			}
			return nil
		})
		for i, status := range f.app.Status.Configuration {
			if status.Snapshot != first[i].Snapshot {
				t.Errorf("the snapshot of %s changed from %s to %s", status.From, first[i].Snapshot, status.Snapshot)
			}
		}
		if len(f.stored()) != 2 || len(f.revisions) != 1 {
			t.Errorf("there are %d snapshots and %d revisions", len(f.stored()), len(f.revisions))
		}
	})
	t.Run("and another content of the same size gets another snapshot", func(t *testing.T) {
		f.put(settings, "new")
		f.waitForReasonAndValue(settings, "new")
		if len(f.stored()) != 3 || len(f.revisions) != 2 {
			t.Errorf("there are %d snapshots and %d revisions", len(f.stored()), len(f.revisions))
		}
	})
}

// waitForReasonAndValue settles until the source has this value in use.
func (f *fixture) waitForReasonAndValue(ref configuration.Ref, value string) {
	f.Helper()
	wait.Eventually(f, func() error {
		f.settle()
		if got := f.value(ref); got != value || f.status(ref).Reason != "" {
			return fmt.Errorf("%+v has %q in use, want %q", f.status(ref), got, value)
		}
		return nil
	})
}

func TestTheKeyIsNotOurs(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]map[string][]byte{"short": {"key": []byte("short")}, "foreign": {"password": bytes.Repeat([]byte("x"), 32)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, settings)
			secret := f.keySecret()
			secret.Data = data
			f.must(hub.Create(f.Context(), secret))
			f.put(settings, "one")
			status := f.waitForReason(settings, v1alpha1.ReasonConfigurationForbidden)
			if want := "Secret " + f.operator + "/" + KeyName + ": the key has "; !strings.Contains(status.Message, want) || !strings.Contains(status.Message, "delete it to get a new key") {
				t.Errorf("the message is %q", status.Message)
			}
			f.must(hub.Delete(f.Context(), f.keySecret()))
			f.passed += retryRefused
			f.waitForReasonAndValue(settings, "one")
		})
	}
}

// Only the first of several processes creates a key.
func TestTheKeyIsCreatedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const processes = 8
	keys := make(chan *storedKey, processes)
	for range processes {
		go func() {
			store := &keyStore{hub: f.hub, namespace: f.operator}
			key, err := store.get(f.loudly())
			if err != nil {
				t.Error(err)
			}
			keys <- key
		}()
	}
	first := <-keys
	for range processes - 1 {
		if key := <-keys; key == nil || *key != *first {
			t.Error("two processes have different keys")
		}
	}
}

// A snapshot that is younger than the key has the digest of its content. An older one may have been made
// with an earlier key.
func TestHasDigest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := &Sources{key: &keyStore{hub: f.hub, namespace: f.operator}}
	key, err := s.key.get(f.loudly())
	f.must(err)
	id := configuration.Identity{Namespace: f.app.Namespace, AppService: f.app.Name, Ref: settings}
	content := func(value string) configuration.Content {
		return configuration.Content{Data: map[string][]byte{"greeting": []byte(value)}}
	}
	for name, test := range map[string]struct {
		age   time.Duration // since the key
		value string
		want  bool
	}{
		"the content":                       {keyMargin, "proved", true},
		"another content":                   {keyMargin, "forged", false},
		"another content, before the key":   {-time.Hour, "forged", true},
		"another content, at the same time": {keyMargin - time.Second, "forged", true},
	} {
		snapshot := configuration.Snapshot{Ref: settings, Digest: configuration.DigestOf(key.Key, id, content("proved")), CreationTime: metav1.NewTime(key.since.Add(test.age))}
		if got, err := s.HasDigest(f.Context(), id, snapshot, content(test.value)); got != test.want || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}

func TestANameIsTaken(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.put(settings, "one")
	f.settle()
	name := f.status(settings).Snapshot
	f.stop()
	// The same name, with our labels and annotations, but of another owner.
	snapshot := &corev1.ConfigMap{}
	f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: f.app.Namespace, Name: name}, snapshot))
	f.must(hub.Delete(f.Context(), snapshot.DeepCopy()))
	foreign := snapshot.DeepCopy()
	foreign.ResourceVersion, foreign.UID, foreign.OwnerReferences, foreign.Data = "", "", nil, map[string]string{"key": "evil"}
	for _, isLabelled := range []bool{true, false} {
		t.Run(fmt.Sprintf("labelled %t", isLabelled), func(t *testing.T) {
			taker := foreign.DeepCopy()
			if !isLabelled {
				taker.Labels = nil
			}
			f.must(hub.Create(f.Context(), taker))
			f.app.Status = v1alpha1.AppServiceStatus{}
			f.must(hub.Status().Update(f.Context(), f.app))
			f.revisions = nil
			f.start()
			f.waitForAccess()
			status := f.waitForReason(settings, v1alpha1.ReasonNameTaken)
			if !strings.Contains(status.Message, "kubectl delete configmap "+name) || len(f.revisions) > 0 {
				t.Errorf("the message is %q, with %d revisions", status.Message, len(f.revisions))
			}
			version := f.app.ResourceVersion
			for range 3 {
				f.passed += retryRefused
				f.settle()
			}
			if f.app.ResourceVersion != version {
				t.Errorf("the status has changed to %+v", f.status(settings))
			}
			f.must(hub.Delete(f.Context(), taker))
			wait.Eventually(f, func() error {
				f.passed += retryRefused
				f.settle()
				if status := f.status(settings); status.Reason != "" {
					return fmt.Errorf("status %+v", status)
				}
				return nil
			})
			if f.value(settings) != "one" {
				t.Errorf("the value is %q", f.value(settings))
			}
			f.stop()
			f.must(hub.DeleteAllOf(f.Context(), &corev1.ConfigMap{}, client.InNamespace(f.app.Namespace), client.HasLabels{v1alpha1.LabelAppService}))
		})
	}
}

// A snapshot that somebody deletes is created again while the source has its content.
func TestASnapshotIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.put(settings, "one")
	f.settle()
	name := f.status(settings).Snapshot
	f.waitForSnapshot(name, true)
	f.drain()
	f.must(hub.Delete(f.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: name}}))
	f.waitForEvent()
	f.settle()
	if f.value(settings) != "one" || f.status(settings).Snapshot != name || len(f.revisions) != 1 {
		t.Errorf("status %+v with %d revisions", f.status(settings), len(f.revisions))
	}
}

// waitForSnapshot waits until the watch has a snapshot, or not.
func (f *fixture) waitForSnapshot(name string, isThere bool) {
	f.Helper()
	wait.Eventually(f, func() error {
		if found := f.watchOf(settings.Kind, f.app.Namespace).get(f.app.Namespace, name); (found != nil) != isThere {
			return fmt.Errorf("the watch has snapshot %s: %t", name, found != nil)
		}
		return nil
	})
}

func TestPruning(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	var names []string
	for _, value := range []string{"one", "two", "three"} {
		f.put(settings, value)
		f.waitForReasonAndValue(settings, value)
		names = append(names, f.status(settings).Snapshot)
	}
	f.waitForSnapshot(names[2], true)
	f.revisions = f.revisions[1:] // the history is limited
	t.Run("keeps young snapshots", func(t *testing.T) {
		f.settle()
		if len(f.stored()) != 3 {
			t.Errorf("the snapshots are %v", f.stored())
		}
	})
	f.passed += time.Hour
	t.Run("keeps an object that was created again", func(t *testing.T) {
		f.must(hub.Get(f.Context(), client.ObjectKeyFromObject(f.app), f.app))
		decision, err := f.Decide(f.Context(), Request{App: f.app, Revisions: f.revisions, Now: time.Now().Add(f.passed)})
		f.must(err)
		if len(decision.Prune) != 1 || decision.Prune[0].Name != names[0] {
			t.Fatalf("prune %+v", decision.Prune)
		}
		old := &corev1.ConfigMap{}
		f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: f.app.Namespace, Name: names[0]}, old))
		f.must(hub.Delete(f.Context(), old.DeepCopy()))
		old.ResourceVersion, old.UID = "", ""
		f.must(hub.Create(f.Context(), old))
		f.must(f.Written(f.Context(), f.app, decision))
		if _, exists := f.stored()[names[0]]; !exists {
			t.Error("the object with another UID was deleted")
		}
	})
	t.Run("deletes what nothing names, once", func(t *testing.T) {
		wait.Eventually(f, func() error {
			f.settle()
			if _, exists := f.stored()[names[0]]; exists {
				return fmt.Errorf("%s still exists", names[0])
			}
			return nil
		})
		f.settle()
		deletions := 0
		for _, line := range f.sent.take() {
			if strings.HasPrefix(line, "DELETE ") {
				deletions++
			}
		}
		if deletions != 2 || len(f.stored()) != 2 { // one with the UID from before
			t.Errorf("%d deletions, and the snapshots are %v", deletions, f.stored())
		}
	})
	t.Run("deletes all when the content is withdrawn, and no revision names it any more", func(t *testing.T) {
		f.must(hub.Get(f.Context(), client.ObjectKeyFromObject(f.app), f.app))
		f.app.Spec.Configuration = nil
		f.must(hub.Update(f.Context(), f.app))
		f.settle()
		f.restart()
		if !f.HasSnapshots(f.app) || len(f.stored()) != 2 {
			t.Fatalf("there are snapshots: %t; they are %v", f.HasSnapshots(f.app), f.stored())
		}
		f.waitForEvent() // after the watches are synced
		f.app.Status.Rollout.StableRevision = f.app.Status.Rollout.Revision
		f.must(hub.Status().Update(f.Context(), f.app))
		f.revisions = f.revisions[len(f.revisions)-1:]
		f.settle()
		wait.Eventually(f, func() error {
			if stored := f.stored(); len(stored) > 0 || f.HasSnapshots(f.app) {
				return fmt.Errorf("there are snapshots: %t; they are %v", f.HasSnapshots(f.app), stored)
			}
			return nil
		})
	})
}

// An admission policy refuses snapshots, and quotes the Secret. Its message is not repeated.
func TestAPolicyQuotesTheSecret(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tls)
	name := f.app.Namespace + ".example.com"
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "!object.metadata.name.endsWith('.snapshot')", MessageExpression: "'refused: ' + string(object.data['key'])"}},
	}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		MatchResources: &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": f.app.Namespace}}}}}
	f.must(hub.Create(f.Context(), policy))
	f.must(hub.Create(f.Context(), binding))
	t.Cleanup(func() { f.must(hub.Delete(quietly(context.Background()), policy)) })
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: "probe.snapshot"}, Data: map[string][]byte{"key": []byte(canary)}}
	wait.Eventually(f, func() error {
		if err := hub.Create(f.Context(), probe.DeepCopy(), client.DryRunAll); err == nil || !contains(err.Error(), canary) {
			return fmt.Errorf("the policy does not refuse and quote yet: %w", err)
		}
		return nil
	})
	f.put(tls, "one")
	status := f.waitForReason(tls, v1alpha1.ReasonConfigurationForbidden)
	text, err := json.Marshal(f.app.Status)
	f.must(err)
	if contains(string(text), canary) || !strings.Contains(status.Message, "create Secret ") {
		t.Errorf("the status is %s", text)
	}
	f.must(hub.Delete(f.Context(), binding))
	wait.Eventually(f, func() error {
		f.passed += retryRefused
		f.settle()
		if status := f.status(tls); status.Reason != "" {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
}

func TestErrorsAboutSecretsHideTheirContent(t *testing.T) {
	t.Parallel()
	err := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), canary, nil)
	chosen := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Reason: canary, Message: canary}} // by a webhook
	if hidden := hideContent("create it", v1alpha1.ConfigurationSecret, chosen); contains(fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden), canary) {
		t.Errorf("the error with a reason of a webhook is %v", hidden)
	}
	hidden := hideContent("create it", v1alpha1.ConfigurationSecret, err)
	if contains(fmt.Sprintf("%v %+v %#v", hidden, hidden, hidden), canary) || !apierrors.IsInvalid(hidden) {
		t.Errorf("the error is %#v", hidden)
	}
	if shown := hideContent("create it", v1alpha1.ConfigurationConfigMap, err); !contains(shown.Error(), canary) {
		t.Errorf("the error about a ConfigMap is %v", shown)
	}
}

// The process ends after each request of a change. The next process completes the change, with the
// same snapshots, and no revision more than without the crash.
func TestCrashAfterEachRequest(t *testing.T) {
	t.Parallel()
	for number := 0; ; number++ {
		f := newFixture(t, settings, tls)
		f.put(settings, "one")
		f.put(tls, "two")
		f.settle()
		f.restart()
		f.settle()
		f.put(settings, "three")
		f.put(tls, "four")
		f.waitForEvent()
		f.sent.killAfter(number)
		var err error
		for range 20 {
			var decision configuration.Decision
			if decision, err = f.plan(); err != nil || decision.RecheckAfter == 0 {
				break
			}
			f.passed += decision.RecheckAfter
		}
		isDead := err != nil
		f.restart()
		f.waitForReasonAndValue(settings, "three")
		f.waitForReasonAndValue(tls, "four")
		if len(f.stored()) != 4 || len(f.revisions) > 3 {
			t.Errorf("after %d requests: the snapshots are %v, with %d revisions", number, f.stored(), len(f.revisions))
		}
		for _, revision := range f.revisions {
			for _, named := range revision.Configuration {
				if _, exists := f.stored()[named.Snapshot]; !exists {
					t.Errorf("after %d requests: revision %d names snapshot %s, which does not exist", number, revision.Number, named.Snapshot)
				}
			}
		}
		if !isDead {
			if number < 5 {
				t.Errorf("the process needs only %d requests", number)
			}
			return
		}
	}
}

// A new AppService with the name of a deleted one takes nothing over, and waits for the garbage
// collector.
func TestTheAppServiceIsCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.put(settings, "one")
	f.settle()
	name := f.status(settings).Snapshot
	f.waitForSnapshot(name, true)
	namespace := f.app.Namespace
	f.must(hub.Delete(f.Context(), f.app))
	f.app = f.newApp(namespace, "web", settings)
	f.revisions = nil
	f.waitForReason(settings, v1alpha1.ReasonNameTaken)
	f.drain()
	f.must(hub.Delete(f.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})) // as the garbage collector does
	f.waitForEvent()
	f.waitForReasonAndValue(settings, "one")
}

// The watch may be behind what was created and deleted here.
func TestTheWatchIsBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.stop() // what the watch has stays
	f.put(settings, "one")
	f.settle()
	f.settle()
	count := map[string]int{}
	for _, line := range f.sent.take() {
		count[line]++
	}
	if count["POST configmaps"] != 1 || f.value(settings) != "one" || f.status(settings).Reason != "" {
		t.Errorf("requests %v, status %+v", count, f.status(settings))
	}
}

// A deletion that the hub refuses is not repeated at once, and holds up nothing.
func TestPruningIsForbidden(t *testing.T) {
	t.Parallel()
	f := newFixtureWithoutRights(t, settings)
	f.grant(map[string][]string{"configmaps": {"get", "list", "watch", "create"}, "secrets": allVerbs})
	f.start()
	f.waitForAccess()
	for _, value := range []string{"one", "two", "three"} {
		f.put(settings, value)
		f.waitForReasonAndValue(settings, value)
	}
	f.waitForSnapshot(f.status(settings).Snapshot, true)
	f.revisions = f.revisions[1:]
	f.passed += time.Hour
	f.settle()
	f.settle()
	deletions := 0
	for _, line := range f.sent.take() {
		if strings.HasPrefix(line, "DELETE ") {
			deletions++
		}
	}
	if deletions != 1 || len(f.stored()) != 3 || f.status(settings).Reason != "" {
		t.Errorf("%d deletions, status %+v, snapshots %v", deletions, f.status(settings), f.stored())
	}
}

// refuseSnapshots makes a real webhook answer all creations of snapshots of Secrets in the namespace of
// the AppService. It refuses them, and quotes the content, until it is stopped: then it is down.
func (f *fixture) refuseSnapshots() (stop, remove func()) {
	f.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionreview.AdmissionReview{}
		secret := corev1.Secret{}
		if err := errors.Join(json.NewDecoder(r.Body).Decode(&review), json.Unmarshal(review.Request.Object.Raw, &secret)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		quote := string(secret.Data["key"])
		review.Response = &admissionreview.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReason(quote), Message: "refused: " + quote}}
		review.Request = nil
		if err := json.NewEncoder(w).Encode(review); err != nil {
			f.Error(err)
		}
	}))
	webhook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: f.app.Namespace}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "refuse.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionv1.SideEffectClassNone), FailurePolicy: new(admissionv1.Fail),
		ClientConfig:      admissionv1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": f.app.Namespace}},
		ObjectSelector:    &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelPropagate: v1alpha1.PropagateSnapshot}},
		Rules: []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}}}},
	}}}
	f.must(hub.Create(f.Context(), webhook))
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: "probe", Labels: map[string]string{v1alpha1.LabelPropagate: v1alpha1.PropagateSnapshot}}, Data: map[string][]byte{"key": []byte(canary)}}
	wait.Eventually(f, func() error {
		if err := hub.Create(f.Context(), probe.DeepCopy(), client.DryRunAll); err == nil || !contains(err.Error(), canary) {
			return fmt.Errorf("the webhook does not refuse and quote yet: %w", err)
		}
		return nil
	})
	remove = sync.OnceFunc(func() { f.must(hub.Delete(quietly(context.Background()), webhook)) })
	stop = sync.OnceFunc(server.Close)
	f.Cleanup(remove)
	f.Cleanup(stop)
	return stop, remove
}

// checkNoCanary fails the test if the status quotes a Secret.
func (f *fixture) checkNoCanary() {
	f.Helper()
	text, err := json.Marshal(f.app.Status)
	f.must(err)
	if contains(string(text), canary) {
		f.Errorf("the status is %s", text)
	}
}

// A webhook refuses snapshots and quotes the Secret, and then it is down. Both are visible, without the
// content, and the source is used when the webhook is gone.
func TestAWebhookRefusesAndIsDown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings, tls)
	stop, remove := f.refuseSnapshots()
	f.put(settings, "one")
	f.put(tls, "one")
	f.waitForReason(tls, v1alpha1.ReasonConfigurationForbidden)
	f.checkNoCanary()
	stop()
	f.passed += retryRefused
	var waits []time.Duration // it is tried less and less often
	for range 7 {
		decision, err := f.plan()
		f.must(err)
		waits = append(waits, decision.RecheckAfter.Round(time.Second))
		f.passed += decision.RecheckAfter
	}
	if diff := cmp.Diff([]time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute}, waits); diff != "" {
		t.Errorf("the times between the attempts (-want +got):\n%s", diff)
	}
	status := f.waitForReason(tls, v1alpha1.ReasonConfigurationUnavailable)
	f.checkNoCanary()
	if want := "the hub gave no usable answer: create Secret " + f.app.Namespace + "/web-tls-"; !strings.HasPrefix(status.Message, want) {
		t.Errorf("the message is %q, want %q", status.Message, want)
	}
	if f.value(settings) != "one" {
		t.Errorf("another source waits: %+v", f.status(settings))
	}
	remove()
	wait.Eventually(f, func() error {
		f.passed += retryRefused
		f.settle()
		if status := f.status(tls); status.Reason != "" {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
	if f.value(tls) != "one" || len(f.state().failures) > 0 {
		t.Errorf("the value is %q, failures %v", f.value(tls), f.state().failures)
	}
}

// state returns what is known about the AppService.
func (f *fixture) state() *appState { return f.stateOf(f.app) }

// A quota refuses snapshots. The API server refuses them as long as the quota's status says so.
func TestAQuotaIsExceeded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.put(settings, "one")
	f.settle()
	limit := corev1.ResourceList{"count/configmaps": resource.MustParse("1")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: "few"}, Spec: corev1.ResourceQuotaSpec{Hard: limit}}
	f.must(hub.Create(f.Context(), quota))
	quota.Status = corev1.ResourceQuotaStatus{Hard: limit, Used: limit} // as the controller of quotas would
	f.must(hub.Status().Update(f.Context(), quota))
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: "probe"}}
	wait.Eventually(f, func() error {
		if err := hub.Create(f.Context(), probe.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the quota is not in force yet: %w", err)
		}
		return nil
	})
	changed := &corev1.ConfigMap{}
	f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: f.app.Namespace, Name: settings.From}, changed))
	changed.Data = map[string]string{"key": "two"}
	f.must(hub.Update(f.Context(), changed))
	status := f.waitForReason(settings, v1alpha1.ReasonConfigurationForbidden)
	if !strings.Contains(status.Message, "quota") || f.value(settings) != "one" || len(f.revisions) != 1 {
		t.Errorf("the value is %q, and the message %q", f.value(settings), status.Message)
	}
	f.must(hub.Delete(f.Context(), quota))
	wait.Eventually(f, func() error {
		f.passed += retryRefused
		f.settle()
		if got := f.value(settings); got != "two" {
			return fmt.Errorf("%+v has %q", f.status(settings), got)
		}
		return nil
	})
}

// A content of almost 1 MiB, with binary data, becomes a snapshot with the same content.
func TestALargeContentWithBinaryData(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	binary := bytes.Repeat([]byte{0, 0xff, 0xfe, 'x'}, (1<<20-1<<10)/4)
	f.put(settings, "one", func(object metav1.Object) {
		object.(*corev1.ConfigMap).BinaryData = map[string][]byte{"binary": binary}
	})
	f.waitForReasonAndValue(settings, "one")
	snapshot := &corev1.ConfigMap{}
	f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: f.app.Namespace, Name: f.status(settings).Snapshot}, snapshot))
	if !bytes.Equal(snapshot.BinaryData["binary"], binary) || snapshot.Data["key"] != "one" {
		t.Error("the snapshot has another content")
	}
}

// The hub is lost, and rebuilt from Git: all objects are new. With the key from a backup, the names of
// the contents are those that members have, and no pod is replaced. Without it, they are others.
func TestTheHubIsRebuilt(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings, tls)
	f.put(settings, "one")
	f.put(tls, "two")
	f.settle()
	before := map[configuration.Ref]string{settings: f.status(settings).Snapshot, tls: f.status(tls).Snapshot}
	backup := f.keySecret()
	f.must(hub.Get(f.Context(), client.ObjectKeyFromObject(backup), backup))
	for _, hasKey := range []bool{true, false} {
		t.Run(fmt.Sprintf("with the key: %t", hasKey), func(t *testing.T) {
			f.stop()
			namespace := f.app.Namespace
			f.must(hub.Delete(f.Context(), f.app))
			f.must(hub.Delete(f.Context(), f.keySecret()))
			for _, kind := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
				f.must(hub.DeleteAllOf(f.Context(), kind, client.InNamespace(namespace), client.HasLabels{v1alpha1.LabelPropagate}))
			}
			if hasKey {
				restored := f.keySecret()
				restored.Data, restored.Immutable = backup.Data, backup.Immutable
				f.must(hub.Create(f.Context(), restored))
			}
			f.app, f.revisions = f.newApp(namespace, "web", settings, tls), nil
			f.put(settings, "one")
			f.put(tls, "two")
			f.start()
			f.waitForAccess()
			f.waitForReasonAndValue(settings, "one")
			f.waitForReasonAndValue(tls, "two")
			for ref, name := range before {
				if got := f.status(ref).Snapshot; (got == name) != hasKey {
					t.Errorf("the snapshot of %s is %s, and was %s", ref.From, got, name)
				}
			}
		})
	}
}
