package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestNamedNamespaces tests a member where the operator may write in one namespace only: see
// docs/permissions.md. Each step continues where the previous one ended.
func TestNamedNamespaces(t *testing.T) {
	const other = "e2e-other"
	f := testFleet(t)
	west := f.addCluster(t, "west")
	f.Hub.CreateNamespace(t, other, nil)
	west.CreateNamespace(t, namespace, nil)
	f.joinWithNamespace(t, west, namespace)
	app := f.createApp(t, "allowed", framework.OnClusters("north", "west"), autoscaling(2, 5), disruptionBudget(1))
	f.testAllowedNamespace(t, app)
	f.testOtherNamespace(t, app, other)

	t.Run("a deletion removes everything", func(t *testing.T) {
		f.DeleteApp(t, app)
		if err := checkRemoved(t.Context(), west, app); err != nil {
			t.Error(err)
		}
		if left, err := f.optionalObjects(t.Context(), "west", app); err != nil || left != (optionalObjects{}) {
			t.Errorf("west still has %+v: %v", left, err)
		}
	})

	t.Run("only the refused requests were denied, and every grant was used", func(t *testing.T) {
		for _, request := range denied(t, west) {
			if o := request.Object; o.Namespace != other || o.Resource != "deployments" || request.Verb != "patch" {
				t.Errorf("denied: %s", &request)
			}
		}
		f.awaitUsed(t, west, "fleetwright-member", "fleetwright-member-namespace", "fleetwright-member-configuration")
	})
}

// testAllowedNamespace tests an AppService on north and west, in a namespace where the operator may
// write.
func (f *fleet) testAllowedNamespace(t *testing.T, app *v1alpha1.AppService) {
	objects := optionalObjects{Replicas: 2, Min: 2, Max: 5, MaxUnavailable: 1}
	all := func() map[string]optionalObjects {
		return map[string]optionalObjects{"north": objects, "west": objects}
	}

	t.Run("creates all objects", func(t *testing.T) {
		f.awaitOptionalObjects(t, app, all())
	})

	t.Run("updates all objects", func(t *testing.T) {
		objects = optionalObjects{Replicas: 3, Min: 3, Max: 6, MaxUnavailable: 2}
		f.EditApp(t, app, framework.Image("web:2"), framework.Ports(80, 81), autoscaling(3, 6), disruptionBudget(2))
		f.awaitOptionalObjects(t, app, all())
		f.awaitDelivered(t, app, "west")
	})

	t.Run("reverts drift", func(t *testing.T) {
		west := f.Members["west"]
		deployment, err := f.Members["west"].Deployment(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		patch := client.MergeFrom(deployment.DeepCopy())
		deployment.Spec.Template.Spec.Containers[0].Image = "mine:1"
		service := &corev1.Service{}
		service.Namespace, service.Name = app.Namespace, app.Name
		if err := errors.Join(west.Client.Patch(t.Context(), deployment, patch, client.FieldOwner("other-manager")), west.Client.Delete(t.Context(), service)); err != nil {
			t.Fatal(err)
		}
		f.awaitDelivered(t, app, "west")
		f.awaitOptionalObjects(t, app, all())
	})

	t.Run("takes configuration along", func(t *testing.T) {
		settings := f.createSources(t)
		f.EditApp(t, app, configured)
		f.awaitEntries(t, app, allReady("north", "west"))
		f.changeData(t, settings, "hi")
		f.changeSecret(t, "db", map[string]string{"password": canary + "-2"})
		f.awaitGreetings(t, app, map[string]string{"north": "hi", "west": "hi"})
		f.checkCopies(t, app, "west") // the old ones are deleted
		f.EditApp(t, app, withoutConfiguration)
		f.awaitEntries(t, app, allReady("north", "west"))
	})

	t.Run("reports why pods are not ready", func(t *testing.T) {
		uncordon := f.cordon(t, "west")
		f.EditApp(t, app, framework.Image("web:3"))
		f.awaitEntries(t, app, map[string]entry{"north": {Phase: v1alpha1.ClusterReady}, "west": {v1alpha1.ClusterProgressing, v1alpha1.ReasonPodsUnschedulable}})
		uncordon()
		f.awaitEntries(t, app, allReady("north", "west"))
	})

	t.Run("reports what a volume needs", func(t *testing.T) {
		fix := f.mountMissingConfigMap(t, "west", app)
		f.awaitEntries(t, app, map[string]entry{"north": {Phase: v1alpha1.ClusterReady}, "west": {v1alpha1.ClusterProgressing, v1alpha1.ReasonFailedMount}})
		fix()
		f.awaitEntries(t, app, allReady("north", "west"))
	})
}

// testOtherNamespace tests AppServices in another namespace, and that they do not affect app.
func (f *fleet) testOtherNamespace(t *testing.T, app *v1alpha1.AppService, other string) {
	west := f.Members["west"]
	refused := f.CreateApp(t, framework.NewAppService(other, "refused", framework.OnClusters("north", "west"), autoscaling(2, 5)))

	t.Run("reports the missing permission, and does not block other AppServices", func(t *testing.T) {
		f.awaitRefused(t, refused, "west")
		ready := f.readySince(t, "west")
		f.EditApp(t, app, framework.Image("web:4"))
		f.awaitEntries(t, app, allReady("north", "west"))
		f.awaitDelivered(t, app, "west")
		if after := f.readySince(t, "west"); !after.Equal(&ready) {
			t.Errorf("west was not Ready for a time: it is Ready since %s, before since %s", after, ready)
		}
	})

	t.Run("does not repeat the request or the log line", func(t *testing.T) {
		f.awaitNoWrites(t)
		deniedBefore, loggedBefore := len(denied(t, west)), len(f.logLines("west"))
		f.AwaitLook(t)
		if n := len(denied(t, west)); n != deniedBefore {
			t.Errorf("west denied %d requests before, and %d now", deniedBefore, n)
		}
		if lines := f.logLines("west"); len(lines) > loggedBefore {
			t.Error(strings.Join(lines[loggedBefore:], "\n"))
		}
	})

	t.Run("does not block its deletion", func(t *testing.T) {
		f.DeleteApp(t, refused)
	})

	t.Run("delivers the next edit when the namespace is allowed too", func(t *testing.T) {
		late := f.CreateApp(t, framework.NewAppService(other, "late", framework.OnClusters("west")))
		f.awaitRefused(t, late, "west")
		west.CreateNamespace(t, other, nil)
		allowNamespace(t, west, other)
		f.EditApp(t, late, framework.AddEnv("NAMED", "yes"))
		f.awaitReady(t, late, "west")
		f.DeleteApp(t, late)
	})
}

// joinWithNamespace joins a cluster where the operator may write in one namespace. MemberKubeconfig
// grants wider permissions, which are replaced.
func (f *fleet) joinWithNamespace(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	kubeconfig, err := c.MemberKubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"named-namespaces/rbac.yaml", "configuration/named-namespaces/rbac.yaml"} {
		if err := environment.ApplyFile(t.Context(), c.Client, config+"/member/"+file); err != nil {
			t.Fatal(err)
		}
	}
	everywhere := &rbacv1.ClusterRoleBinding{}
	everywhere.Name = "fleetwright-member-configuration"
	if err := c.Client.Delete(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	}
	allowNamespace(t, c, name)
	if err := environment.JoinWith(t.Context(), f.Hub.Client, c.Name(), kubeconfig, nil); err != nil {
		t.Fatal(err)
	}
}

// allowNamespace lets the operator write in one more namespace.
func allowNamespace(t *testing.T, c *framework.Cluster, name string) {
	t.Helper()
	for _, file := range []string{"named-namespaces/namespace.yaml", "configuration/named-namespaces/namespace.yaml"} {
		if err := environment.ApplyFile(t.Context(), client.NewNamespacedClient(c.Client, name), config+"/member/"+file); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitDelivered waits until a member has the image and the ports of the AppService.
func (f *fleet) awaitDelivered(t *testing.T, app *v1alpha1.AppService, member string) {
	t.Helper()
	f.Eventually(t, member+" to have the image and the ports of AppService "+app.Name, func(ctx context.Context) error {
		scaled := app.DeepCopy() // the autoscaler keeps the minimum
		scaled.Spec.Replicas, scaled.Spec.Autoscaling = app.Spec.Autoscaling.MinReplicas, nil
		return checkObjects(ctx, f.Members[member], scaled)
	})
}

// awaitRefused waits until the entry of a member names the missing permission, and all other
// entries are Ready.
func (f *fleet) awaitRefused(t *testing.T, app *v1alpha1.AppService, member string) {
	t.Helper()
	want := fmt.Sprintf(`cannot patch resource "deployments" in API group "apps" in the namespace %q`, app.Namespace)
	f.Eventually(t, "AppService "+app.Name+" to be refused by "+member+" and by no other member", func(context.Context) error {
		f.RefreshApp(t, app)
		var errs []error
		for _, c := range app.Status.Clusters {
			switch {
			case c.Name != member && c.Phase != v1alpha1.ClusterReady,
				c.Name == member && (c.Phase != v1alpha1.ClusterFailed || c.Reason != v1alpha1.ReasonRefused || !strings.Contains(c.Message, want)):
				errs = append(errs, fmt.Errorf("%s: %s %s: %s", c.Name, c.Phase, c.Reason, c.Message))
			}
		}
		if app.Status.Cluster(member) == nil {
			errs = append(errs, fmt.Errorf("status.clusters has no entry for %s", member))
		}
		return errors.Join(errs...)
	})
}

// denied returns the requests of the operator that a cluster answered with 403.
func denied(t *testing.T, c *framework.Cluster) []environment.Request {
	t.Helper()
	return slices.DeleteFunc(requests(t, c), func(r environment.Request) bool { return !r.IsDenied() })
}

// logLines returns the lines of the operator's log that contain a name.
func (f *fleet) logLines(name string) []string {
	return slices.DeleteFunc(strings.Split(f.Operator.Log(), "\n"), func(line string) bool { return !strings.Contains(line, name) })
}

// awaitUsed waits until the operator has used every grant of these ClusterRoles. Events are written
// with a delay.
func (f *fleet) awaitUsed(t *testing.T, c *framework.Cluster, roles ...string) {
	t.Helper()
	var granted []string
	a := &access{clusters: []*framework.Cluster{c}, clusterRoles: roles}
	all, err := a.grants(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range all {
		granted = append(granted, g.String())
	}
	f.Eventually(t, "the operator to use every grant of "+c.Name(), func(context.Context) error {
		used := map[string]bool{}
		for _, request := range requests(t, c) {
			for _, g := range grantsFor(&request) {
				used[g.String()] = true
			}
		}
		if unused := slices.DeleteFunc(slices.Clone(granted), func(g string) bool { return used[g] }); len(unused) > 0 {
			return fmt.Errorf("unused: %v", unused)
		}
		return nil
	})
}
