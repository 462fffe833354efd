package command_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestUnjoin_finds_the_Secret(t *testing.T) {
	ensureNamespace(t, hub, secretNamespace)
	ensureNamespace(t, hub, "fleet")
	isThere := func(t *testing.T, object client.Object) bool {
		t.Helper()
		err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return err == nil
	}

	t.Run("that the MemberCluster names", func(t *testing.T) {
		named := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "east-kubeconfig"}}
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "named"}}
		createAll(t, hub, named, other)
		create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: named, annotations: {fleetwright.dev/secret: fleet/east-kubeconfig}}, status: {secretMissingSince: "2026-01-01T00:00:00Z"}}`)
		got := run(t, "unjoin", "named", "--retain", "--yes")
		if got.code != 0 || !strings.Contains(got.out, "secret/east-kubeconfig in namespace fleet deleted\n") || isThere(t, named) || !isThere(t, other) {
			t.Error(got)
		}
	})

	t.Run("but not one of something else", func(t *testing.T) {
		other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "database"}}
		createAll(t, hub, other)
		run(t, "unjoin", "database", "--retain", "--yes").check(t, result{code: 1, errOut: "error: the hub has no cluster database: see kubectl appsvc clusters\n"})
		if !isThere(t, other) {
			t.Error("the Secret was deleted")
		}
	})

	t.Run("if the user may read it", func(t *testing.T) {
		create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: unreadable}}`)
		user := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(user, userOf(t, hubEnvironment, "unjoin-viewer"), 0o600); err != nil {
			t.Fatal(err)
		}
		createAll(t, hub,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "unjoin-viewer"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "unjoin-viewer"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "unjoin-viewer"}},
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "unjoin-viewer"}})
		eventually(t, func() bool {
			got := runAs(t, user, "unjoin", "unreadable", "--retain", "--yes")
			return got.code == 1 && strings.Contains(got.errOut, `cannot get resource "secrets"`) && strings.HasSuffix(got.errOut, ": ask an administrator of the hub for the Role fleetwright-fleet-admin\n")
		})
	})

	t.Run("not of a name in capital letters", func(t *testing.T) {
		run(t, "unjoin", "EAST", "--retain", "--yes").check(t, result{code: 1, errOut: "error: the hub has no cluster EAST: see kubectl appsvc clusters\n"})
	})
}

// Without an operator, nobody reports that the Secret is missing.
func TestUnjoin_without_an_operator_ends(t *testing.T) {
	createAll(t, hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "alone"}})
	create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: alone, annotations: {fleetwright.dev/secret: fleetwright-system/alone}}}`)
	got := run(t, "unjoin", "alone", "--retain", "--yes")
	if got.code != 0 ||
		got.errOut != "The operator has not seen the deletion of the Secret within 15s: it may not run.\n" || !strings.Contains(got.out, "membercluster/alone deleted\n") {
		t.Error(got)
	}
}

// The operator creates a MemberCluster again that is deleted before it has seen that the Secret is
// gone.
func TestUnjoin_waits_for_the_operator(t *testing.T) {
	createAll(t, hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "awaited"}})
	cluster := &v1alpha1.MemberCluster{}
	create(t, cluster, `{metadata: {name: awaited, annotations: {fleetwright.dev/secret: fleetwright-system/awaited}}}`)
	reported := make(chan error, 1)
	go func() {
		reported <- func() error {
			err := utilwait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, wait.Patience, true, func(ctx context.Context) (bool, error) {
				secret := &corev1.Secret{}
				err := hub.Get(ctx, client.ObjectKey{Namespace: secretNamespace, Name: "awaited"}, secret)
				return err != nil, client.IgnoreNotFound(err)
			})
			if err != nil {
				return err
			}
			<-time.After(2 * time.Second) // unjoin would not wait that long by chance
			return hub.Status().Patch(t.Context(), cluster, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"secretMissingSince":"2026-01-01T00:00:00Z"}}`)))
		}()
	}()
	got := run(t, "unjoin", "awaited", "--retain", "--yes")
	if err := <-reported; err != nil { // the MemberCluster is gone
		t.Error(err)
	}
	if got.code != 0 || got.errOut != "" {
		t.Error(got)
	}
}

// A cluster that never connected has no MemberCluster; its Secret says which cluster it is.
func TestUnjoin_prints_how_to_remove_the_permissions(t *testing.T) {
	m := newMember(t)
	ensureNamespace(t, m, "shop")
	deleteSecret(t, "east")
	if got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0", "--namespaces", "shop"); got.code != 0 {
		t.Fatal(got)
	}
	got := m.run(t, "unjoin", "east", "--retain", "--yes")
	if want := "  kubectl appsvc join east --print-only member --configuration --restrict \\\n    --namespaces shop |\n    kubectl --context east delete --ignore-not-found -f -\n"; got.code != 0 || !strings.HasSuffix(got.out, want) {
		t.Errorf("exit code %d, and\n%s%s\nwant\n%s", got.code, got.out, got.errOut, want)
	}
}
