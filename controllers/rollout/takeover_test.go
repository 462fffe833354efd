package rollout_test

import (
	"maps"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// runs checks which revisions the members run, in order of name.
func (s *scenario) runs(want string) *scenario {
	s.t.Helper()
	got := ""
	for _, name := range s.names() {
		got += string(rune('0' + s.members[name].runs))
	}
	if got != want {
		s.t.Fatalf("the members run %s, want %s\n%s", got, want, toText(s.app.Status))
	}
	return s
}

// works lets the members carry out their entries one after another, in an order, and plans after each.
func (s *scenario) works(order ...string) *scenario {
	s.t.Helper()
	for _, name := range order {
		s.deliver(name)
		s.plan()
	}
	return s
}

// In a restored hub, entries that lack the target take it over where it runs.
func TestRestored_rollout_takes_over_the_target(t *testing.T) {
	t.Run("from before the approval", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval))
		s.edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		backup := s.app
		s.annotate(v1alpha1.AnnotationApprove, "2/world")
		s.plan()
		s.deliverAll()
		s.runs("22112")
		s.restore(backup)
		s.works("world-3", "world-2", "world-1", "canary-1", "canary-2").runs("22112").revisionsAre("22112")
		s.settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 1/3").runs("22112")
		s.annotate(v1alpha1.AnnotationApprove, "2/world")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3").runs("22222")
	})
	t.Run("when clusters answer that had not got it yet", func(t *testing.T) {
		s := newScenario(t)
		s.edited("ok-1")
		backup := s.app // canary-1 or canary-2 is about to get it
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3")
		s.restore(backup)
		s.works("world-3", "world-2", "world-1", "canary-1", "canary-2").runs("22222").revisionsAre("22222")
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3").runs("22222")
	})
	t.Run("while it fails", func(t *testing.T) {
		s := newScenario(t, stageWith(1, needsApproval))
		s.edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world AwaitingApproval 0/3")
		backup := s.app
		s.annotate(v1alpha1.AnnotationApprove, "2/world")
		s.plan()
		s.deliverAll()
		for _, name := range []string{"world-1", "world-2", "world-3"} {
			s.members[name].sick = s.members[name].runs == 2
		}
		s.restore(backup)
		s.settles("RolledBack 2, stable 1: canary Completed 0/2, world AwaitingApproval 0/3").runs("11111")
	})
}

// In a restored hub, the target goes nowhere if a cluster had it and lost it.
func TestRestored_rollout_is_halted_where_the_target_was_taken_back(t *testing.T) {
	newSoaking := func(t *testing.T) *scenario {
		s := newScenario(t, stageWith(0, soaksFor(600)))
		s.edited("ok-1").passes(4 * time.Minute).is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
		return s
	}
	abort := func(s *scenario) *v1alpha1.AppService {
		backup := s.app
		s.annotate(v1alpha1.AnnotationAbort, "2")
		s.settles("RolledBack 2, stable 1: canary Soaking 0/2, world Pending 0/3").runs("11111")
		return backup
	}
	const halted = "Halted 2, stable 1: canary Soaking 0/2, world Pending 0/3"
	for name, order := range map[string][]string{
		"the canaries answer first": {"canary-1", "canary-2", "world-1", "world-2", "world-3"},
		"the canaries answer last":  {"world-1", "world-2", "world-3", "canary-1", "canary-2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSoaking(t)
			s.restore(abort(s))
			s.advance(time.Hour)
			s.works(order...).runs("11111").revisionsAre("11111").settles(halted).runs("11111")
			if state := s.app.Status.Rollout; state.FailedReason != v1alpha1.ReasonTakenBack || state.FailedStage != "canary" || state.FailedRevision != 2 {
				t.Errorf("the rollout is %+v", state)
			}
			s.restart()
			s.settles(halted).runs("11111")
			s.annotate(v1alpha1.AnnotationRetry, "2")
			s.passes(5 * time.Minute).runs("33111")
		})
	}
	t.Run("and an abort ends that", func(t *testing.T) {
		s := newSoaking(t)
		s.restore(abort(s))
		s.settles(halted)
		s.annotate(v1alpha1.AnnotationAbort, "2")
		s.settles("RolledBack 2, stable 1: canary Soaking 0/2, world Pending 0/3").runs("11111")
	})
	t.Run("also while observations are from before the restore", func(t *testing.T) {
		s := newSoaking(t)
		backup := abort(s)
		seen := maps.Clone(s.seen)
		s.restore(backup)
		s.advance(time.Hour)
		s.seen = seen
		s.plan()
		s.revisionsAre("22111").works("canary-1").revisionsAre("12111").settles(halted).runs("11111")
	})
	t.Run("also in a stage in which others can get it before that is known", func(t *testing.T) {
		s := newScenario(t)
		s.setReady("world-1", false)
		s.setReady("world-2", false)
		s.edited("ok-1").settles("Progressing 2, stable 1: canary Completed 2/2, world Progressing 1/3").runs("22112")
		backup := s.app
		s.annotate(v1alpha1.AnnotationAbort, "2")
		s.settles("RolledBack 2, stable 1: canary Completed 0/2, world Progressing 0/3")
		s.setReady("world-1", true)
		s.setReady("world-2", true)
		s.restore(backup)
		s.works("world-1", "world-2").revisionsAre("22112")
		s.settles("Halted 2, stable 1: canary Completed 0/2, world Progressing 0/3").runs("11111")
	})
	t.Run("not if its member was restored to before the edit", func(t *testing.T) {
		s := newSoaking(t)
		s.members["canary-1"].runs, s.members["canary-1"].stamped = 1, 1
		s.restart()
		s.works("canary-1").runs("22111").is("Progressing 2, stable 1: canary Soaking 2/2, world Pending 0/3")
	})
}

// A restart in the midst of a rollout or a rollback takes over nothing and halts nothing: an entry
// that was assigned is delivered.
func TestRestart_before_a_revision_is_delivered_delivers_it(t *testing.T) {
	t.Run("in a rollout", func(t *testing.T) {
		s := newScenario(t)
		s.edited("ok-1").revisionsAre("12111")
		for range 40 { // each decision is followed by a restart
			s.restart()
			s.deliverAll()
			s.plan()
			s.advance(30 * time.Second)
		}
		s.settles("Completed 2, stable 2: canary Completed 2/2, world Completed 3/3").runs("22222")
	})
	t.Run("in a rollback", func(t *testing.T) {
		s := newScenario(t)
		s.edited("ok-1").passes(5 * time.Minute)
		s.annotate(v1alpha1.AnnotationAbort, "2")
		for range 40 {
			s.plan()
			s.restart()
			s.deliverAll()
			s.advance(30 * time.Second)
		}
		s.settles("RolledBack 2, stable 1: canary Completed 0/2, world Progressing 0/3").runs("11111")
	})
}
