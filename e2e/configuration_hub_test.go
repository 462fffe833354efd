package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestConfigurationOnHub tests a hub that is a member of its own fleet: the snapshots and the copies of
// an AppService are in the same namespace.
func TestConfigurationOnHub(t *testing.T) {
	f := testFleet(t)
	const hub = framework.HubName
	t.Cleanup(func() {
		f.removeMember(t, hub)
		delete(f.Members, hub)
	})
	f.Members[hub] = f.Hub
	f.Join(t, hub, nil)
	f.awaitMember(t, hub)
	settings := f.createSources(t)
	app := f.createApp(t, "at-home", configured, framework.OnClusters(hub, "north"))
	f.awaitReady(t, app, "north", hub)
	f.awaitGreetings(t, app, map[string]string{hub: "hello", "north": "hello"})
	f.checkCopies(t, app, hub)

	f.changeData(t, settings, "hi")
	f.changeSecret(t, "db", map[string]string{"password": canary + "-2"})
	f.awaitGreetings(t, app, map[string]string{hub: "hi", "north": "hi"})
	f.awaitReady(t, app, "north", hub)
	f.checkCopies(t, app, hub)
	if names := f.snapshots(t, app); len(names) != 2 {
		t.Errorf("the hub has the snapshots %v of settings, want 2", names)
	}

	f.DeleteApp(t, app)
	f.Eventually(t, "the garbage collector to delete the snapshots and the copies", func(ctx context.Context) error {
		var configs corev1.ConfigMapList
		var secrets corev1.SecretList
		namespaced := client.InNamespace(namespace)
		if err := errors.Join(f.Hub.Client.List(ctx, &configs, namespaced), f.Hub.Client.List(ctx, &secrets, namespaced)); err != nil {
			return err
		}
		for i := range configs.Items {
			if name := configs.Items[i].Name; strings.HasPrefix(name, app.Name+"-") {
				return fmt.Errorf("there is ConfigMap %s", name)
			}
		}
		for i := range secrets.Items {
			if name := secrets.Items[i].Name; strings.HasPrefix(name, app.Name+"-") {
				return fmt.Errorf("there is Secret %s", name)
			}
		}
		return nil
	})
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(settings), settings); err != nil {
		t.Errorf("the source: %v", err)
	}
}
