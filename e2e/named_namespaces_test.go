package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// A member lets the operator write in one namespace only: see docs/install.md. Each step goes on from the one before.
func TestNamedNamespaces(t *testing.T) {
	const elsewhere = "e2e-elsewhere"
	f := theFleet
	west := f.addCluster(t, "west")
	f.makeNamespace(t, f.hub, elsewhere)
	f.makeNamespace(t, west, namespace)
	f.limit(t, west, namespace)
	app := f.declare(t, "indoors", onClusters("north", "west"), autoscaled(2, 5), budgeted(1))
	f.withinTheNamespace(t, app)
	f.beyondTheNamespace(t, app, elsewhere)

	t.Run("a removal leaves nothing", func(t *testing.T) {
		f.remove(t, app)
		if err := f.gone(west, app); err != nil {
			t.Error(err)
		}
		if left, err := f.parts("west", app); err != nil || left != (parts{}) {
			t.Errorf("there is still %+v: %v", left, err)
		}
	})

	t.Run("nothing was denied but what is refused, and nothing is granted that was not used", func(t *testing.T) {
		for _, request := range f.denied(t, west) {
			if o := request.Object; o.Namespace != elsewhere || o.Resource != "deployments" || request.Verb != "patch" {
				t.Errorf("denied: %s", &request)
			}
		}
		f.awaitUsed(t, west, "fleetwright-member", "fleetwright-member-namespace")
	})
}

// withinTheNamespace is about an AppService on north and west that is where the operator may write.
func (f *fleet) withinTheNamespace(t *testing.T, app *v1alpha1.AppService) {
	there := parts{Replicas: 2, Least: 2, Most: 5, Away: 1}
	all := func() map[string]parts { return map[string]parts{"north": there, "west": there} }

	t.Run("an AppService has all its parts there", func(t *testing.T) {
		f.awaitParts(t, app, all())
	})

	t.Run("an edit comes to all of them", func(t *testing.T) {
		there = parts{Replicas: 3, Least: 3, Most: 6, Away: 2}
		f.edit(t, app, image("web:2"), ports(80, 81), autoscaled(3, 6), budgeted(2))
		f.awaitParts(t, app, all())
		f.awaitIndoors(t, app)
	})

	t.Run("drift is put back", func(t *testing.T) {
		west := f.members["west"]
		deployment, err := f.deployment("west", app)
		if err != nil {
			t.Fatal(err)
		}
		patch := client.MergeFrom(deployment.DeepCopy())
		deployment.Spec.Template.Spec.Containers[0].Image = "mine:1"
		service := &corev1.Service{}
		service.Namespace, service.Name = app.Namespace, app.Name
		if err := errors.Join(west.api.Patch(t.Context(), deployment, patch, client.FieldOwner("somebody")), west.api.Delete(t.Context(), service)); err != nil {
			t.Fatal(err)
		}
		f.awaitIndoors(t, app)
		f.awaitParts(t, app, all())
	})

	t.Run("why pods are not ready is said", func(t *testing.T) {
		uncordon := f.cordon(t, "west")
		f.edit(t, app, image("web:3"))
		f.awaitRows(t, app, map[string]row{"north": {Phase: v1alpha1.ClusterReady}, "west": {v1alpha1.ClusterProgressing, v1alpha1.ReasonPodsUnschedulable}})
		uncordon()
		f.awaitRows(t, app, allReady("north", "west"))
	})

	t.Run("what a volume lacks is named", func(t *testing.T) {
		uncordon := f.lacksConfigMap(t, "west", app)
		f.awaitRows(t, app, map[string]row{"north": {Phase: v1alpha1.ClusterReady}, "west": {v1alpha1.ClusterProgressing, v1alpha1.ReasonFailedMount}})
		uncordon()
		f.awaitRows(t, app, allReady("north", "west"))
	})
}

// beyondTheNamespace is about others, and about that one meanwhile.
func (f *fleet) beyondTheNamespace(t *testing.T, app *v1alpha1.AppService, elsewhere string) {
	west := f.members["west"]
	astray := f.declareIn(t, elsewhere, "astray", onClusters("north", "west"), autoscaled(2, 5))

	t.Run("one in another namespace is refused, with what is missing, and nothing else is held up", func(t *testing.T) {
		f.awaitRefused(t, astray, "west")
		ready := f.readySince(t, "west")
		f.edit(t, app, image("web:4"))
		f.awaitRows(t, app, allReady("north", "west"))
		f.awaitIndoors(t, app)
		if after := f.readySince(t, "west"); !after.Equal(&ready) {
			t.Errorf("west was not Ready for a moment: it is since %s, and was since %s", after, ready)
		}
	})

	t.Run("it is not asked or logged again and again", func(t *testing.T) {
		f.awaitSilence(t)
		asked, logged := len(f.denied(t, west)), len(f.logged("west"))
		stays(t, quiet, "west is not asked for more than it grants, and the log does not name it", func() error {
			if now := len(f.denied(t, west)); now != asked {
				return fmt.Errorf("it had denied %d requests, and now %d", asked, now)
			}
			if now := f.logged("west"); len(now) > logged {
				return errors.New(strings.Join(now[logged:], "\n"))
			}
			return nil
		})
	})

	t.Run("its deletion waits for nothing", func(t *testing.T) {
		f.remove(t, astray)
	})

	t.Run("it runs with the next edit once its namespace is named too", func(t *testing.T) {
		late := f.declareIn(t, elsewhere, "late", onClusters("west"))
		f.awaitRefused(t, late, "west")
		f.makeNamespace(t, west, elsewhere)
		f.permit(t, west, elsewhere)
		f.edit(t, late, env("NAMED", "yes"))
		f.awaitReady(t, late, "west")
		f.remove(t, late)
	})
}

// makeNamespace makes one that is deleted when the test ends, if the cluster lasts longer.
func (f *fleet) makeNamespace(t *testing.T, c *cluster, name string) {
	t.Helper()
	made := &corev1.Namespace{}
	made.Name = name
	if err := c.api.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.api.Delete(background, made); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s of %s: %v", name, c.Name(), err)
		}
	})
}

// limit joins a cluster with the rights to write in one namespace. Those that it begins with are the wider ones, which these replace.
func (f *fleet) limit(t *testing.T, c *cluster, name string) {
	t.Helper()
	kubeconfig, err := c.MemberKubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := environment.ApplyFile(t.Context(), c.api, config+"/member/named-namespaces/rbac.yaml"); err != nil {
		t.Fatal(err)
	}
	f.permit(t, c, name)
	if err := environment.JoinWith(t.Context(), f.hub.api, c.Name(), kubeconfig, nil); err != nil {
		t.Fatal(err)
	}
}

func (f *fleet) permit(t *testing.T, c *cluster, name string) {
	t.Helper()
	if err := environment.ApplyFile(t.Context(), client.NewNamespacedClient(c.api, name), config+"/member/named-namespaces/namespace.yaml"); err != nil {
		t.Fatal(err)
	}
}

// awaitIndoors waits until west has the image and the ports that the AppService says.
func (f *fleet) awaitIndoors(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	eventually(t, "west to have the image and the ports of AppService "+app.Name, func() error {
		scaled := app.DeepCopy() // the autoscaler has them at its least
		scaled.Spec.Replicas, scaled.Spec.Autoscaling = app.Spec.Autoscaling.MinReplicas, nil
		return has(f.members["west"], scaled)
	})
}

// awaitRefused waits until a member's row says that it may not write there.
func (f *fleet) awaitRefused(t *testing.T, app *v1alpha1.AppService, member string) {
	t.Helper()
	want := fmt.Sprintf(`cannot patch resource "deployments" in API group "apps" in the namespace %q`, app.Namespace)
	eventually(t, "AppService "+app.Name+" to be refused by "+member+", and by no other", func() error {
		f.refresh(t, app)
		var problems []error
		for _, r := range app.Status.Clusters {
			switch {
			case r.Name != member && r.Phase != v1alpha1.ClusterReady,
				r.Name == member && (r.Phase != v1alpha1.ClusterFailed || r.Reason != v1alpha1.ReasonRefused || !strings.Contains(r.Message, want)):
				problems = append(problems, fmt.Errorf("%s: %s %s: %s", r.Name, r.Phase, r.Reason, r.Message))
			}
		}
		if app.Status.Cluster(member) == nil {
			problems = append(problems, errors.New("it has no row"))
		}
		return errors.Join(problems...)
	})
}

// denied are the requests of the operator that a cluster has answered with 403.
func (f *fleet) denied(t *testing.T, c *cluster) []environment.Request {
	t.Helper()
	return slices.DeleteFunc(f.requests(t, c), func(r environment.Request) bool { return !r.Denied() })
}

// logged are the lines of the operator's log that name something.
func (f *fleet) logged(name string) []string {
	return slices.DeleteFunc(strings.Split(f.operator.Log(), "\n"), func(line string) bool { return !strings.Contains(line, name) })
}

// awaitUsed waits until the operator has made use of all that these roles grant, but for the repetition of an event, which is rare: events
// come late.
func (f *fleet) awaitUsed(t *testing.T, c *cluster, roles ...string) {
	t.Helper()
	var granted []string
	for _, role := range roles {
		of := &access{clusters: []*cluster{c}, clusterRole: role}
		more, err := of.granted(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range more {
			granted = append(granted, g.String())
		}
	}
	eventually(t, c.Name()+" to be asked all that it grants", func() error {
		used := map[string]bool{}
		for _, request := range f.requests(t, c) {
			for _, g := range uses(&request) {
				used[g.String()] = true
			}
		}
		if idle := slices.DeleteFunc(slices.Clone(granted), func(g string) bool { return used[g] }); len(idle) > 0 {
			return fmt.Errorf("it was not asked: %v", idle)
		}
		return nil
	})
}
