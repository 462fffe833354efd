package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

// A revision is stable only if pods were ready with it, and a stage is completed by such a cluster
// of its own, also if the AppService or an autoscaler runs no pods for a while. A stage without
// pods waits by name.
func TestStages_prove_nothing_without_pods(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		strategy := v1alpha1.Rollout{RolloutPace: paceOf(1, 0, 30*time.Second), ProgressDeadlineSeconds: new(int32(300))}
		if rapid.Bool().Draw(t, "two stages") {
			strategy.Stages = []v1alpha1.RolloutStage{stageOf("a")}
		}
		l := newProvenFleet(t, strategy, []string{"a", "b", "b", "a"}[:rapid.IntRange(1, 4).Draw(t, "clusters")]...)
		served := map[string]bool{} // REVISION, and REVISION/CLUSTER, for which pods were ready
		l.recordServed(served)
		for range rapid.IntRange(5, 40).Draw(t, "actions") {
			l.scaleToZero(t)
			l.deliverAll()
			l.recordServed(served)
			in, before := l.input(), l.app.Status
			l.planFor(in)
			after := l.app.Status
			if stable := after.Rollout.StableRevision; stable != before.Rollout.StableRevision && !served[fmt.Sprint(stable)] {
				t.Fatalf("revision %d is stable, and ran no pods\nbefore:\n%s\nafter:\n%s", stable, toText(before), toText(after))
			}
			l.checkServed(t, ruleStages(in), before.Rollout, served)
			l.advance(drawDuration(t, "seconds", 10, 30, 60))
		}
		l.checkWaits(t)
	})
}

// scaleToZero performs one random action.
func (l *stagedLoop) scaleToZero(t *rapid.T) {
	switch rapid.SampledFrom([]string{"time", "time", "time", "edit", "replicas", "autoscaler", "autoscaler", "promote"}).Draw(t, "action") {
	case "edit":
		l.editImage(rapid.SampledFrom([]string{"ok-1", "ok-2", "bad-1"}).Draw(t, "image"))
	case "replicas":
		n := rapid.SampledFrom([]int32{0, 2}).Draw(t, "replicas")
		l.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Replicas = &n })
	case "autoscaler":
		m := l.members[rapid.SampledFrom(l.names()).Draw(t, "member")]
		m.isAtZero = !m.isAtZero
	case "promote":
		l.annotate(v1alpha1.AnnotationPromote, fmt.Sprint(l.app.Status.Rollout.Revision))
	}
}

// recordServed records with which revisions pods are ready.
func (l *stagedLoop) recordServed(served map[string]bool) {
	for name, seen := range l.seen {
		if seen.Phase == v1alpha1.ClusterReady && seen.ReadyReplicas > 0 {
			revision := fmt.Sprint(l.members[name].runs)
			served[revision], served[revision+"/"+name] = true, true
		}
	}
}

// checkServed checks that pods were ready with the target in each stage that a rollout has
// completed.
func (l *stagedLoop) checkServed(t *rapid.T, stages []ruleStage, before v1alpha1.RolloutStatus, served map[string]bool) {
	state := l.app.Status.Rollout
	if before.Revision != state.Revision || before.StableRevision == state.Revision {
		return
	}
	for _, s := range stages {
		is := ruleStatus(state, s.spec.Name)
		if is.Phase != v1alpha1.StageCompleted || is.Promoted || ruleStatus(before, s.spec.Name).Phase == v1alpha1.StageCompleted {
			continue
		}
		if !slices.ContainsFunc(s.clusters, func(name string) bool { return served[fmt.Sprintf("%d/%s", state.Revision, name)] }) {
			t.Fatalf("stage %s is Completed, and no pods were ready in it:\n%s", s.spec.Name, toText(l.app.Status))
		}
	}
}

// checkWaits checks that a rollout that is not over waits by name, when nothing more happens.
func (l *stagedLoop) checkWaits(t *rapid.T) {
	if !l.run(nil) {
		t.Fatalf("the rollout does not come to rest:\n%s", toText(l.app.Status))
	}
	state := l.app.Status.Rollout
	isOver := !slices.ContainsFunc(state.Stages, func(s v1alpha1.RolloutStageStatus) bool {
		return s.Phase != v1alpha1.StageCompleted && s.Phase != v1alpha1.StageSkipped
	})
	if state.Phase == v1alpha1.RolloutProgressing && !isOver && l.decision.WaitingStage == "" {
		t.Fatalf("the rollout waits for nothing:\n%s", toText(l.app.Status))
	}
}

// Only time in which a process has observed a cluster without a break counts as minReadySeconds,
// also after the operator was away, and after the entry was lost with its slice.
func TestStages_count_only_observed_time(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		minReady := drawDuration(t, "minReady", 60, 300)
		l := newProvenFleet(t, v1alpha1.Rollout{RolloutPace: paceOf(1, 0, minReady)}, []string{"a", "a", "a"}[:rapid.IntRange(1, 3).Draw(t, "clusters")]...)
		l.editImage("ok-1")
		observed := map[string]time.Duration{} // for which a cluster has been seen to be Ready with revision 2
		for range rapid.IntRange(5, 40).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"time", "time", "time", "away", "slice"}).Draw(t, "action") {
			case "away":
				clear(l.seen)
				clear(observed)
				l.advance(drawDuration(t, "away for", 10, 400))
			case "slice":
				l.loseEntry(t, observed)
			}
			l.deliverAll()
			before := l.decides()
			if before.Rollout.Phase == v1alpha1.RolloutCompleted && before.Rollout.Revision == 2 {
				return
			}
			for _, e := range l.app.Status.Clusters {
				was := before.Cluster(e.Name)
				isNew := isAvailable(&e) && (was == nil || !isAvailable(was) || was.Revision != e.Revision)
				if e.Revision == 2 && isNew && observed[e.Name] < minReady {
					t.Fatalf("%s is available, and was observed for %v\nbefore:\n%s\nafter:\n%s", e.Name, observed[e.Name], toText(before), toText(l.app.Status))
				}
			}
			wait := drawDuration(t, "seconds", 10, 30, 60)
			for name, seen := range l.seen {
				if observed[name] += wait; seen.Phase != v1alpha1.ClusterReady || seen.Revision != 2 {
					delete(observed, name)
				}
			}
			l.advance(wait)
		}
	})
}

// loseEntry loses an entry with its slice. The workload is found on the cluster.
func (l *stagedLoop) loseEntry(t *rapid.T, observed map[string]time.Duration) {
	name := rapid.SampledFrom(l.names()).Draw(t, "entry")
	m := l.members[name]
	l.app = l.app.DeepCopy()
	l.app.Status.Clusters = slices.DeleteFunc(l.app.Status.Clusters, func(e v1alpha1.ClusterStatus) bool { return e.Name == name })
	found := Found
	found.Planned, found.Revision = 2, m.runs
	found.Replicas, found.ReadyReplicas = 2, l.seen[name].ReadyReplicas
	l.seen[name], l.seenSince[name] = found, l.now
	delete(observed, name)
	l.plan()
}
