package rollout_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// newScalingFleet returns a fleet whose members scale the pods, and in which a rollout has begun.
func newScalingFleet(t *rapid.T) *stagedLoop {
	pace := paceOf(rapid.Int32Range(1, 3).Draw(t, "maxUnavailable"), 0, drawDuration(t, "minReady", 0, 30, 60))
	strategy := v1alpha1.Rollout{RolloutPace: pace, ProgressDeadlineSeconds: new(int32(300))}
	l := newProvenFleet(t, strategy, slices.Repeat([]string{"a"}, rapid.IntRange(1, 5).Draw(t, "clusters"))...)
	l.editImage("ok-1")
	return l
}

// Pods that an autoscaler adds neither fail a revision nor hold up a stage, also if at no time all
// clusters are Ready.
func TestStages_pass_while_autoscalers_add_pods(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newScalingFleet(t)
		wasAvailable := map[string]bool{}
		names := l.names()
		isAlways, fromStart := rapid.Bool().Draw(t, "all members always add a pod"), rapid.Bool().Draw(t, "before they are available too")
		fromStart = fromStart && !isAlways // a cluster must be Ready once with the revision
		busy, left := "", time.Duration(0)
		const step = 10 * time.Second
		for end := l.now.Add(10*time.Minute + time.Duration(len(names))*2*time.Minute); l.now.Time.Before(end); l.advance(step) {
			if left -= step; left < 0 { // the load moves to another cluster
				busy, left = rapid.SampledFrom(names).Draw(t, "busy"), drawDuration(t, "load", 20, 120, 600)
			}
			for _, name := range names {
				isBusy := (name == busy || isAlways) && (fromStart || wasAvailable[name])
				l.members[name].scaleUp(isBusy, isAlways)
			}
			l.deliverAll()
			l.plan()
			for _, e := range l.app.Status.Clusters {
				wasAvailable[e.Name] = wasAvailable[e.Name] || e.Revision == 2 && isAvailable(&e)
			}
			if state := l.app.Status.Rollout; state.FailedRevision != 0 {
				t.Fatalf("the revision failed:\n%s", toText(l.app.Status))
			}
		}
		if state := l.app.Status.Rollout; state.Phase != v1alpha1.RolloutCompleted {
			t.Fatalf("the autoscalers hold up the rollout:\n%s", toText(l.app.Status))
		}
	})
}

// scaleUp makes the pods ready that the autoscaler of a member has added. If it is busy, it adds
// the next one when all are ready, or at the same time.
func (m *stagedMember) scaleUp(isBusy, isAlways bool) {
	isReady := m.adds == 0
	m.wants, m.adds = max(2, m.wants)+m.adds, 0
	if isBusy && (isReady || isAlways) {
		m.adds = 1
	}
}

// A cluster that was available is unavailable exactly while it has fewer ready pods than before,
// and fewer than are desired.
func TestStages_see_only_lost_pods_as_a_loss(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newScalingFleet(t)
		had := map[string]int32{} // the ready pods when a cluster was last Ready
		for range rapid.IntRange(10, 40).Draw(t, "steps") {
			l.scaleAny(t)
			l.deliverAll()
			before := l.decides()
			if l.app.Status.Rollout.Phase != v1alpha1.RolloutProgressing {
				return
			}
			for _, e := range l.app.Status.Clusters {
				l.checkLoss(t, before, &e, cmp.Or(had[e.Name], 2))
				isFirst := before.Cluster(e.Name).AvailableReplicas == 0 && e.AvailableReplicas > 0 // also while pods are added
				if isAvailable(&e) || isFirst {
					had[e.Name] = e.ReadyReplicas
				}
			}
			l.advance(drawDuration(t, "seconds", 10, 30, 70))
		}
	})
}

// scaleAny changes the pods of all members.
func (l *stagedLoop) scaleAny(t *rapid.T) {
	for _, name := range l.names() {
		m := l.members[name]
		m.wants = rapid.Int32Range(2, 4).Draw(t, "wants")
		m.adds = rapid.SampledFrom([]int32{0, 0, 1, 3}).Draw(t, "adds")
		m.loses = rapid.SampledFrom([]int32{0, 0, 0, 1, 2}).Draw(t, "loses")
		m.lags = rapid.IntRange(0, 4).Draw(t, "lags") == 0
	}
}

// checkLoss checks whether a cluster that had so many ready pods is unavailable after a decision.
func (l *stagedLoop) checkLoss(t *rapid.T, before v1alpha1.AppServiceStatus, e *v1alpha1.ClusterStatus, had int32) {
	was, seen := before.Cluster(e.Name), l.seen[e.Name]
	isAnswer := was.Revision == e.Revision && seen.Revision == e.Revision && e.ObservedGeneration >= e.Generation
	if !isAnswer || was.UnavailableSince != nil || was.AvailableReplicas == 0 {
		return
	}
	if isLost := seen.ReadyReplicas < min(had, seen.Replicas); isLost != (e.UnavailableSince != nil) {
		t.Fatalf("%s had %d ready pods, and has %d of %d\nbefore:\n%s\nafter:\n%s",
			e.Name, had, seen.ReadyReplicas, seen.Replicas, toText(before), toText(l.app.Status))
	}
}
