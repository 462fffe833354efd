package rollout_test

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// After the status was lost in a rollout, and all members have reported, the stable revision is the
// one that most clusters run. Of two that are equally frequent it is the lower one, because a
// rollout may not have proven the other one.
func TestStages_return_to_the_revision_of_most_clusters_after_a_lost_status(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newSoakingFleet(t, 0)
		l.loseStatus()
		l.editImage("ok-2")
		l.plan()
		want := int64(1)
		if len(l.with(2)) > len(l.with(1)) {
			want = 2
		}
		if state := l.app.Status.Rollout; state.StableRevision != want {
			t.Fatalf("revision %d is stable, want %d:\n%s", state.StableRevision, want, toText(l.app.Status))
		}
	})
}

// Until all members have reported, one after the other, no revision is the target or the stable one, and
// each cluster keeps what it runs.
func TestStages_are_frozen_after_a_lost_status_until_all_members_have_reported(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newSoakingFleet(t, 0)
		l.loseStatus()
		l.app.Finalizers = []string{v1alpha1.Finalizer}
		l.editImage("ok-2")
		reports := maps.Clone(l.seen)
		clear(l.seen)
		for i, name := range rapid.Permutation(l.names()).Draw(t, "order of the reports") {
			l.seen[name], l.seenSince[name] = reports[name], l.now
			l.plan()
			state := l.app.Status.Rollout
			if isFrozen := state.Revision == 0 && state.StableRevision == 0; isFrozen != (i+1 < len(reports)) {
				t.Fatalf("%d of %d members have reported, and revisions are frozen: %t\n%s", i+1, len(reports), isFrozen, toText(l.app.Status))
			}
			for _, e := range l.app.Status.Clusters {
				if e.Revision != 0 && e.Revision != l.members[e.Name].runs && state.Revision == 0 {
					t.Fatalf("%s runs revision %d:\n%s", e.Name, l.members[e.Name].runs, toText(l.app.Status))
				}
			}
			l.advance(time.Second)
		}
	})
}

// loseStatus loses the status. Each member reports what it runs.
func (l *stagedLoop) loseStatus() {
	l.deliverAll()
	l.app = l.app.DeepCopy()
	l.app.Status = v1alpha1.AppServiceStatus{}
	for name, m := range l.members {
		found := Found
		found.Planned, found.Revision = 2, m.runs
		found.Replicas, found.ReadyReplicas = 2, l.seen[name].ReadyReplicas
		l.seen[name], l.seenSince[name] = found, l.now
	}
}
