package sources

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/internal/wait"
)

var allVerbs = []string{"get", "list", "watch", "create", "delete"}

// Each right that is missing affects only its own kind, and nothing that is in use. When it is
// granted, the source is used without a restart.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"", "get", "watch", "create"} { // a watch replaces a list
		t.Run("without "+verb, func(t *testing.T) {
			t.Parallel()
			f := newFixtureWithoutRights(t, settings, tls)
			without := map[string][]string{"configmaps": allVerbs}
			for _, allowed := range allVerbs {
				if verb != "" && verb != allowed {
					without["secrets"] = append(without["secrets"], allowed)
				}
			}
			f.grant(without)
			f.start()
			f.put(settings, "one")
			f.put(tls, "two")
			status := f.waitForReason(tls, v1alpha1.ReasonConfigurationForbidden)
			if !strings.Contains(status.Message, "config/propagation") || strings.Contains(status.Message, canary) {
				t.Errorf("the message is %q", status.Message)
			}
			f.waitForReason(settings, "")
			version := f.app.ResourceVersion
			for range 3 { // the status does not change while the refusal lasts
				f.passed += retryRefused
				f.settle()
			}
			if f.app.ResourceVersion != version {
				t.Errorf("the status has changed to %+v", f.status(tls))
			}
			if f.value(settings) != "one" || len(f.revisions) != 0 {
				t.Errorf("the value is %q, with %d revisions", f.value(settings), len(f.revisions))
			}
			f.grant(map[string][]string{"configmaps": allVerbs, "secrets": allVerbs})
			wait.Eventually(f, func() error {
				f.passed += retryRefused
				f.settle()
				if f.status(tls).Reason != "" {
					return fmt.Errorf("status %+v", f.status(tls))
				}
				return nil
			})
			if f.value(tls) != "two" || len(f.revisions) != 1 {
				t.Errorf("the value is %q, with %d revisions", f.value(tls), len(f.revisions))
			}
		})
	}
}

// Rights that are taken away change nothing that is in use. The watch that is established goes on, so
// a new process notices it first.
func TestRightsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	f := newFixtureWithoutRights(t, tls)
	f.grant(map[string][]string{"configmaps": allVerbs, "secrets": allVerbs})
	f.start()
	f.waitForAccess()
	f.put(tls, "one")
	f.waitForReason(tls, "")
	before := f.status(tls)
	f.grant(map[string][]string{"configmaps": allVerbs})
	f.stop()
	f.start()
	status := f.waitForReason(tls, v1alpha1.ReasonConfigurationForbidden)
	decision := f.settle()
	if status.Snapshot != before.Snapshot || decision.Blocker != nil || len(decision.Lost) > 0 || len(decision.Prune) > 0 || decision.NeedsRevision {
		t.Errorf("status %+v, decision %+v", status, decision)
	}
	f.drain()
	f.grant(map[string][]string{"configmaps": allVerbs, "secrets": allVerbs})
	f.waitForEvent()
	f.waitForReason(tls, "")
	if len(f.revisions) != 1 {
		t.Errorf("there are %d revisions", len(f.revisions))
	}
}

func TestTheKeyIsForbidden(t *testing.T) {
	t.Parallel()
	f := newFixture(t, settings)
	f.must(hub.DeleteAllOf(f.Context(), &rbacv1.RoleBinding{}, inNamespace(f.operator)))
	f.put(settings, "one")
	wait.Eventually(f, func() error {
		f.restart()
		f.settle()
		status := f.status(settings)
		if status.Reason != v1alpha1.ReasonConfigurationForbidden || !strings.Contains(status.Message, KeyName) || !strings.Contains(status.Message, "grant config/propagation in namespace "+f.operator) {
			return fmt.Errorf("status %+v", status)
		}
		return nil
	})
	for _, object := range manifests(t, "role.yaml") {
		if object.GetKind() == "RoleBinding" {
			object.SetNamespace(f.operator)
			f.must(hub.Create(f.Context(), object))
		}
	}
	wait.Eventually(f, func() error {
		f.passed += retryRefused
		f.settle()
		if reason := f.status(settings).Reason; reason != "" {
			return fmt.Errorf("reason %s", reason)
		}
		return nil
	})
}

// A kind is Forbidden with a Role in one namespace if all are watched.
func TestAllNamespacesNeedAClusterRoleBinding(t *testing.T) {
	f := newFixture(t, settings)
	f.stop()
	f.put(settings, "one")
	f.startWith("*")
	f.waitForReason(settings, v1alpha1.ReasonConfigurationForbidden)
	binding := manifests(t, "all-namespaces.yaml")[0]
	f.must(hub.Create(f.Context(), binding))
	t.Cleanup(func() { f.must(hub.Delete(quietly(context.Background()), binding)) })
	f.waitForReason(settings, "")
	if f.value(settings) != "one" {
		t.Errorf("the value is %q", f.value(settings))
	}
}

// The list of the API server may quote a Secret in an annotation, which is dropped.
func TestTheWatchDropsAnnotations(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tls)
	f.put(tls, "one", func(object metav1.Object) {
		object.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": canary})
	})
	f.settle()
	time.Sleep(100 * time.Millisecond)
	wait.Eventually(f, func() error {
		found := f.watchOf(tls.Kind, f.app.Namespace).get(f.app.Namespace, tls.From)
		if found == nil {
			return fmt.Errorf("the watch lacks the source")
		}
		if len(found.Annotations)+len(found.ManagedFields) > 0 {
			t.Errorf("the watch keeps %+v", found.ObjectMeta)
		}
		return nil
	})
}

// A watch that was synced notices that it is forbidden when it lists or watches again.
func TestAWatchIsForbiddenLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t, tls)
	f.put(tls, "one")
	f.waitForReason(tls, "")
	f.waitForWatched(tls)
	f.drain()
	w := f.watchOf(tls.Kind, f.app.Namespace)
	w.record(apierrors.NewForbidden(corev1.Resource("secrets"), "", nil), &w.isWatchForbidden)
	f.waitForEvent()
	f.waitForReason(tls, v1alpha1.ReasonConfigurationForbidden)
	w.record(nil, &w.isWatchForbidden)
	f.waitForEvent()
	f.waitForReason(tls, "")
}

// waitForWatched waits until the watch has a source and its snapshot.
func (f *fixture) waitForWatched(ref configuration.Ref) {
	f.Helper()
	wait.Eventually(f, func() error {
		w := f.watchOf(ref.Kind, f.app.Namespace)
		if w.get(f.app.Namespace, ref.From) == nil || w.get(f.app.Namespace, f.status(ref).Snapshot) == nil {
			return fmt.Errorf("the watch is behind")
		}
		return nil
	})
}
