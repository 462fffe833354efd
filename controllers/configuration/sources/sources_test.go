package sources

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestASourceBecomesASnapshotAndChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings, tls)
	f.put(settings, "one")
	f.put(tls, "two")
	decision := f.settle()
	if decision.Configured.Status != metav1.ConditionTrue || len(f.revisions) != 1 || len(decision.Configuration) != 2 {
		t.Fatalf("Configured is %+v, with %d revisions", decision.Configured, len(f.revisions))
	}
	first := f.status(settings).Snapshot
	want := []string{
		"GET configmaps/settings", "GET secrets/" + KeyName, "POST secrets", "GET secrets/tls",
		"POST configmaps", "POST secrets",
	}
	if diff := cmp.Diff(want, withoutMetadata(f.sent.take())); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	snapshot := &corev1.ConfigMap{}
	f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: f.app.Namespace, Name: first}, snapshot))
	if !metav1.IsControlledBy(snapshot, f.app) || snapshot.OwnerReferences[0].BlockOwnerDeletion != nil || snapshot.Immutable == nil || !*snapshot.Immutable {
		t.Errorf("the snapshot is %+v", snapshot)
	}
	if f.value(settings) != "one" || f.value(tls) != "two" {
		t.Errorf("the snapshots are %v", f.stored())
	}

	t.Run("only changed content is stored, in a new revision", func(t *testing.T) {
		f.put(settings, "three")
		f.waitForEvent()
		f.settle()
		if diff := cmp.Diff([]string{"GET configmaps/settings", "POST configmaps"}, f.sent.take()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if f.value(settings) != "three" || len(f.stored()) != 3 || len(f.revisions) != 2 {
			t.Errorf("the value is %s, with %d snapshots and %d revisions", f.value(settings), len(f.stored()), len(f.revisions))
		}
	})
	t.Run("the same content in another version is read once and not stored", func(t *testing.T) {
		f.put(settings, "three", func(object metav1.Object) { object.SetAnnotations(map[string]string{"x": "y"}) })
		f.waitForEvent()
		f.settle()
		f.settle()
		if diff := cmp.Diff([]string{"GET configmaps/settings"}, f.sent.take()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
	t.Run("the former content returns to its snapshot", func(t *testing.T) {
		f.put(settings, "one")
		f.waitForEvent()
		f.settle()
		if got := f.status(settings).Snapshot; got != first {
			t.Errorf("the snapshot is %s, want %s", got, first)
		}
		if diff := cmp.Diff([]string{"GET configmaps/settings"}, f.sent.take()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
	t.Run("a restart reads and writes nothing", func(t *testing.T) {
		version := f.app.ResourceVersion
		f.restart()
		f.settle()
		if sent := f.sent.take(); len(sent) > 0 || f.app.ResourceVersion != version {
			t.Errorf("requests %v, and the AppService has version %s instead of %s", sent, f.app.ResourceVersion, version)
		}
	})
}

// withoutMetadata returns the requests that read or write content. The watch may not have a new
// source yet.
func withoutMetadata(lines []string) []string {
	var others []string
	for _, line := range lines {
		if !strings.HasPrefix(line, "METADATA ") {
			others = append(others, line)
		}
	}
	return others
}

func TestStatesOfASource(t *testing.T) {
	t.Parallel()
	unlabel := func(object metav1.Object) { object.SetLabels(nil) }
	refuse := func(object metav1.Object) { object.GetLabels()[v1alpha1.LabelPropagate] = "false" }
	for name, c := range map[string]struct {
		ref    configuration.Ref
		happen func(f *fixture)
		reason string
		first  string // reason if it is so from the beginning; as reason by default
	}{
		"deleted":           {settings, func(f *fixture) { _ = hub.Delete(f.Context(), f.object(settings)) }, v1alpha1.ReasonSourceDeleted, v1alpha1.ReasonConfigurationMissing},
		"without the label": {tls, func(f *fixture) { f.put(tls, "a", unlabel) }, v1alpha1.ReasonNotPropagated, ""},
		"label false":       {tls, func(f *fixture) { f.put(tls, "a", refuse) }, v1alpha1.ReasonNotPropagated, ""},
		"a kubeconfig":      {tls, func(f *fixture) { f.put(tls, "b", func(o metav1.Object) { o.GetLabels()["member"] = "true" }) }, v1alpha1.ReasonTypeRefused, ""},
		"of another type": {tls, func(f *fixture) {
			f.put(tls, "b", func(o metav1.Object) { o.(*corev1.Secret).Type = "helm.sh/release.v1" })
		}, v1alpha1.ReasonTypeRefused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("after there was content", func(t *testing.T) {
				f := newFixture(t, c.ref)
				f.put(c.ref, "a")
				f.settle()
				before := f.status(c.ref)
				f.sent.take()
				c.happen(f)
				f.waitForEvent()
				status := f.waitForReason(c.ref, c.reason)
				if status.Snapshot != before.Snapshot || len(f.stored()) != 1 || len(f.revisions) != 1 {
					t.Errorf("the snapshot changed from %s to %s", before.Snapshot, status.Snapshot)
				}
				f.put(c.ref, "c")
				f.waitForReason(c.ref, "")
				if f.value(c.ref) != "c" || len(f.revisions) != 2 {
					t.Errorf("the value is %q, in revision %d", f.value(c.ref), len(f.revisions))
				}
			})
			t.Run("from the beginning", func(t *testing.T) {
				f := newFixture(t, c.ref)
				c.happen(f)
				if c.first == "" {
					c.first = c.reason
				}
				status := f.waitForReason(c.ref, c.first)
				if status.Snapshot != "" || len(f.stored()) != 0 || len(f.revisions) != 0 {
					t.Errorf("there is a snapshot or a revision: %+v", status)
				}
				f.waitForReason(c.ref, c.first)
				if sent := f.sent.take(); len(sent) > 4 {
					t.Errorf("requests %v", sent)
				}
				f.drain()
				f.put(c.ref, "c")
				f.waitForEvent()
				f.waitForReason(c.ref, "")
			})
		})
	}
}

// object returns the source without its content.
func (f *fixture) object(ref configuration.Ref) client.Object {
	metadata := metav1.ObjectMeta{Namespace: f.app.Namespace, Name: ref.From}
	if ref.Kind == v1alpha1.ConfigurationSecret {
		return &corev1.Secret{ObjectMeta: metadata}
	}
	return &corev1.ConfigMap{ObjectMeta: metadata}
}

// Nothing is read before the watches are synced, and a decision then changes nothing.
func TestNothingIsDecidedBeforeTheWatchesAreSynced(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.put(settings, "one")
	f.settle()
	before := f.app.DeepCopy()
	f.stop()
	f.put(settings, "two")
	f.remove(settings)
	parsed, err := ParseNamespaces(f.app.Namespace)
	f.must(err)
	f.Sources, err = New(granted, Options{Namespaces: parsed, OperatorNamespace: f.operator}) // it is not started
	f.must(err)
	if _, err := f.plan(); !errors.Is(err, ErrNotSynced) {
		t.Errorf("the error is %v, want %v", err, ErrNotSynced)
	}
	f.started.Store(new(time.Now().Add(-maxSyncing - time.Second))) // it waits no longer
	decision := f.settle()
	if !decision.AreUnlisted {
		t.Error("the snapshots count as known")
	}
	if diff := cmp.Diff(before.Status, f.app.Status); diff != "" || len(decision.Lost) > 0 || decision.Blocker != nil {
		t.Errorf("lost %v, blocker %+v, status (-before +after):\n%s", decision.Lost, decision.Blocker, diff)
	}
	f.start()
	if _, err := f.plan(); err != nil && !errors.Is(err, ErrNotSynced) {
		t.Fatal(err)
	}
	f.waitForEvent() // when the watch is synced
	f.waitForReason(settings, v1alpha1.ReasonSourceDeleted)
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.put(settings, "one")
	f.settle()
	before := f.status(settings)
	f.stop()
	for name, namespaces := range map[string]string{"without namespaces": "", "for another namespace": "elsewhere"} {
		f.startWith(namespaces)
		decision := f.settle()
		status := f.status(settings)
		if status.Reason != v1alpha1.ReasonPropagationDisabled || status.Snapshot != before.Snapshot || decision.Blocker != nil || len(decision.Lost) > 0 {
			t.Errorf("%s: status %+v, blocker %+v, lost %v", name, status, decision.Blocker, decision.Lost)
		}
		f.put(settings, "two")
		f.settle()
		if sent := f.sent.take(); len(sent) > 0 {
			t.Errorf("%s: requests %v", name, sent)
		}
		f.stop()
	}
	if len(f.stored()) != 1 {
		t.Errorf("the snapshots are %v", f.stored())
	}
	t.Run("by a nil pointer", func(t *testing.T) {
		f.process = &process{}
		f.settle()
		f.Forget(client.ObjectKeyFromObject(f.app))
		f.must(f.Start(f.Context()))
		if status := f.status(settings); status.Reason != v1alpha1.ReasonPropagationDisabled {
			t.Errorf("status %+v", status)
		}
	})
}

func TestTheNamespaceOfTheOperator(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tls)
	f.stop()
	f.operator = f.app.Namespace
	f.put(tls, "a")
	f.start()
	f.waitForReason(tls, v1alpha1.ReasonTypeRefused)
	if sent := f.sent.take(); len(sent) > 0 {
		t.Errorf("requests %v", sent)
	}
}

func TestASharedSourceIsReadOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put(settings, "one")
	apps, revisions := make([]*v1alpha1.AppService, 40), make([][]configuration.Revision, 40)
	for i := range apps {
		apps[i] = f.newApp(f.app.Namespace, fmt.Sprintf("web-%d", i), settings)
	}
	wait.Eventually(f, func() error {
		if f.watchOf(settings.Kind, f.app.Namespace).get(f.app.Namespace, settings.From) == nil {
			return fmt.Errorf("the watch lacks the source")
		}
		return nil
	})
	settleAll := func() {
		done := make(chan error, len(apps))
		for range 3 {
			for i := range apps {
				go func() {
					_, err := f.planFor(apps[i], &revisions[i])
					done <- err
				}()
			}
			for range apps {
				f.must(<-done)
			}
			f.passed += 2 * time.Second
		}
	}
	for i, value := range []string{"one", "two"} {
		f.put(settings, value)
		wait.Eventually(f, func() error {
			current := &corev1.ConfigMap{}
			f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: f.app.Namespace, Name: settings.From}, current))
			if found := f.watchOf(settings.Kind, f.app.Namespace).get(f.app.Namespace, settings.From); found.ResourceVersion != current.ResourceVersion {
				return fmt.Errorf("the watch is behind")
			}
			return nil
		})
		f.sent.take()
		settleAll()
		count := map[string]int{}
		for _, line := range f.sent.take() {
			count[line]++
		}
		if count["GET configmaps/settings"] != 1 || count["POST configmaps"] != len(apps) {
			t.Errorf("requests for %s: %v", value, count)
		}
		if keys := 1 - i; count["GET secrets/"+KeyName] != keys || count["POST secrets"] != keys {
			t.Errorf("requests for %s, with the key: %v", value, count)
		}
	}
}
