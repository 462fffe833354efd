package planner

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// rollingOut returns an observation of two ready pods, of which this many are available.
func (s *fixture) rollingOut(available int32) observation.Observation {
	seen := s.readyObservation()
	seen.Phase, seen.Reason, seen.AvailableReplicas = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut, &available
	return seen
}

// waitForAvailable waits until east is in a phase with this many available pods; nil is as many as ready
// ones. West runs two. It checks the sum.
func (s *fixture) waitForAvailable(phase v1alpha1.ClusterPhase, available *int32, sum int32) {
	s.Helper()
	east := s.entry("east", phase)
	if phase == v1alpha1.ClusterProgressing {
		east.Reason = v1alpha1.ReasonRollingOut
	}
	east.ObservedAvailableReplicas = available
	s.waitForEntries(east, s.entry("west", v1alpha1.ClusterReady))
	if diff := cmp.Diff(&sum, s.app.Status.AvailableReplicas); diff != "" {
		s.Errorf("available pods (-want +got):\n%s", diff)
	}
}

func TestAvailable_pods_are_written_with_the_next_change(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.waitForAvailable(v1alpha1.ClusterReady, nil, 4)
	s.report("east", s.rollingOut(0))
	s.waitForAvailable(v1alpha1.ClusterProgressing, new(int32(0)), 2)

	s.sent.reset()
	s.report("east", s.rollingOut(1))
	if result := s.reconcileOnce(); result.RequeueAfter <= statusInterval || result.RequeueAfter > availabilityDelay {
		t.Errorf("it is planned again after %v", result.RequeueAfter)
	}
	s.checkWrites()
	s.report("east", s.readyObservation())
	s.waitForAvailable(v1alpha1.ClusterReady, nil, 4)
	s.checkWrites(statusWrite)
}

// Pods become available, and nothing else changes.
func TestAvailable_pods_are_written_in_the_end(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.report("east", s.rollingOut(0))
	s.waitForAvailable(v1alpha1.ClusterProgressing, new(int32(0)), 2)
	s.sent.reset()
	begin := time.Now()
	s.report("east", s.rollingOut(1))
	s.waitForAvailable(v1alpha1.ClusterProgressing, new(int32(1)), 3)
	if took := time.Since(begin); took < availabilityDelay {
		t.Errorf("it was written after %v", took)
	}
	s.checkWrites(statusWrite)
}

// The status of an older version has no number. Nothing else differs after an upgrade.
func TestAvailable_pods_of_an_older_version_are_written_once(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	s.stop()
	s.must(s.hub.Status().Patch(t.Context(), s.app, client.RawPatch(types.MergePatchType, []byte(`{"status":{"availableReplicas":null}}`))))
	s.start()
	for _, member := range []string{"east", "west"} {
		s.report(member, s.readyObservation())
	}
	wait.Eventually(t, func() error {
		if s.readApp(); s.app.Status.AvailableReplicas == nil {
			return errors.New("the status has no number of available pods")
		}
		return nil
	})
	s.waitForAvailable(v1alpha1.ClusterReady, nil, 4)
	s.reconcileOnce()
	s.checkWrites(statusWrite)
}
