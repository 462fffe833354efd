package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestKstatus tests what kstatus computes for an AppService. Flux, Helm and others wait by kstatus.
// Each step continues where the previous one ended.
func TestKstatus(t *testing.T) {
	f := testFleet(t)
	south := f.Members["south"]
	uncordon := f.cordon(t, "north")
	app := f.createApp(t, "kstatus")
	t.Cleanup(func() { f.startCluster(t, "south") }) // before the AppService is deleted
	bad := override("east", deploymentPatch("/spec/nothing/here", `true`))

	t.Run("a new AppService is InProgress before the first reconcile", func(t *testing.T) {
		if got := kstatusOf(t, app); got != status.InProgressStatus {
			t.Errorf("kstatus is %s", got)
		}
	})
	t.Run("an AppService that progresses is InProgress", func(t *testing.T) {
		f.awaitEntries(t, app, map[string]entry{
			"north": {v1alpha1.ClusterProgressing, v1alpha1.ReasonPodsUnschedulable}, "south": {Phase: v1alpha1.ClusterReady}, "east": {Phase: v1alpha1.ClusterReady},
		})
		f.expectKstatus(t, app, status.InProgressStatus)
	})
	t.Run("a Ready AppService is Current, and kubectl wait returns", func(t *testing.T) {
		uncordon()
		f.Hub.Kubectl(t, *binFlag, "wait", "appsvc", app.Name, "--namespace", namespace, "--for=condition=Ready", "--timeout="+wait.Patience.String())
		f.RefreshApp(t, app)
		f.expectKstatus(t, app, status.CurrentStatus)
	})
	t.Run("an edited AppService is InProgress before the next reconcile", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:2"), overrides(bad))
		if got := kstatusOf(t, app); got != status.InProgressStatus {
			t.Errorf("kstatus is %s", got)
		}
	})
	t.Run("a Stalled AppService is Failed, and Current when it is fixed", func(t *testing.T) {
		f.awaitEntries(t, app, map[string]entry{
			"north": {Phase: v1alpha1.ClusterReady}, "south": {Phase: v1alpha1.ClusterReady}, "east": {v1alpha1.ClusterFailed, v1alpha1.ReasonInvalidOverride},
		})
		f.expectKstatus(t, app, status.FailedStatus)
		f.EditApp(t, app, overrides())
		f.awaitEntries(t, app, allReady("north", "south", "east"))
		f.expectKstatus(t, app, status.CurrentStatus)
	})
	t.Run("an AppService on an unreachable cluster is InProgress", func(t *testing.T) {
		if err := south.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.awaitEntries(t, app, map[string]entry{
			"north": {Phase: v1alpha1.ClusterReady}, "south": {v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable}, "east": {Phase: v1alpha1.ClusterReady},
		})
		f.expectKstatus(t, app, status.InProgressStatus)
	})
	t.Run("a deleted AppService is Terminating while a cluster is unreachable", func(t *testing.T) {
		if err := f.Hub.Client.Delete(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		f.Eventually(t, "only the entry of south to remain", func(context.Context) error {
			f.RefreshApp(t, app)
			if clusters := app.Status.Clusters; len(clusters) != 1 || clusters[0].Name != "south" {
				return fmt.Errorf("the entries are %+v", clusters)
			}
			return nil
		})
		f.expectKstatus(t, app, status.TerminatingStatus)
	})
	t.Run("kubectl wait --for=delete returns when the cluster is back", func(t *testing.T) {
		f.startCluster(t, "south")
		f.Hub.Kubectl(t, *binFlag, "wait", "appsvc", app.Name, "--namespace", namespace, "--for=delete", "--timeout="+wait.Patience.String())
	})
}

// kstatusOf returns the kstatus of an AppService in memory.
func kstatusOf(t *testing.T, app *v1alpha1.AppService) status.Status {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		t.Fatal(err)
	}
	return computeKstatus(t, &unstructured.Unstructured{Object: content}).Status
}

func computeKstatus(t *testing.T, object *unstructured.Unstructured) *status.Result {
	t.Helper()
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// expectKstatus fails the test unless the stored AppService has this kstatus.
func (f *fleet) expectKstatus(t *testing.T, app *v1alpha1.AppService, want status.Status) {
	t.Helper()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(app), stored); err != nil {
		t.Fatal(err)
	}
	if got := computeKstatus(t, stored); got.Status != want {
		t.Errorf("kstatus is %s (%s), want %s:\n%s", got.Status, got.Message, want, framework.AsYAML(stored))
	}
}
