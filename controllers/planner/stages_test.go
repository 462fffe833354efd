package planner

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// inStages makes an edit reach east first, where it soaks for an hour. The other clusters are the
// last stage, which begins with one of them.
func inStages(app *v1alpha1.AppService) {
	app.Spec.Rollout = &v1alpha1.Rollout{
		RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(0))},
		Stages: []v1alpha1.RolloutStage{{
			Name: "canary", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}, SoakSeconds: new(int32(3600)),
		}},
	}
}

// newSoaking returns a scene in which revision 2 soaks on east, and the other members have the
// stable revision 1.
func newSoaking(t *testing.T, members ...string) *fixture {
	t.Helper()
	s := newRunning(t, members...)
	s.edit(inStages)
	s.editImage("web:2", members...)
	s.waitForRevisions(map[string]int64{"east": 2})
	s.reportRunning(members...)
	s.waitForReason(v1alpha1.ReasonSoaking)
	return s
}

// editImage edits the image, and lets the members answer with what they run.
func (s *fixture) editImage(image string, members ...string) {
	s.Helper()
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = image })
	s.waitForPlan()
	s.reportRunning(members...)
}

// waitForPlan waits until the current generation is planned.
func (s *fixture) waitForPlan() {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if s.readApp(); revise.IsEdited(s.app) {
			return fmt.Errorf("generation %d is not planned", s.app.Generation)
		}
		return nil
	})
}

// reportRunning reports that members run what their entries say.
func (s *fixture) reportRunning(members ...string) {
	s.Helper()
	s.readApp()
	for _, member := range members {
		seen := s.readyObservation()
		seen.Revision = s.app.Status.Cluster(member).Revision
		s.report(member, seen)
	}
}

// waitForRevisions waits until the entries of members have these revisions.
func (s *fixture) waitForRevisions(want map[string]int64) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		for member, revision := range want {
			if entry := s.app.Status.Cluster(member); entry == nil || entry.Revision != revision {
				return fmt.Errorf("the entry of %s is %+v, want revision %d", member, entry, revision)
			}
		}
		return nil
	})
}

// waitForReason waits until RolledOut has a reason.
func (s *fixture) waitForReason(want string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		condition := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionRolledOut)
		if condition == nil || condition.Reason != want {
			return fmt.Errorf("RolledOut is %+v, want the reason %s", condition, want)
		}
		return nil
	})
}

// checkRestart restarts the planner, lets the members report again, and checks that nothing is
// written.
func (s *fixture) checkRestart(members ...string) {
	s.Helper()
	s.readApp()
	before := s.app.ResourceVersion
	s.restart()
	s.reportRunning(members...)
	s.reconcileOnce()
	s.checkWrites()
	if s.readApp(); s.app.ResourceVersion != before {
		s.Error("the AppService was written")
	}
}

func TestRestart_in_a_rollout_writes_nothing(t *testing.T) {
	t.Parallel()
	members := []string{"east", "south", "west"}
	s := newSoaking(t, members...)
	s.checkRestart(members...)

	s.edit(annotate(v1alpha1.AnnotationAbort, "2"))
	s.waitForRevisions(map[string]int64{"east": 1, "south": 1, "west": 1})
	s.waitForReason(v1alpha1.ReasonRollingBack)
	s.checkRestart("south", "west") // east has not answered

	s.reportRunning(members...)
	s.waitForReason(v1alpha1.ReasonRolledBack)
	s.checkRestart(members...)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
}

// A template that failed is tried again as a new revision, and only once for each annotation.
func TestRetry_is_a_new_revision(t *testing.T) {
	t.Parallel()
	members := []string{"east", "west"}
	s := newSoaking(t, members...)
	s.edit(annotate(v1alpha1.AnnotationAbort, "2"))
	s.waitForRevisions(map[string]int64{"east": 1})
	s.reportRunning(members...)
	s.waitForReason(v1alpha1.ReasonRolledBack)
	s.edit(annotate(v1alpha1.AnnotationRetry, "2"))
	s.waitForRevisions(map[string]int64{"east": 3, "west": 1})
	s.reportRunning(members...)
	s.waitForReason(v1alpha1.ReasonSoaking)
	s.checkRestart(members...)
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2", "web-3": "web:2"})
}

// A template that was canceled is a new revision when it comes back: an approval of the canceled one
// must not count for it.
func TestCanceled_template_that_comes_back_is_a_new_revision(t *testing.T) {
	t.Parallel()
	members := []string{"east", "west"}
	s := newSoaking(t, members...)
	s.editImage("web:1", members...)
	s.waitForRevisions(map[string]int64{"east": 1})
	s.reportRunning(members...)
	s.waitForReason(v1alpha1.ReasonCompleted)
	s.editImage("web:2", members...)
	s.waitForRevisions(map[string]int64{"east": 3, "west": 1})
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2", "web-3": "web:2"})
}

// The operator is killed after each write of a new revision. No status names a revision that is not
// stored, and each edit has one revision.
func TestCrash_at_any_request_of_a_new_revision(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.stop()
	for _, member := range []string{"east", "west"} {
		s.join(member)
	}
	inStages(s.app)
	s.must(s.hub.Create(t.Context(), s.app))
	s.reconcileUntilKilled(1000)
	isOver := false
	for killed := 0; !isOver; killed++ {
		image := fmt.Sprint("web:edited-", killed)
		s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = image })
		isOver = !s.reconcileUntilKilled(killed)
		s.checkNamedRevisions()
		s.reconcileUntilKilled(1000)
		s.checkNamedRevisions()
		if target := s.app.Status.Rollout.Revision; target != int64(killed)+2 {
			t.Errorf("killed after %d writes, the edit has revision %d", killed, target)
		}
		if killed > 10 {
			t.Fatal("an edit takes more than ten writes")
		}
	}
}

// checkNamedRevisions fails if the status names a revision that is not stored.
func (s *fixture) checkNamedRevisions() {
	s.Helper()
	s.readApp()
	stored := s.listRevisions()
	named := []int64{s.app.Status.Rollout.Revision, s.app.Status.Rollout.StableRevision}
	for _, entry := range s.app.Status.Clusters {
		named = append(named, entry.Revision)
	}
	for _, number := range slices.DeleteFunc(named, func(number int64) bool { return number == 0 }) {
		if _, found := stored[fmt.Sprint("web-", number)]; !found {
			s.Errorf("the status names revision %d, and %v are stored", number, stored)
		}
	}
}

// A backup has the AppService without its status. The members know which revision they run, and the
// rollout begins again with the one that most of them run as the stable one.
func TestRollout_on_a_hub_that_is_restored_without_a_status(t *testing.T) {
	t.Parallel()
	members := []string{"east", "south", "west"}
	s := newSoaking(t, members...)
	s.stop()
	s.clearStatus()
	s.start()
	runs := map[string]int64{"east": 2, "south": 1, "west": 1}
	for member, revision := range runs {
		s.observations.Report(s.key(), member, observation.Observation{UID: s.app.UID, Found: true, Planned: 2, Revision: revision})
	}
	s.waitForRevisions(runs)
	s.reportRunning(members...)
	s.waitForReason(v1alpha1.ReasonSoaking)
	if state := s.app.Status.Rollout; state.Revision != 2 || state.StableRevision != 1 {
		t.Errorf("the rollout is %+v", state)
	}
	s.checkRevisions(map[string]string{"web-1": "web:1", "web-2": "web:2"})
}
