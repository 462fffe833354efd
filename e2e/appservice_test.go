package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// One AppService from its declaration to its end. Each step goes on from the one before.
func TestAppService(t *testing.T) {
	f := theFleet
	var app *v1alpha1.AppService

	t.Run("runs on every member once it is declared, and says so", func(t *testing.T) {
		// It is to outlive this step.
		app = appService("life")
		if err := f.hub.api.Create(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		t.Logf("3/3 Ready %s after it was declared", round(f.awaitReady(t, app, "north", "south", "east")))
	})
	t.Cleanup(func() { f.remove(t, app) })

	t.Run("takes an edit of image, environment, ports and replicas to every member", func(t *testing.T) {
		f.edit(t, app, image("web:2"), env("MODE", "production"), ports(80, 8080), replicas(4))
		t.Logf("3/3 Ready %s after the edit", round(f.awaitReady(t, app, "north", "south", "east")))
	})

	t.Run("is scaled by kubectl scale", func(t *testing.T) {
		kubectl(t, f.hub, "scale", "appsvc", app.Name, "--namespace", namespace, "--replicas=3")
		f.refresh(t, app)
		if got := app.DesiredReplicas(); got != 3 {
			t.Fatalf("after kubectl scale, spec.replicas is %d, want 3", got)
		}
		f.awaitReady(t, app, "north", "south", "east")
		if got := app.Status.Replicas; got != 3 {
			t.Errorf("the scale subresource shows %d replicas, want 3", got)
		}
	})

	t.Run("leaves the clusters that a narrower placement does not name", func(t *testing.T) {
		f.edit(t, app, onClusters("north", "east"))
		f.awaitReady(t, app, "north", "east")
	})

	t.Run("moves to the cluster that a selector chooses", func(t *testing.T) {
		f.edit(t, app, inRegion("us"))
		f.awaitReady(t, app, "south")
	})

	t.Run("is everywhere again without a placement", func(t *testing.T) {
		f.edit(t, app, everywhere)
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("is gone everywhere when it is deleted, and only then goes itself", func(t *testing.T) {
		f.remove(t, app)
		for _, member := range f.members {
			if err := f.gone(member, app); err != nil {
				t.Errorf("the AppService is gone, but: %v", err)
			}
		}
	})
}

// kubectl runs the real one against a cluster.
func kubectl(t *testing.T, c *cluster, args ...string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(t.TempDir(), "cache"))
	output, err := exec.CommandContext(t.Context(), program("kubectl"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, output)
	}
}
