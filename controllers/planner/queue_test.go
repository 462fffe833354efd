package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Many observations are queued while every worker waits for the hub. A later edit is planned first.
func TestEdit_is_planned_before_observations_that_were_queued_earlier(t *testing.T) {
	t.Parallel()
	const others = 120
	s := newFixture(t, "east")
	s.createApp()
	busy := make([]*v1alpha1.AppService, others)
	for i := range busy {
		busy[i] = s.app.DeepCopy()
		busy[i].Name, busy[i].ResourceVersion, busy[i].UID = fmt.Sprintf("busy-%d", i), "", ""
		s.must(s.hub.Create(t.Context(), busy[i]))
	}
	for _, app := range slices.Concat(busy, []*v1alpha1.AppService{s.app}) {
		wait.Eventually(t, func() error { return isPlanned(s, app) })
	}
	s.waitForBurst()
	s.waitForCache()
	s.sent.reset()

	s.sent.hold()
	for _, app := range busy {
		s.observations.Report(client.ObjectKeyFromObject(app), "east", observation.Observation{
			UID: app.UID, Generation: app.Generation, Planned: 2, Phase: v1alpha1.ClusterProgressing, Applied: 1, Replicas: 1,
		})
	}
	wait.Eventually(t, func() error {
		if n := len(s.sent.list()); n < workers {
			return fmt.Errorf("%d writes are in progress, want one for each of %d workers", n, workers)
		}
		return nil
	})
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.waitForCache()
	s.sent.release()
	wait.Eventually(t, func() error { return isPlanned(s, s.app) })

	lines := s.sent.lines()
	// The plan of the edit stores a revision first. One status write of each worker was sent before.
	// While the plan reads the history, the other workers write more.
	before := slices.Index(lines, "POST controllerrevisions")
	if before < 0 || before > others/2 {
		t.Errorf("%d of %d status writes of other AppServices were sent before the revision of the edit:\n%s", before, others, strings.Join(lines, "\n"))
	}
}

func isPlanned(s *fixture, app *v1alpha1.AppService) error {
	if err := s.hub.Get(s.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	if app.Status.ObservedGeneration != app.Generation || len(app.Status.Clusters) == 0 {
		return fmt.Errorf("%s has no plan for generation %d", app.Name, app.Generation)
	}
	return nil
}
