package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

func dividedReplicas(rules ...v1alpha1.ReplicaRule) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided, Rules: rules}
	}
}

// readyOf scores a member by its ready pods.
func readyOf(ready int32) int32 { return ready }

// TestDivided tests replicas that are divided over the clusters. Where replicas move, the nodes of
// the target are cordoned for a while: until they are not, no replica may be removed elsewhere.
// Each step continues where the previous one ended.
func TestDivided(t *testing.T) {
	f := testFleet(t)
	f.addCluster(t, "west")
	app := f.createApp(t, "divided", framework.Replicas(10), dividedReplicas())
	thirds := map[string]int32{"north": 4, "south": 4, "east": 4}
	quarters := map[string]int32{"north": 3, "south": 3, "east": 3, "west": 3}
	join := func(t *testing.T) {
		t.Helper()
		f.Join(t, "west", nil)
	}

	t.Run("divides evenly with an exact sum", func(t *testing.T) {
		shares := f.awaitShares(t, app, 10, "north", "south", "east")
		for member, share := range shares {
			if share < 3 || share > 4 {
				t.Errorf("%s has %d of 10 replicas", member, share)
			}
		}
	})

	t.Run("is scaled as a whole by kubectl scale", func(t *testing.T) {
		done := f.expectAtLeast(t, app, 10, readyOf, "north", "south", "east")
		f.Hub.Kubectl(t, *binFlag, "scale", "appsvc", app.Name, "--namespace", namespace, "--replicas=12")
		f.awaitExactShares(t, app, thirds)
		done()
	})

	t.Run("scales down other clusters when a new cluster is ready", func(t *testing.T) {
		uncordon := f.cordon(t, "west")
		done := f.expectAtLeast(t, app, 12, readyOf, "north", "south", "east", "west")
		join(t)
		f.awaitReadyMessage(t, app, "the scale-down on 3 clusters is pending until the AppService is ready on: west")
		uncordon()
		f.awaitExactShares(t, app, quarters)
		done()
	})

	t.Run("keeps the pods of a detached cluster, and replaces them elsewhere", func(t *testing.T) {
		f.detach(t, "west")
		entries := allReady("north", "south", "east")
		entries["west"] = entry{v1alpha1.ClusterDetached, v1alpha1.ReasonClusterDetached}
		f.awaitEntries(t, app, entries)
		for _, c := range app.Status.Clusters {
			if want := max(thirds[c.Name], 3); c.Replicas != want {
				t.Errorf("%s has %d replicas, want %d", c.Name, c.Replicas, want)
			}
		}
		if ready, err := f.readyPods(t.Context(), "west", app); err != nil || ready != 3 || app.Status.Replicas != 12 {
			t.Errorf("west has %d ready pods (%v) and the others %d, want 3 and 12", ready, err, app.Status.Replicas)
		}
	})

	t.Run("divides over the cluster again when its Secret is back", func(t *testing.T) {
		done := f.expectAtLeast(t, app, 12, readyOf, "north", "south", "east", "west")
		join(t)
		f.awaitExactShares(t, app, quarters)
		done()
	})

	t.Run("keeps the pods of a drained cluster until others are ready", func(t *testing.T) {
		uncordon := f.cordon(t, "north")
		done := f.expectAtLeast(t, app, 12, readyOf, "west", "north", "south", "east")
		f.patchMemberSpec(t, "west", tainted(v1alpha1.TaintNoExecute))
		f.awaitReadyMessage(t, app, "the removal from 1 cluster is pending until the AppService is ready on: north")
		uncordon()
		f.awaitExactShares(t, app, thirds)
		done()
	})

	t.Run("follows the weights and bounds of rules", func(t *testing.T) {
		done := f.expectAtLeast(t, app, 12, readyOf, "south", "east", "north")
		heavy := v1alpha1.ReplicaRule{Name: "heavy", Weight: new(int32(4))}
		heavy.ClusterNames = []string{"north"}
		small := v1alpha1.ReplicaRule{Name: "small", MaxReplicas: new(int32(2))}
		small.ClusterNames = []string{"east"}
		f.EditApp(t, app, dividedReplicas(heavy, small))
		f.awaitExactShares(t, app, map[string]int32{"north": 8, "south": 2, "east": 2})
		done()
	})

	t.Run("divides evenly again without rules", func(t *testing.T) {
		f.EditApp(t, app, dividedReplicas())
		f.awaitExactShares(t, app, thirds)
	})
}

// awaitShares waits until the AppService is Ready on these members and on no others, checks that
// status and Deployments add up to the total, and returns the replicas by member.
func (f *fleet) awaitShares(t *testing.T, app *v1alpha1.AppService, total int32, members ...string) map[string]int32 {
	t.Helper()
	f.awaitEntries(t, app, allReady(members...))
	shares, sum := map[string]int32{}, int32(0)
	for _, c := range app.Status.Clusters {
		shares[c.Name] = c.Replicas
		sum += c.Replicas
	}
	if sum != total || app.Status.Replicas != total || app.DesiredReplicas() != total {
		t.Errorf("the replicas %v add up to %d, status.replicas is %d, spec.replicas is %d, want %d", shares, sum, app.Status.Replicas, app.DesiredReplicas(), total)
	}
	for member, share := range shares {
		deployment, err := f.Members[member].Deployment(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		if got := ptr.Deref(deployment.Spec.Replicas, 1); got != share || deployment.Status.AvailableReplicas != share {
			t.Errorf("%s: the Deployment has %d replicas, %d available, want %d", member, got, deployment.Status.AvailableReplicas, share)
		}
	}
	return shares
}

// awaitExactShares waits until the members have these replicas, and no other member has any.
func (f *fleet) awaitExactShares(t *testing.T, app *v1alpha1.AppService, want map[string]int32) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("AppService %s to have the replicas %v", app.Name, want), func(context.Context) error {
		f.RefreshApp(t, app)
		got := map[string]int32{}
		for _, c := range app.Status.Clusters {
			got[c.Name] = c.Replicas
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return framework.IsReady(app)
	})
	members, total := []string{}, int32(0)
	for member, share := range want {
		members = append(members, member)
		total += share
	}
	f.awaitShares(t, app, total, members...)
	for name, member := range f.Members {
		if _, wanted := want[name]; wanted {
			continue
		}
		if err := checkRemoved(t.Context(), member, app); err != nil {
			t.Error(err)
		}
	}
}

// awaitReadyMessage waits until the message of the condition Ready contains a text.
func (f *fleet) awaitReadyMessage(t *testing.T, app *v1alpha1.AppService, text string) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("AppService %s to report that %s", app.Name, text), func(context.Context) error {
		f.RefreshApp(t, app)
		if message := readyMessage(app); !strings.Contains(message, text) {
			return fmt.Errorf("the message of Ready is %q", message)
		}
		return nil
	})
}
