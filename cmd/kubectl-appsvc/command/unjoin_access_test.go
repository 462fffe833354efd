package command_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestUnjoin_abandon_permissions tests the roles that docs/permissions.md names for unjoin --abandon.
// Each step continues where the previous one ended.
func TestUnjoin_abandon_permissions(t *testing.T) {
	ensureNamespace(t, hub, "shop")
	ensureNamespace(t, hub, secretNamespace)
	createFleetAdmin(t, "abandoner")
	kubeconfig := kubeconfigOf(t, "abandoner")
	create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: parting}, status: {secretMissingSince: "2026-01-01T00:00:00Z"}}`)
	app := createDetached(t, "web", "parting", "", "")

	t.Run("with fleetwright-fleet-admin alone, the cluster leaves, and its entries stay", func(t *testing.T) {
		eventually(t, func() bool { // the API server takes a moment to read new roles
			return strings.HasSuffix(runAs(t, kubeconfig, "unjoin", "parting", "--retain", "--abandon").errOut, ": without a terminal, confirm with --yes\n")
		})
		got := runAs(t, kubeconfig, "unjoin", "parting", "--retain", "--abandon", "--yes")
		const want = "error: 1 AppServices may still have an entry of parting; to continue: kubectl appsvc unjoin parting --retain --abandon\n" +
			`  shop/web: appservices.fleetwright.dev "web" is forbidden: User "abandoner" cannot patch resource "appservices" in API group "fleetwright.dev" in the namespace "shop": ` +
			"ask an administrator of the hub for the ClusterRole fleetwright-view, or fleetwright-edit to change AppServices\n"
		if got.code != 3 || got.errOut != want || !strings.Contains(got.out, "membercluster/parting deleted\n") {
			t.Errorf("want %s\ngot %+v", want, got)
		}
		if err := hub.Get(t.Context(), client.ObjectKey{Name: "parting"}, &v1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
			t.Errorf("the MemberCluster: %v", err)
		}
	})
	t.Run("with fleetwright-edit in the namespace too, the command continues", func(t *testing.T) {
		createRoles(t, "edit.yaml")
		bindIn(t, hub, app.Namespace, "abandoner", "fleetwright-edit")
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		asUser, err := client.New(config, client.Options{Scheme: hub.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		wait.Eventually(t, func() error {
			return asUser.Patch(t.Context(), app.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{}`)), client.DryRunAll)
		})
		dropped := dropWhenAbandoned(t, app, "parting")
		got := runAs(t, kubeconfig, "unjoin", "parting", "--retain", "--abandon", "--yes")
		if err := <-dropped; err != nil {
			t.Error(err)
		}
		if got.code != 0 || got.errOut != "" || !strings.HasSuffix(got.out, "appservice/shop/web has no entry of parting any more\n") {
			t.Errorf("%+v", got)
		}
		if value, has := read(t, app).Annotations[v1alpha1.AnnotationAbandon]; has {
			t.Errorf("the annotation is still there: %q", value)
		}
	})
}
