package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestPluginExplains tests the commands that show and explain an AppService, and the drain of a
// cluster, with a running operator. Each step continues where the previous one ended.
func TestPluginExplains(t *testing.T) {
	f := testFleet(t)
	app := f.createApp(t, "explained", framework.Image("web:1"), framework.Placement(v1alpha1.Placement{Limit: new(int32(2))}))
	f.plugin(t, "status", app.Name, "-n", namespace, "--wait", "--timeout", wait.Patience.String())
	f.RefreshApp(t, app)
	all := []string{"east", "north", "south"}
	excluded := all[slices.IndexFunc(all, func(name string) bool { return app.Status.Cluster(name) == nil })]
	drained := app.Status.Clusters[0].Name

	t.Run("status", func(t *testing.T) {
		output := f.plugin(t, "status", app.Name, "-n", namespace)
		for _, want := range []string{namespace + "/explained  Ready  2/2 clusters ready", "├─ " + drained, "image: web:1"} {
			if !strings.Contains(output, want) {
				t.Errorf("want %q in:\n%s", want, output)
			}
		}
		if strings.Contains(output, "! ") {
			t.Errorf("the state is old, with a running operator:\n%s", output)
		}
	})

	t.Run("why it is not on a cluster", func(t *testing.T) {
		output := f.plugin(t, "why", app.Name, excluded, "-n", namespace)
		if want := "not chosen (LimitReached): spec.placement.limit is 2, and these are chosen:"; !strings.Contains(output, want) {
			t.Errorf("want %q in:\n%s", want, output)
		}
	})

	t.Run("diff says what an apply does then", func(t *testing.T) {
		before := f.plugin(t, "diff", app.Name, "-n", namespace)
		if before != "" {
			t.Errorf("a difference without an edit:\n%s", before)
		}
		edited := app.DeepCopy()
		edited.ManagedFields, edited.Status = nil, v1alpha1.AppServiceStatus{}
		edited.ResourceVersion, edited.UID, edited.Generation = "", "", 0
		edited.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
		// Fields that the file leaves out stay, because this process owns them, and not kubectl.
		edited.Spec.Image, edited.Spec.Placement.Limit = "web:2", new(int32(3))
		file := filepath.Join(t.TempDir(), "web.yaml")
		if err := os.WriteFile(file, []byte(framework.AsYAML(edited)), 0o600); err != nil {
			t.Fatal(err)
		}
		output, err := runPlugin(t, contextsOf(t, f.Hub), "diff", app.Name, "-n", namespace, "-f", file)
		if err == nil || !strings.Contains(output, "# Added on 1 cluster: "+excluded+"\n") || !strings.Contains(output, "+      - image: web:2\n") {
			t.Errorf("%v:\n%s", err, output)
		}
	})

	t.Run("drain moves it to the other cluster, and uncordon ends the drain", func(t *testing.T) {
		output := f.plugin(t, "drain", drained, "--timeout", wait.Patience.String())
		t.Cleanup(func() { f.patchMemberSpec(t, drained, v1alpha1.MemberClusterSpec{}) })
		if want := "appservice/" + namespace + "/explained is no longer on " + drained; !strings.Contains(output, want) {
			t.Errorf("want %q in:\n%s", want, output)
		}
		f.awaitReady(t, app, slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == drained })...)
		f.plugin(t, "uncordon", drained)
	})

	t.Run("events of the hub and of the clusters", func(t *testing.T) {
		var clusters []*framework.Cluster
		for _, name := range all {
			clusters = append(clusters, f.Members[name])
		}
		output := mustRunPlugin(t, contextsOf(t, append([]*framework.Cluster{f.Hub}, clusters...)...), "events", app.Name, "-n", namespace)
		for _, cluster := range []string{"(hub)", excluded} {
			if !strings.Contains(output, cluster) {
				t.Errorf("no event of %s:\n%s", cluster, output)
			}
		}
	})
}
