package e2e

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestAppService follows one AppService from its creation to its deletion. Each step continues
// where the previous one ended.
func TestAppService(t *testing.T) {
	f := testFleet(t, onKind)
	var app *v1alpha1.AppService

	t.Run("runs on every member and reports it", func(t *testing.T) {
		// Not createApp: the AppService is needed after this step.
		app = framework.NewAppService(namespace, "lifecycle")
		if err := f.Hub.Client.Create(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		t.Logf("3/3 Ready %s after the creation", framework.Round(f.awaitReady(t, app, "north", "south", "east")))
	})
	t.Cleanup(func() { f.DeleteApp(t, app) })

	t.Run("delivers an edit of image, env, ports and replicas to every member", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:2"), framework.AddEnv("MODE", "production"), framework.Ports(80, 8080), framework.Replicas(4))
		t.Logf("3/3 Ready %s after the edit", framework.Round(f.awaitReady(t, app, "north", "south", "east")))
	})

	t.Run("is scaled by kubectl scale", func(t *testing.T) {
		f.Hub.Kubectl(t, *binFlag, "scale", "appsvc", app.Name, "--namespace", namespace, "--replicas=3")
		f.RefreshApp(t, app)
		if got := app.DesiredReplicas(); got != 3 {
			t.Fatalf("after kubectl scale, spec.replicas is %d, want 3", got)
		}
		f.awaitReady(t, app, "north", "south", "east")
		if got := app.Status.Replicas; got != 3 {
			t.Errorf("the scale subresource shows %d replicas, want 3", got)
		}
	})

	t.Run("is removed from clusters that the placement no longer names", func(t *testing.T) {
		f.EditApp(t, app, framework.OnClusters("north", "east"))
		f.awaitReady(t, app, "north", "east")
	})

	t.Run("moves to the cluster that a selector matches", func(t *testing.T) {
		f.EditApp(t, app, inRegion("us"))
		f.awaitReady(t, app, "south")
	})

	t.Run("runs on every member again without a placement", func(t *testing.T) {
		f.EditApp(t, app, framework.OnAllClusters)
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("is removed from every member before its deletion completes", func(t *testing.T) {
		f.DeleteApp(t, app)
		for _, member := range f.Members {
			if err := checkRemoved(t.Context(), member, app); err != nil {
				t.Errorf("the AppService is gone, but: %v", err)
			}
		}
	})
}
