package rollout_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// A revision that does not start fails when its cluster has been observed for the progress
// deadline, however often the link to the cluster flaps: not before, and not later.
func TestStages_decide_within_the_deadline(t *testing.T) {
	const deadline = 5 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		strategy := v1alpha1.Rollout{RolloutPace: paceOf(1, 0, time.Minute), ProgressDeadlineSeconds: new(int32(deadline / time.Second))}
		l := newProvenFleet(t, strategy, []string{"a", "a", "a"}[:rapid.IntRange(1, 3).Draw(t, "clusters")]...)
		l.editImage("bad-1")
		l.plan()
		l.deliverAll()
		l.plan()
		name := l.with(2)[0]
		observed := time.Duration(0)
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			l.deliverAll()
			l.plan()
			phase := l.app.Status.Rollout.Phase
			isObserved := l.members[name].member.IsReady()
			switch {
			case observed < deadline && phase != v1alpha1.RolloutProgressing:
				t.Fatalf("after %v, in which the cluster was observed, the rollout is %s:\n%s", observed, phase, toText(l.app.Status))
			case observed >= deadline && isObserved && phase == v1alpha1.RolloutProgressing:
				t.Fatalf("the cluster was observed for %v, and the rollout is %s:\n%s", observed, phase, toText(l.app.Status))
			case phase != v1alpha1.RolloutProgressing:
				return
			}
			if rapid.IntRange(0, 2).Draw(t, "link changes") == 0 {
				l.setReady(name, !isObserved)
				l.deliverAll()
				l.plan()
			}
			wait := drawDuration(t, "seconds", 5, 20, 60, 100)
			if l.members[name].member.IsReady() {
				observed += wait
			}
			l.advance(wait)
		}
	})
}
