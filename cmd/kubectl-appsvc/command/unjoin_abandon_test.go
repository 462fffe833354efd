package command_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// createDetached creates an AppService with a Detached entry of a cluster.
func createDetached(t *testing.T, name, cluster, spec, metadata string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	create(t, app, fmt.Sprintf(`
metadata: {name: %s, namespace: shop%s}
spec: {image: "web:1"%s}
status:
  clusters:
  - {name: %s, generation: 1, phase: Detached, reason: ClusterDetached, lastKnownPhase: Ready, lastTransitionTime: "2026-01-01T00:00:00Z"}`, name, metadata, spec, cluster))
	return app
}

// dropWhenAbandoned drops the entry of a cluster as the planner does, when the annotation names it.
func dropWhenAbandoned(t *testing.T, app *v1alpha1.AppService, cluster string) <-chan error {
	t.Helper()
	dropped := make(chan error, 1)
	go func() {
		dropped <- utilwait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, wait.Patience, true, func(ctx context.Context) (bool, error) {
			found := &v1alpha1.AppService{}
			if err := hub.Get(ctx, client.ObjectKeyFromObject(app), found); err != nil {
				return false, err
			}
			if !strings.Contains(","+found.Annotations[v1alpha1.AnnotationAbandon]+",", ","+cluster+",") {
				return false, nil
			}
			return true, hub.Status().Patch(ctx, found, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"clusters":[]}}`)))
		})
	}()
	return dropped
}

// After --retain, the entries of the cluster stay until they are abandoned. unjoin can do that, at once
// or later, and it leaves no annotation.
func TestUnjoin_abandon_drops_the_entries(t *testing.T) {
	ensureNamespace(t, hub, "shop")
	ensureNamespace(t, hub, secretNamespace)
	annotation := func(t *testing.T, app *v1alpha1.AppService) string {
		t.Helper()
		return read(t, app).Annotations[v1alpha1.AnnotationAbandon]
	}

	t.Run("at once", func(t *testing.T) {
		create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: parting}, status: {secretMissingSince: "2026-01-01T00:00:00Z"}}`)
		app := createDetached(t, "web", "parting", "", `, annotations: {fleetwright.dev/abandon: other}`)
		dropped := dropWhenAbandoned(t, app, "parting")
		got := run(t, "unjoin", "parting", "--retain", "--abandon", "--yes")
		if err := errors.Join(<-dropped); err != nil {
			t.Error(err)
		}
		if got.code != 0 || !strings.HasSuffix(got.out, "appservice/shop/web has no entry of parting any more\n") || annotation(t, app) != "other" {
			t.Errorf("%v, and the annotation is %q", got, annotation(t, app))
		}
	})

	t.Run("later", func(t *testing.T) {
		app := createDetached(t, "web", "parted", "", "")
		run(t, "unjoin", "parted", "--retain", "--yes").check(t, result{code: 1,
			errOut: "error: parted has left the fleet already, and 1 AppServices keep an entry of it; to drop these: kubectl appsvc unjoin parted --retain --abandon\n"})
		dropped := dropWhenAbandoned(t, app, "parted")
		got := run(t, "unjoin", "parted", "--retain", "--abandon", "--yes")
		if err := <-dropped; err != nil {
			t.Error(err)
		}
		got.check(t, result{out: "parted has left the fleet. The status of these AppServices has an entry of it:\n  shop/web\nappservice/shop/web has no entry of parted any more\n"})
		if _, has := read(t, app).Annotations[v1alpha1.AnnotationAbandon]; has {
			t.Error("the annotation is still there")
		}
	})

	t.Run("not of a suspended AppService, on which the annotation has no effect", func(t *testing.T) {
		app := createDetached(t, "web", "parted", ", suspend: true", "")
		run(t, "unjoin", "parted", "--retain", "--abandon", "--yes").check(t, result{code: 3,
			out: "parted has left the fleet. The status of these AppServices has an entry of it:\n  shop/web\n",
			errOut: "error: 1 AppServices may still have an entry of parted; to continue: kubectl appsvc unjoin parted --retain --abandon\n" +
				"  shop/web: it is suspended, or the hub is behind: its entries stay until that ends\n"})
		if got := annotation(t, app); got != "" {
			t.Errorf("the annotation is %q", got)
		}
	})

	t.Run("not with --delete", func(t *testing.T) {
		got := run(t, "unjoin", "parted", "--delete", "--abandon", "--yes")
		if got.code != 1 || !strings.HasPrefix(got.errOut, "error: use --abandon with --retain: ") {
			t.Error(got)
		}
	})

	t.Run("without an operator, the annotation does not stay", func(t *testing.T) {
		app := createDetached(t, "web", "parted", "", "")
		got := run(t, "unjoin", "parted", "--retain", "--abandon", "--yes")
		if got.code != 3 || !strings.Contains(got.errOut, "  shop/web: the operator has not dropped the entry within 30s: it may not run\n") || annotation(t, app) != "" {
			t.Errorf("%v, and the annotation is %q", got, annotation(t, app))
		}
	})
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "parting"}, &v1alpha1.MemberCluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("the MemberCluster: %v", err)
	}
}
