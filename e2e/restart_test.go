package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// The operator's end and its return. It uses leader election, as in production: after a crash the next one
// waits for the lease of the one before.
func TestRestart(t *testing.T) {
	f := theFleet
	app := f.declare(t, "phoenix", replicas(5))
	f.awaitReady(t, app, "north", "south", "east")

	t.Run("an operator that is killed as soon as a change is made finishes it after its restart", func(t *testing.T) {
		f.edit(t, app, image("web:2"), env("STEP", "2"))
		f.killAndRestart(t)
		t.Logf("3/3 Ready %s after the restart", round(f.awaitReady(t, app, "north", "south", "east")))
	})

	t.Run("an operator that is killed when a change is on one member finishes it after its restart", func(t *testing.T) {
		f.edit(t, app, image("web:3"), replicas(6))
		eventually(t, "one member to have the change", func() error {
			var missing []error
			for _, member := range f.members {
				if err := has(member, app); err != nil {
					missing = append(missing, err)
				}
			}
			if len(missing) == len(f.members) {
				return errors.Join(missing...)
			}
			return nil
		})
		f.killAndRestart(t)
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("an operator that is killed before a deletion finishes that", func(t *testing.T) {
		doomed := f.declare(t, "doomed")
		f.awaitReady(t, doomed, "north", "south", "east")
		if err := f.hub.api.Delete(t.Context(), doomed); err != nil {
			t.Fatal(err)
		}
		f.killAndRestart(t)
		f.remove(t, doomed)
		for _, member := range f.members {
			if err := f.gone(member, doomed); err != nil {
				t.Errorf("the AppService is gone, but: %v", err)
			}
		}
	})

	t.Run("nothing is written at rest, nor by a restart when all is in place", func(t *testing.T) {
		f.declare(t, "quiet-south", onClusters("south"))
		two := f.declare(t, "quiet-two", inRegion("eu"), ports(80, 81))
		f.awaitReady(t, two, "north")
		f.awaitReady(t, app, "north", "south", "east")
		f.awaitSilence(t)

		start := f.writes(t)
		time.Sleep(quiet)
		rest := f.writes(t)
		if diff := cmp.Diff(start, rest); diff != "" {
			t.Errorf("within %s at rest (-before +after):\n%s", quiet, diff)
		}

		restarted := time.Now()
		if err := f.operator.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.startOperator(t)
		f.awaitLeader(t, restarted)
		time.Sleep(quiet)
		after := f.writes(t)
		if diff := cmp.Diff(rest, after); diff != "" {
			t.Errorf("by a restart and within %s after it (-before +after):\n%s", quiet, diff)
		}
		t.Logf("writes so far, by cluster: %v at first, %v after %s at rest, %v after a restart and %s more",
			totals(start), totals(rest), quiet, totals(after), quiet)

		f.edit(t, app, image("web:4"))
		f.awaitReady(t, app, "north", "south", "east")
	})
}

func (f *fleet) killAndRestart(t *testing.T) {
	t.Helper()
	if err := f.operator.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.startOperator(t)
}

func (f *fleet) startOperator(t *testing.T) {
	t.Helper()
	if err := f.start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

// awaitLeader waits until an operator that was started after this moment leads: it has taken the lease.
func (f *fleet) awaitLeader(t *testing.T, since time.Time) {
	t.Helper()
	eventually(t, "the restarted operator to lead", func() error {
		leases := &coordinationv1.LeaseList{}
		if err := f.hub.api.List(background, leases, client.InNamespace(environment.SecretNamespace)); err != nil {
			return err
		}
		for _, lease := range leases.Items {
			if at := lease.Spec.AcquireTime; at != nil && at.After(since) {
				return nil
			}
		}
		return fmt.Errorf("none of the %d leases was acquired after %s", len(leases.Items), since.Format(time.TimeOnly))
	})
}
