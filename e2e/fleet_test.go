package e2e

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// label gives a member's Secret more labels, and its MemberCluster with it, until the test ends.
func (f *fleet) label(t *testing.T, member string, more map[string]string) {
	t.Helper()
	usual := map[string]string{"region": regions[member]}
	both := maps.Clone(usual)
	maps.Copy(both, more)
	f.setLabels(t, member, both)
	t.Cleanup(func() { f.setLabels(t, member, usual) })
}

func (f *fleet) setLabels(t *testing.T, member string, labels map[string]string) {
	t.Helper()
	if err := environment.Join(background, f.hub.api, f.members[member], labels); err != nil {
		t.Fatal(err)
	}
	eventually(t, "MemberCluster "+member+" to have the labels of its Secret", func() error {
		m := &v1alpha1.MemberCluster{}
		if err := f.hub.api.Get(background, client.ObjectKey{Name: member}, m); err != nil {
			return err
		}
		got := maps.Clone(m.Labels)
		delete(got, environment.SecretLabel)
		if diff := cmp.Diff(labels, got); diff != "" {
			return fmt.Errorf("(-Secret +MemberCluster):\n%s", diff)
		}
		return nil
	})
}

// govern says as an administrator what a member takes, until the test ends. An empty spec takes all.
func (f *fleet) govern(t *testing.T, member string, spec v1alpha1.MemberClusterSpec) {
	t.Helper()
	f.setSpec(t, member, spec)
	t.Cleanup(func() { f.setSpec(t, member, v1alpha1.MemberClusterSpec{}) })
}

func (f *fleet) setSpec(t *testing.T, member string, spec v1alpha1.MemberClusterSpec) {
	t.Helper()
	m := &v1alpha1.MemberCluster{}
	if err := f.hub.api.Get(background, client.ObjectKey{Name: member}, m); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(m.DeepCopy())
	m.Spec = spec
	if err := f.hub.api.Patch(background, m, patch); err != nil {
		t.Fatalf("edit MemberCluster %s: %v", member, err)
	}
}

func tainted(effect v1alpha1.TaintEffect) v1alpha1.MemberClusterSpec {
	return v1alpha1.MemberClusterSpec{Taints: []v1alpha1.Taint{{Key: "e2e", Effect: effect}}}
}

// cordon keeps new pods from a member's nodes, so that nothing becomes ready there, until the function that it returns is called or the
// test ends.
func (f *fleet) cordon(t *testing.T, member string) (uncordon func()) {
	t.Helper()
	f.setCordon(t, member, true)
	uncordon = sync.OnceFunc(func() { f.setCordon(t, member, false) })
	t.Cleanup(uncordon)
	return uncordon
}

func (f *fleet) setCordon(t *testing.T, member string, cordoned bool) {
	t.Helper()
	nodes := &corev1.NodeList{}
	if err := f.members[member].api.List(background, nodes); err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		patch := client.MergeFrom(node.DeepCopy())
		node.Spec.Unschedulable = cordoned
		if err := f.members[member].api.Patch(background, node, patch); err != nil {
			t.Fatalf("cordon node %s of %s: %v", node.Name, member, err)
		}
	}
}

// row is what a member's row says, as far as it is the same each time.
type row struct {
	Phase  v1alpha1.ClusterPhase
	Reason string
}

// awaitRows waits until there are these rows and no others, for the present generation.
func (f *fleet) awaitRows(t *testing.T, app *v1alpha1.AppService, want map[string]row) {
	t.Helper()
	eventually(t, fmt.Sprintf("AppService %s to have the rows %v", app.Name, want), func() error {
		f.refresh(t, app)
		got := map[string]row{}
		for _, r := range app.Status.Clusters {
			got[r.Name] = row{r.Phase, r.Reason}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		if app.Status.ObservedGeneration != app.Generation {
			return fmt.Errorf("the status is about generation %d, not %d", app.Status.ObservedGeneration, app.Generation)
		}
		return nil
	})
}

// allReady are the rows of an AppService that is Ready on these members.
func allReady(members ...string) map[string]row {
	rows := map[string]row{}
	for _, name := range members {
		rows[name] = row{Phase: v1alpha1.ClusterReady}
	}
	return rows
}

// deployment is that of an AppService on a member.
func (f *fleet) deployment(member string, app *v1alpha1.AppService) (*appsv1.Deployment, error) {
	found := &appsv1.Deployment{}
	if err := f.members[member].api.Get(background, client.ObjectKeyFromObject(app), found); err != nil {
		return nil, fmt.Errorf("%s: %w", member, err)
	}
	return found, nil
}

// readyPods is how many an AppService has on a member; none where it is not.
func (f *fleet) readyPods(member string, app *v1alpha1.AppService) (int32, error) {
	found, err := f.deployment(member, app)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	return found.Status.ReadyReplicas, nil
}

// neverFewer looks again and again, until the function that it returns is called or the test ends, whether at least so many are ready over
// all members, where score says what the ready pods of one count for. The members that are left come first: what arrives on the others in
// the meantime counts too, so that no moment looks worse than it was.
func (f *fleet) neverFewer(t *testing.T, app *v1alpha1.AppService, least int32, score func(ready int32) int32, members ...string) (stop func()) {
	t.Helper()
	app = app.DeepCopy() // the test goes on with its own
	end, ended := make(chan struct{}), make(chan struct{})
	var looks int
	var found error
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; found == nil; looks++ {
			select {
			case <-end:
				return
			case <-tick.C:
				found = f.atLeast(app, least, score, members)
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(end)
		<-ended
		if found != nil {
			t.Errorf("while AppService %s moved: %v", app.Name, found)
		}
		t.Logf("looked %d times for at least %d", looks, least)
	})
	t.Cleanup(stop)
	return stop
}

func (f *fleet) atLeast(app *v1alpha1.AppService, least int32, score func(ready int32) int32, members []string) error {
	sum, seen := int32(0), map[string]int32{}
	for _, member := range members {
		ready, err := f.readyPods(member, app)
		if err != nil {
			return err
		}
		seen[member] = ready
		sum += score(ready)
	}
	if sum < least {
		return fmt.Errorf("fewer than %d were ready, the pods of each member were %v", least, seen)
	}
	return nil
}

// readyMessage is what the condition Ready says.
func readyMessage(app *v1alpha1.AppService) string {
	for _, c := range app.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && c.Status != metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}
