package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

func divided(rules ...v1alpha1.ReplicaRule) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.ReplicaPolicy = &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided, Rules: rules}
	}
}

func pods(ready int32) int32 { return ready }

// Replicas that all clusters run together. Each step goes on from the one before. Where replicas move, what arrives is kept from its
// nodes for a while: that is when nothing may have left.
func TestDivided(t *testing.T) {
	f := theFleet
	west := f.addCluster(t, "west")
	app := f.declare(t, "herd", replicas(10), divided())
	thirds := map[string]int32{"north": 4, "south": 4, "east": 4}
	quarters := map[string]int32{"north": 3, "south": 3, "east": 3, "west": 3}
	join := func(t *testing.T) {
		t.Helper()
		if err := environment.Join(t.Context(), f.hub.api, west, nil); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("are divided evenly, and their sum is exact", func(t *testing.T) {
		shares := f.awaitShares(t, app, 10, "north", "south", "east")
		for member, share := range shares {
			if share < 3 || share > 4 {
				t.Errorf("the share of %s is %d of 10", member, share)
			}
		}
	})

	t.Run("are scaled by kubectl scale, all together", func(t *testing.T) {
		done := f.neverFewer(t, app, 10, pods, "north", "south", "east")
		kubectl(t, f.hub, "scale", "appsvc", app.Name, "--namespace", namespace, "--replicas=12")
		f.wantShares(t, app, thirds)
		done()
	})

	t.Run("a cluster that joins gets its share, and the others give up theirs when it is ready", func(t *testing.T) {
		uncordon := f.cordon(t, "west")
		done := f.neverFewer(t, app, 12, pods, "north", "south", "east", "west")
		join(t)
		f.awaitWaiting(t, app, "it keeps replicas on 3 clusters until it is ready on: west")
		uncordon()
		f.wantShares(t, app, quarters)
		done()
	})

	t.Run("a cluster whose Secret is deleted keeps its own, and the others make up for it", func(t *testing.T) {
		f.detach(t, "west")
		rows := allReady("north", "south", "east")
		rows["west"] = row{v1alpha1.ClusterDetached, v1alpha1.ReasonClusterDetached}
		f.awaitRows(t, app, rows)
		for _, row := range app.Status.Clusters {
			if want := max(thirds[row.Name], 3); row.Replicas != want {
				t.Errorf("the share of %s is %d, want %d", row.Name, row.Replicas, want)
			}
		}
		if ready, err := f.readyPods("west", app); err != nil || ready != 3 || app.Status.Replicas != 12 {
			t.Errorf("west runs %d (%v) and the others %d, want 3 and 12", ready, err, app.Status.Replicas)
		}
	})

	t.Run("and has its share again when the Secret is back", func(t *testing.T) {
		done := f.neverFewer(t, app, 12, pods, "north", "south", "east", "west")
		join(t)
		f.wantShares(t, app, quarters)
		done()
	})

	t.Run("a cluster that is drained keeps them until they are ready elsewhere", func(t *testing.T) {
		uncordon := f.cordon(t, "north")
		done := f.neverFewer(t, app, 12, pods, "west", "north", "south", "east")
		f.setSpec(t, "west", tainted(v1alpha1.TaintNoExecute))
		f.awaitWaiting(t, app, "it waits to be removed from 1 cluster until it is ready on: north")
		uncordon()
		f.wantShares(t, app, thirds)
		done()
	})

	t.Run("follow the weights and bounds of their rules", func(t *testing.T) {
		done := f.neverFewer(t, app, 12, pods, "south", "east", "north")
		heavy := v1alpha1.ReplicaRule{Name: "heavy", Weight: new(int32(4))}
		heavy.ClusterNames = []string{"north"}
		small := v1alpha1.ReplicaRule{Name: "small", MaxReplicas: new(int32(2))}
		small.ClusterNames = []string{"east"}
		f.edit(t, app, divided(heavy, small))
		f.wantShares(t, app, map[string]int32{"north": 8, "south": 2, "east": 2})
		done()
	})

	t.Run("and are what they were without them", func(t *testing.T) {
		f.edit(t, app, divided())
		f.wantShares(t, app, thirds)
	})
}

// awaitShares waits until these members and no others run so many together, as the rows and the Deployments say, and returns the shares.
func (f *fleet) awaitShares(t *testing.T, app *v1alpha1.AppService, total int32, members ...string) map[string]int32 {
	t.Helper()
	f.awaitRows(t, app, allReady(members...))
	shares, sum := map[string]int32{}, int32(0)
	for _, row := range app.Status.Clusters {
		shares[row.Name] = row.Replicas
		sum += row.Replicas
	}
	if sum != total || app.Status.Replicas != total || app.DesiredReplicas() != total {
		t.Errorf("the shares %v are %d, status.replicas is %d, spec.replicas %d, want %d", shares, sum, app.Status.Replicas, app.DesiredReplicas(), total)
	}
	for member, share := range shares {
		deployment, err := f.deployment(member, app)
		if err != nil {
			t.Fatal(err)
		}
		if got := ptr.Deref(deployment.Spec.Replicas, 1); got != share || deployment.Status.AvailableReplicas != share {
			t.Errorf("%s runs %d, %d of them available, its share is %d", member, got, deployment.Status.AvailableReplicas, share)
		}
	}
	return shares
}

// wantShares waits until the shares are these, and on no other member.
func (f *fleet) wantShares(t *testing.T, app *v1alpha1.AppService, want map[string]int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("AppService %s to have the shares %v", app.Name, want), func() error {
		f.refresh(t, app)
		got := map[string]int32{}
		for _, row := range app.Status.Clusters {
			got[row.Name] = row.Replicas
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		if !meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) {
			return errors.New(readyMessage(app))
		}
		return nil
	})
	members, total := []string{}, int32(0)
	for member, share := range want {
		members = append(members, member)
		total += share
	}
	f.awaitShares(t, app, total, members...)
	for name, member := range f.members {
		if _, wanted := want[name]; wanted {
			continue
		}
		if err := f.gone(member, app); err != nil {
			t.Error(err)
		}
	}
}

// awaitWaiting waits until the condition Ready says what is waited for.
func (f *fleet) awaitWaiting(t *testing.T, app *v1alpha1.AppService, says string) {
	t.Helper()
	eventually(t, fmt.Sprintf("AppService %s to say that %s", app.Name, says), func() error {
		f.refresh(t, app)
		if message := readyMessage(app); !strings.Contains(message, says) {
			return fmt.Errorf("it says %q", message)
		}
		return nil
	})
}
