package e2e

import (
	"fmt"
	"testing"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// What kstatus, by which Flux, Helm and others wait, makes of an AppService that is read from the hub. Each step goes on from the one
// before.
func TestKstatus(t *testing.T) {
	f := theFleet
	south := f.members["south"]
	uncordon := f.cordon(t, "north")
	app := f.declare(t, "mood")
	t.Cleanup(func() { f.revive(t, south) }) // before the AppService is removed
	bad := override("east", patch("/spec/nothing/here", `true`))

	t.Run("creating is in progress, before anybody has looked at it", func(t *testing.T) {
		if got := kstatusOf(t, app); got != status.InProgressStatus {
			t.Errorf("it is %s", got)
		}
	})
	t.Run("progressing is in progress", func(t *testing.T) {
		f.awaitRows(t, app, map[string]row{
			"north": {v1alpha1.ClusterProgressing, v1alpha1.ReasonPodsUnschedulable}, "south": {Phase: v1alpha1.ClusterReady}, "east": {Phase: v1alpha1.ClusterReady},
		})
		f.wantKstatus(t, app, status.InProgressStatus)
	})
	t.Run("ready is current, and kubectl wait returns", func(t *testing.T) {
		uncordon()
		kubectl(t, f.hub, "wait", "appsvc", app.Name, "--namespace", namespace, "--for=condition=Ready", "--timeout="+patience.String())
		f.refresh(t, app)
		f.wantKstatus(t, app, status.CurrentStatus)
	})
	t.Run("an edit is in progress, before anybody has looked at it", func(t *testing.T) {
		f.edit(t, app, image("web:2"), overridden(bad))
		if got := kstatusOf(t, app); got != status.InProgressStatus {
			t.Errorf("it is %s", got)
		}
	})
	t.Run("stalled is failed, and mended it is current", func(t *testing.T) {
		f.awaitRows(t, app, map[string]row{
			"north": {Phase: v1alpha1.ClusterReady}, "south": {Phase: v1alpha1.ClusterReady}, "east": {v1alpha1.ClusterFailed, v1alpha1.ReasonInvalidOverride},
		})
		f.wantKstatus(t, app, status.FailedStatus)
		f.edit(t, app, overridden())
		f.awaitRows(t, app, allReady("north", "south", "east"))
		f.wantKstatus(t, app, status.CurrentStatus)
	})
	t.Run("unreachable is in progress", func(t *testing.T) {
		if err := south.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.awaitRows(t, app, map[string]row{
			"north": {Phase: v1alpha1.ClusterReady}, "south": {v1alpha1.ClusterUnknown, v1alpha1.ReasonClusterUnreachable}, "east": {Phase: v1alpha1.ClusterReady},
		})
		f.wantKstatus(t, app, status.InProgressStatus)
	})
	t.Run("deleting is terminating, for as long as a member cannot be reached", func(t *testing.T) {
		if err := f.hub.api.Delete(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		eventually(t, "only the row of south to be left", func() error {
			f.refresh(t, app)
			if rows := app.Status.Clusters; len(rows) != 1 || rows[0].Name != "south" {
				return fmt.Errorf("the rows are %+v", rows)
			}
			return nil
		})
		f.wantKstatus(t, app, status.TerminatingStatus)
	})
	t.Run("gone is gone, and kubectl wait returns", func(t *testing.T) {
		f.revive(t, south)
		kubectl(t, f.hub, "wait", "appsvc", app.Name, "--namespace", namespace, "--for=delete", "--timeout="+patience.String())
	})
}

func (f *fleet) revive(t *testing.T, member *cluster) {
	t.Helper()
	if member.Ready(background) != nil {
		if err := member.Start(background); err != nil {
			t.Fatal(err)
		}
	}
	f.awaitMember(t, member.Name())
}

// kstatusOf is what kstatus makes of an AppService as it is here.
func kstatusOf(t *testing.T, app *v1alpha1.AppService) status.Status {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		t.Fatal(err)
	}
	return compute(t, &unstructured.Unstructured{Object: content}).Status
}

func compute(t *testing.T, object *unstructured.Unstructured) *status.Result {
	t.Helper()
	result, err := status.Compute(object)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// wantKstatus reads it as it is stored.
func (f *fleet) wantKstatus(t *testing.T, app *v1alpha1.AppService, want status.Status) {
	t.Helper()
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	if err := f.hub.api.Get(t.Context(), client.ObjectKeyFromObject(app), stored); err != nil {
		t.Fatal(err)
	}
	if got := compute(t, stored); got.Status != want {
		t.Errorf("kstatus says %s (%s), want %s of:\n%s", got.Status, got.Message, want, asYAML(stored))
	}
}
