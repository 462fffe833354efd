package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// newSoakingFleet returns a fleet of two stages in which some clusters are available with revision
// 2. Its rollout goes on, or soaks.
func newSoakingFleet(t *rapid.T, maxFailures int32) *stagedLoop {
	pace := paceOf(rapid.Int32Range(1, 2).Draw(t, "maxUnavailable"), maxFailures, 10*time.Second)
	strategy := v1alpha1.Rollout{RolloutPace: pace, ProgressDeadlineSeconds: new(int32(300))}
	strategy.Stages = []v1alpha1.RolloutStage{stageOf("a"), stageOf("b", func(s *v1alpha1.RolloutStage) { s.SoakSeconds = new(int32(36000)) })}
	strategy.OnFailure = rapid.SampledFrom([]v1alpha1.RolloutFailurePolicy{v1alpha1.RolloutRollback, v1alpha1.RolloutPause}).Draw(t, "onFailure")
	labels := []string{"a", "b", "b", "b", "b", "a", "b", "b"}
	l := newProvenFleet(t, strategy, labels[:rapid.IntRange(4, len(labels)).Draw(t, "clusters")]...)
	l.editImage("ok-1")
	for range rapid.IntRange(8, 30).Draw(t, "steps") {
		l.deliverAll()
		l.plan()
		l.advance(30 * time.Second)
	}
	return l
}

// A rollback to a revision that does not start any more, or that the members refuse, breaks in each
// stage as many clusters as may fail, and those that are unavailable at the same time. It goes on
// when the revision starts again.
func TestStages_stop_a_rollback_to_a_revision_that_fails_too(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maxFailures := rapid.Int32Range(0, 1).Draw(t, "maxFailures")
		l := newSoakingFleet(t, maxFailures)
		most := int(maxFailures) + l.app.Spec.Rollout.MaxUnavailable.IntValue()
		isRefused := rapid.Bool().Draw(t, "is refused")
		for _, m := range l.members {
			m.refuses = isRefused
		}
		l.unstartable[1] = !isRefused
		if rapid.Bool().Draw(t, "the spec returns to the revision") {
			l.editImage("ok-0")
		} else {
			l.annotate(v1alpha1.AnnotationAbort, "2")
		}
		broken := map[string][]string{} // by stage
		for range 40 {
			l.deliverAll()
			before := l.decides()
			for _, e := range l.app.Status.Clusters {
				was, stage := before.Cluster(e.Name), l.members[e.Name].member.Labels["stage"]
				if isAvailable(was) && was.Revision == 2 && e.Revision == 1 {
					broken[stage] = append(broken[stage], e.Name)
				}
				if len(broken[stage]) > most {
					t.Fatalf("the rollback breaks %v in a stage, and %d may be:\n%s", broken[stage], most, toText(l.app.Status))
				}
			}
			l.advance(30 * time.Second)
		}
		l.repairAll()
		if !l.run(nil) || len(l.with(1)) != len(l.members) {
			t.Fatalf("the rollback does not go on when it can:\n%s", toText(l.app.Status))
		}
	})
}

// repairAll ends what keeps revisions from starting.
func (l *stagedLoop) repairAll() {
	clear(l.unstartable)
	for _, m := range l.members {
		m.isStuck, m.sick, m.refuses = false, false, false
	}
}

// After a failure, an edit and a retry change available clusters as maxUnavailable allows, and no
// cluster loses the template that is tried again.
func TestStages_keep_available_clusters_after_a_failure(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newSoakingFleet(t, 0)
		l.members[rapid.SampledFrom(l.names()).Draw(t, "fails")].sick = true
		caused := map[string]bool{}
		passTime := func(steps int) {
			for range steps {
				l.deliverAll()
				before := l.app.Status
				l.checkCaused(t, caused)
				l.checkKeepsTemplate(t, before)
				l.advance(20 * time.Second)
			}
		}
		passTime(rapid.IntRange(1, 30).Draw(t, "steps before"))
		for _, m := range l.members {
			m.sick = m.sick && rapid.Bool().Draw(t, "still fails")
		}
		if rapid.Bool().Draw(t, "retry") {
			l.annotate(v1alpha1.AnnotationRetry, fmt.Sprint(l.app.Status.Rollout.Revision))
		} else {
			l.editImage(rapid.SampledFrom([]string{"ok-1", "ok-2", "bad-1"}).Draw(t, "image"))
		}
		passTime(rapid.IntRange(5, 40).Draw(t, "steps after"))
	})
}

// checkKeepsTemplate checks that no available cluster that runs the template of the target gets
// another one in a rollout.
func (l *stagedLoop) checkKeepsTemplate(t *rapid.T, before v1alpha1.AppServiceStatus) {
	state := l.app.Status.Rollout
	if state.Phase != v1alpha1.RolloutProgressing {
		return
	}
	target := l.templates[state.Revision]
	for _, e := range l.app.Status.Clusters {
		was := before.Cluster(e.Name)
		if isAvailable(was) && l.templates[was.Revision] == target && l.templates[e.Revision] != target {
			t.Fatalf("%s loses the template of the target\nbefore:\n%s\nafter:\n%s", e.Name, toText(before), toText(l.app.Status))
		}
	}
}
