package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestRestart tests that the operator continues its work after a crash, and writes nothing after a
// restart at rest. It uses leader election: after a crash, the next operator waits for the Lease of
// the previous one.
func TestRestart(t *testing.T) {
	f := testFleet(t)
	app := f.createApp(t, "restarted", framework.Replicas(5))
	f.awaitReady(t, app, "north", "south", "east")

	t.Run("delivers an edit when it was killed right after the edit", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:2"), framework.AddEnv("STEP", "2"))
		f.killAndRestart(t)
		t.Logf("3/3 Ready %s after the restart", framework.Round(f.awaitReady(t, app, "north", "south", "east")))
	})

	t.Run("delivers an edit when it was killed after one member had it", func(t *testing.T) {
		f.EditApp(t, app, framework.Image("web:3"), framework.Replicas(6))
		f.Eventually(t, "one member to have the edit", func(ctx context.Context) error {
			var missing []error
			for _, member := range f.Members {
				if err := checkObjects(ctx, member, app); err != nil {
					missing = append(missing, err)
				}
			}
			if len(missing) == len(f.Members) {
				return errors.Join(missing...)
			}
			return nil
		})
		f.killAndRestart(t)
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("completes a deletion when it was killed right after the deletion", func(t *testing.T) {
		deleted := f.createApp(t, "deleted")
		f.awaitReady(t, deleted, "north", "south", "east")
		if err := f.Hub.Client.Delete(t.Context(), deleted); err != nil {
			t.Fatal(err)
		}
		f.killAndRestart(t)
		f.DeleteApp(t, deleted)
		for _, member := range f.Members {
			if err := checkRemoved(t.Context(), member, deleted); err != nil {
				t.Errorf("the AppService is gone, but: %v", err)
			}
		}
	})

	t.Run("writes nothing at rest, nor after a restart at rest", func(t *testing.T) {
		f.createApp(t, "quiet-south", framework.OnClusters("south"))
		two := f.createApp(t, "quiet-two", inRegion("eu"), framework.Ports(80, 81))
		f.awaitReady(t, two, "north")
		f.awaitReady(t, app, "north", "south", "east")
		f.awaitNoWrites(t)

		start := f.countWrites(t)
		f.AwaitLook(t)
		rest := f.countWrites(t)
		if diff := cmp.Diff(start, rest); diff != "" {
			t.Errorf("written at rest (-before +after):\n%s", diff)
		}

		restarted := time.Now()
		if err := f.Operator.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		f.mustStartOperator(t)
		f.awaitLeader(t, restarted)
		f.AwaitLook(t)
		after := f.countWrites(t)
		if diff := cmp.Diff(rest, after); diff != "" {
			t.Errorf("written by a restart and after it (-before +after):\n%s", diff)
		}
		t.Logf("writes by cluster: %v, %v at rest, %v after a restart", totals(start), totals(rest), totals(after))

		f.EditApp(t, app, framework.Image("web:4"))
		f.awaitReady(t, app, "north", "south", "east")
	})
}

func (f *fleet) killAndRestart(t *testing.T) {
	t.Helper()
	if err := f.Operator.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.mustStartOperator(t)
}

func (f *fleet) mustStartOperator(t *testing.T) {
	t.Helper()
	if err := f.startOperator(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

// awaitLeader waits until an operator leads that was started after a time: it acquired the Lease.
func (f *fleet) awaitLeader(t *testing.T, since time.Time) {
	t.Helper()
	f.Eventually(t, "the restarted operator to lead", func(ctx context.Context) error {
		leases := &coordinationv1.LeaseList{}
		if err := f.Hub.Client.List(ctx, leases, client.InNamespace(environment.SecretNamespace)); err != nil {
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
