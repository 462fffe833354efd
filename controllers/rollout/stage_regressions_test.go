package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// newLimitedFleet returns a fleet on which everything is available, with the stage a of one cluster.
func newLimitedFleet(t *testing.T, clusters ...string) *stagedFleet {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "a", Limit: new(intstr.FromInt32(1))}}}
	for _, name := range clusters {
		w.join(name, "")
	}
	w.run(nil)
	if phase := w.app.Status.Rollout.Phase; phase != v1alpha1.RolloutCompleted {
		t.Fatalf("the first rollout is %s", phase)
	}
	return w
}

// rollOutTo rolls out the second revision until a number of clusters has it.
func (w *stagedFleet) rollOutTo(t *testing.T, clusters int) {
	t.Helper()
	for range 100 {
		if len(w.with(2)) >= clusters {
			return
		}
		w.plan()
		w.advance(20 * time.Second)
		w.deliverAll()
	}
	t.Fatalf("only %v have the second revision:\n%s", w.with(2), toText(w.app.Status))
}

// inStage returns the clusters of a stage.
func (w *stagedFleet) inStage(stage string) (names []string) {
	for name, of := range rollout.StagesOf(w.input()) {
		if of == stage {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// inStageA returns the cluster of the stage a.
func (w *stagedFleet) inStageA() string { return w.inStage("a")[0] }

// failInStageA gives a target that fails to the cluster of the stage a, and returns its name.
func (w *stagedFleet) failInStageA(t *testing.T) string {
	w.editImage("bad-1")
	w.plan()
	w.deliverAll() // the answer to the edit
	w.plan()
	names := w.with(2)
	if len(names) != 1 {
		t.Fatalf("clusters %v have the bad revision, want one", names)
	}
	return names[0]
}

// Clusters that join while the target fails, and that come before the one on which it failed, do not
// take its place. They are chosen for the next target.
func TestStage_keeps_the_cluster_on_which_the_target_failed(t *testing.T) {
	w := newLimitedFleet(t, "c01", "c02")
	failed := w.failInStageA(t)
	for i := range 8 {
		w.join(fmt.Sprintf("later-%d", i), "")
	}
	w.run(func() {
		if name := w.inStageA(); name != failed {
			t.Errorf("while it is %s, the stage has %s, want %s", w.app.Status.Rollout.Phase, name, failed)
		}
	})
	if phase := w.app.Status.Rollout.Phase; phase != v1alpha1.RolloutRolledBack {
		t.Fatalf("the phase is %s", phase)
	}
	w.editImage("ok-1")
	w.plan()
	if name := w.inStageA(); name == failed {
		t.Errorf("the next target has %s again: it keeps its place, or no later cluster comes before it", name)
	}
}

// A cluster that got an earlier target in the stage, and was away since, does not take the place of the
// one on which the target failed.
func TestStage_forgets_an_earlier_target_on_clusters_that_are_away(t *testing.T) {
	w := newLimitedFleet(t, "c01", "c02")
	away := w.inStageA()
	member := w.members[away]
	delete(w.members, away)
	w.run(nil)
	failed := w.failInStageA(t)
	w.run(nil)
	w.members[away] = member
	w.plan()
	if entry := w.app.Status.Cluster(away); entry.Phase == v1alpha1.ClusterDetached {
		t.Fatalf("%s is still detached", away)
	}
	if name := w.inStageA(); name != failed {
		t.Errorf("the stage has %s, want %s", name, failed)
	}
}

// Before a cluster has stopped its pods, or may stop them, it is known that it will prove nothing.
func TestStage_has_no_cluster_that_is_to_run_no_pods(t *testing.T) {
	for name, isPending := range map[string]bool{"the scale-down has begun": false, "the scale-down is pending": true} {
		t.Run(name, func(t *testing.T) {
			w := newLimitedFleet(t, "c01", "c02")
			before := w.inStageA()
			if isPending { // no edit scales the cluster down, so others must be ready first
				w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Overrides = withoutReplicas })
				w.run(nil)
			}
			w.members[before].member.Labels["size"] = "none"
			w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Image, spec.Overrides = "ok-1", withoutReplicas })
			if isPending {
				w.app.Generation--
				for other := range w.members {
					if other != before {
						w.members[other].sick = true
						w.deliver(other)
					}
				}
			}
			w.plan()
			entry := w.app.Status.Cluster(before)
			if entry.CurrentReplicas() == 0 || (entry.Replicas > 0) != isPending {
				t.Fatalf("%s is to run %d pods and runs %d", before, entry.Replicas, entry.CurrentReplicas())
			}
			if name := w.inStageA(); name == before {
				t.Errorf("the stage has %s, want the one that is to run pods", name)
			}
		})
	}
}

// After a restart, a Ready cluster is not a candidate until it was observed. A cluster without pods does
// not come before it.
func TestClusters_without_pods_come_last_after_a_restart(t *testing.T) {
	w := newStagedFleet()
	w.join("some", "")
	w.join("none", "").member.Labels["size"] = "none"
	w.app.Spec.Overrides = withoutReplicas
	for range 10 {
		if w.deliver("some"); len(w.with(1)) < 2 {
			w.plan()
			w.advance(w.decision.RecheckAfter)
		}
	}
	if state := w.app.Status.Rollout; len(w.with(1)) != 2 || state.StableRevision != 0 {
		t.Fatalf("clusters %v have the first revision, and %d is stable", w.with(1), state.StableRevision)
	}
	w.editImage("ok-1")
	w.plan()
	w.deliver("some") // the answer to the edit
	w.plan()
	if with := w.with(2); len(with) > 0 {
		t.Fatalf("clusters %v have the target, want none while the cluster without pods is updating", with)
	}
	w.restart()
	w.plan()
	if with := w.with(2); len(with) > 0 {
		t.Errorf("after a restart, clusters %v have the target", with)
	}
	w.run(nil)
	if with := w.with(2); len(with) != 2 {
		t.Errorf("in the end, clusters %v have the target", with)
	}
}

// A stage that waits for its turn again, because an earlier one got a cluster, is approved or promoted
// only while that is still asked for.
func TestStage_that_is_postponed_needs_its_requests(t *testing.T) {
	for _, annotation := range []string{v1alpha1.AnnotationApprove, v1alpha1.AnnotationPromote} {
		for _, isKept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s kept %t", annotation, isKept), func(t *testing.T) {
				w := newStagedFleet()
				second := v1alpha1.RolloutStage{Name: "b", Approval: v1alpha1.ApprovalRequired}
				w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("a"), second}}
				w.join("c01", "b").startup = time.Hour
				w.plan()
				w.annotate(annotation, "1/b")
				w.plan()
				if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StageProgressing {
					t.Fatalf("stage b is %s: it has not begun", b.Phase)
				}
				w.join("c02", "a")
				if !isKept {
					delete(w.app.Annotations, annotation)
				}
				for range 2 { // the first decision and each later one
					w.plan()
					if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StagePending || (b.Approved || b.Promoted) != isKept {
						t.Errorf("stage b is %s, approved %t and promoted %t, want it Pending and that to be %t", b.Phase, b.Approved, b.Promoted, isKept)
					}
				}
			})
		}
	}
}

// Clusters that are Ready, and not available yet, go back as maxUnavailable allows.
func TestReady_clusters_go_back_one_after_another(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{RolloutPace: paceOf(3, 0, time.Minute)}
	for _, name := range []string{"c01", "c02", "c03", "c04"} {
		w.join(name, "")
	}
	w.run(nil)
	w.editImage("ok-1")
	w.rollOutTo(t, 3) // the first is available, and then two are updating
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Image, spec.Rollout = "ok-0", &v1alpha1.Rollout{RolloutPace: paceOf(1, 0, time.Minute)}
	})
	most := 0
	w.run(func() {
		returning := 0
		for _, entry := range w.app.Status.Clusters {
			if entry.Returned && !isAvailable(&entry) {
				returning++
			}
		}
		most = max(most, returning)
	})
	if with := w.with(1); most != 1 || len(with) != 4 {
		t.Errorf("at most %d clusters went back at once, and %v in the end; want 1, and all", most, with)
	}
}

// Two clusters join at once after the rollout was completed. The first gets the revision, and the stage
// of the second one waits for approval, in the same decision.
func TestStage_after_a_new_cluster_waits_for_approval_at_once(t *testing.T) {
	w := newStagedFleet()
	second := stageOf("b", func(s *v1alpha1.RolloutStage) { s.Approval = v1alpha1.ApprovalRequired })
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("a"), second}}
	w.join("c01", "rest")
	w.run(nil)
	w.join("c02", "a")
	w.join("c03", "b")
	w.plan()
	state := w.app.Status.Rollout
	if a, b := ruleStatus(state, "a"), ruleStatus(state, "b"); a.Phase != v1alpha1.StageCompleted || b.Phase != v1alpha1.StageAwaitingApproval {
		t.Errorf("stage a is %s, and b is %s, want Completed and AwaitingApproval", a.Phase, b.Phase)
	}
}

// A cluster that was broken before says nothing about the stable revision when it goes back. The others
// go back although it stays broken.
func TestCluster_that_was_broken_before_does_not_hold_up_the_way_back(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("a")}, RolloutPace: paceOf(1, 0, 0)}
	for _, name := range []string{"c01", "c03", "c04", "c05"} {
		w.join(name, map[bool]string{true: "a"}[name == "c01"])
	}
	w.run(nil)
	w.join("c02", "a").refuses = true
	w.run(nil)
	w.editImage("ok-1")
	w.rollOutTo(t, 4)
	if entry := w.app.Status.Cluster("c02"); entry.Revision != 2 || !entry.Impaired {
		t.Fatalf("c02 has revision %d and is impaired: %t", entry.Revision, entry.Impaired)
	}
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Image, spec.Rollout = "ok-0", &v1alpha1.Rollout{Stages: spec.Rollout.Stages, RolloutPace: paceOf(1, 0, 5*time.Minute)}
	})
	w.run(nil)
	if state := w.app.Status.Rollout; len(w.with(1)) != 5 || state.Phase != v1alpha1.RolloutCompleted || len(state.ReturnFailedClusters) > 0 {
		t.Errorf("clusters %v have the stable revision, it is %s, and the stable revision fails on %v", w.with(1), state.Phase, state.ReturnFailedClusters)
	}
}

// Where pod security refuses the stable revision, a cluster keeps what it runs, and takes no vacancy.
func TestCluster_that_must_not_go_back_takes_no_vacancy(t *testing.T) {
	for i := range 2 {
		w := newStagedFleet()
		w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("a")}, RolloutPace: paceOf(1, 0, 0), OnFailure: v1alpha1.RolloutPause}
		for _, name := range []string{"c01", "c02", "c03"} {
			w.join(name, "a")
		}
		w.run(nil)
		w.editImage("ok-1")
		w.rollOutTo(t, 2)
		w.members[w.with(1)[0]].refuses = true
		w.run(nil)
		if state := w.app.Status.Rollout; state.Phase != v1alpha1.RolloutHalted {
			t.Fatalf("the phase is %s", state.Phase)
		}
		w.edit(func(spec *v1alpha1.AppServiceSpec) {
			spec.Image, spec.Rollout = "ok-2", spec.Rollout.DeepCopy()
			spec.Rollout.Stages[0].Approval = v1alpha1.ApprovalRequired
		})
		available := slices.DeleteFunc(w.with(2), func(name string) bool { return w.members[name].refuses })
		for range 20 {
			in := w.input()
			in.Refusals = stages.Refusals{1: {available[i]: {Violation: "host namespaces"}}}
			w.planFor(in)
			w.advance(20 * time.Second)
			w.deliverAll()
		}
		if with := w.with(2); len(with) != 1 || with[0] != available[i] {
			t.Errorf("clusters %v have the failed revision, want %s, which must not go back", with, available[i])
		}
	}
}

// An edit of the stages in the midst of a rollout gives no further cluster a target that cuts clusters
// off.
func TestStages_that_are_edited_keep_the_cluster_with_the_target(t *testing.T) {
	one := new(intstr.FromInt32(1))
	for name, edit := range map[string]func([]v1alpha1.RolloutStage) []v1alpha1.RolloutStage{
		"renamed": func(stages []v1alpha1.RolloutStage) []v1alpha1.RolloutStage {
			stages[0].Name += "a"
			return stages
		},
		"another one in front": func(stages []v1alpha1.RolloutStage) []v1alpha1.RolloutStage {
			return append([]v1alpha1.RolloutStage{{Name: fmt.Sprintf("front-%d", len(stages)), Limit: one}}, stages...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLimitedFleet(t, "c01", "c02", "c03")
			first := w.failInStageA(t)
			w.setReady(first, false)
			for range 5 {
				w.edit(func(spec *v1alpha1.AppServiceSpec) {
					spec.Rollout = spec.Rollout.DeepCopy()
					spec.Rollout.Stages = edit(spec.Rollout.Stages)
				})
				for range 5 {
					w.plan()
					w.advance(time.Minute)
					w.deliverAll()
				}
			}
			if with := w.with(2); len(with) != 1 {
				t.Errorf("clusters %v have the target, want %s", with, first)
			}
		})
	}
}

// A cluster that got the target in a stage stays in it when an earlier stage grows, because clusters
// join.
func TestStage_that_grows_takes_no_cluster_of_another_stage(t *testing.T) {
	half, three := intstr.FromString("50%"), intstr.FromInt32(3)
	for _, joining := range []string{"d", "e", "f", "g"} { // each has other ranks
		w := newStagedFleet()
		w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "a", Limit: &half}, {Name: "b", Limit: &three, SoakSeconds: new(int32(86400))}}}
		for i := range 6 {
			w.join(fmt.Sprintf("c%02d", i), "")
		}
		w.run(nil)
		w.editImage("ok-1")
		w.rollOutTo(t, 6)
		before := w.inStage("b")
		for i := range 3 {
			w.join(fmt.Sprintf("%s%02d", joining, i), "")
			w.plan()
			w.deliverAll()
			if after := w.inStage("b"); !slices.Equal(before, after) {
				t.Fatalf("stage b has %v, and had %v", after, before)
			}
		}
	}
}

// Clusters that are down count in maxUnavailable when others go back.
func TestClusters_that_are_down_count_when_others_go_back(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{RolloutPace: paceOf(10, 0, time.Minute)}
	for i := range 10 {
		w.join(fmt.Sprintf("c%02d", i), "")
	}
	w.run(nil)
	w.editImage("ok-1")
	w.run(nil)
	w.app.Status.Rollout.StableRevision, w.app.Status.Rollout.Phase = 1, v1alpha1.RolloutProgressing
	for i := range w.app.Status.Clusters { // as after a restore of the hub
		w.app.Status.Clusters[i].UnavailableSince = &w.now
	}
	for _, name := range []string{"c00", "c01", "c02"} {
		w.setReady(name, false)
	}
	w.deliverAll()
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Image, spec.Rollout = "ok-0", &v1alpha1.Rollout{RolloutPace: paceOf(2, 0, time.Minute)}
	})
	w.plan()
	if with := w.with(1); len(with) != 4 {
		t.Errorf("%v go back at once, want the three that are down and one of the others", with)
	}
}

// A rollback that was halted goes on, and takes into account at once which clusters have lost pods
// meanwhile.
func TestRollback_that_goes_on_counts_clusters_that_lost_pods(t *testing.T) {
	w := newStagedFleet()
	for _, name := range []string{"c01", "c02", "c03"} {
		w.join(name, "")
	}
	w.run(nil)
	w.editImage("bad-1")
	w.run(nil)
	state := &w.app.Status.Rollout
	if state.Phase != v1alpha1.RolloutRolledBack {
		t.Fatalf("the phase is %s", state.Phase)
	}
	state.Phase, state.ReturnFailedClusters = v1alpha1.RolloutHalted, []string{"c02"} // which is available again
	w.app.Status.Cluster("c03").UnavailableSince = &w.now
	w.members["c01"].sick, w.members["c03"].sick = true, true
	w.deliverAll()
	if w.plan(); w.app.Status.Rollout.Phase != v1alpha1.RolloutRollingBack || w.app.Status.Cluster("c01").UnavailableSince == nil {
		t.Errorf("the phase is %s, and c01 is unavailable since %s", w.app.Status.Rollout.Phase, timeOf(w.app.Status.Cluster("c01").UnavailableSince))
	}
}

// A target is aborted before the first decision about it, and the operator dies after it has written the
// status, and not the entries. The stages of the entries are those of the target before.
func TestStages_of_an_earlier_target_are_forgotten_after_a_crash(t *testing.T) {
	w := newLimitedFleet(t, "c01", "c02")
	failed := w.failInStageA(t)
	w.run(nil)
	before := w.app.Status.Clusters
	if entry := w.app.Status.Cluster(failed); entry.Stage != "a" || entry.StageRevision != 2 {
		t.Fatalf("%s has the stage %q of revision %d", failed, entry.Stage, entry.StageRevision)
	}
	w.editImage("ok-1")
	w.annotate(v1alpha1.AnnotationAbort, "3")
	w.plan()
	w.app.Status.Clusters = before
	w.plan()
	if entry := w.app.Status.Cluster(failed); entry.Stage != "" || w.app.Status.Rollout.FailedRevision != 3 {
		t.Errorf("%s has the stage %q of revision %d, and revision %d has failed", failed, entry.Stage, entry.StageRevision, w.app.Status.Rollout.FailedRevision)
	}
}

// An entry that an older version has written has a stage without its revision.
func TestStage_of_an_older_version_is_kept_for_the_target(t *testing.T) {
	w := newLimitedFleet(t, "c01", "c02")
	name := w.failInStageA(t)
	w.app.Status.Cluster(name).StageRevision = 0
	w.plan()
	if entry := w.app.Status.Cluster(name); entry.Stage != "a" || entry.StageRevision != 2 {
		t.Errorf("%s has the stage %q of revision %d", name, entry.Stage, entry.StageRevision)
	}
}

// All clusters leave a stage that has begun, and an edit makes it need approval. Then it waits for
// approval when they are back.
func TestStage_that_was_left_needs_an_approval_that_is_asked_for_since(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("b")}}
	w.join("c01", "rest")
	w.join("c02", "b")
	w.run(nil)
	w.editImage("ok-1")
	w.plan()
	w.members["c02"].member.Labels["stage"] = "rest"
	w.plan()
	if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StageProgressing || b.Clusters != 0 {
		t.Fatalf("stage b is %s with %d clusters", b.Phase, b.Clusters)
	}
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Rollout = spec.Rollout.DeepCopy()
		spec.Rollout.Stages[0].Approval = v1alpha1.ApprovalRequired
	})
	w.plan()
	w.members["c02"].member.Labels["stage"] = "b"
	w.run(nil)
	if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StageAwaitingApproval || len(w.with(2)) > 0 {
		t.Errorf("stage b is %s, and clusters %v have the target", b.Phase, w.with(2))
	}
	w.annotate(v1alpha1.AnnotationApprove, "2/b")
	w.run(nil)
	if phase := w.app.Status.Rollout.Phase; phase != v1alpha1.RolloutCompleted {
		t.Errorf("after the approval, the rollout is %s", phase)
	}
}

// Pod security refuses the stable revision on a cluster that cannot be reached now. It takes no vacancy
// from those that go back.
func TestCluster_that_is_lost_and_must_not_go_back_takes_no_vacancy(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{RolloutPace: paceOf(1, 0, 0)}
	for _, name := range []string{"c01", "c02", "c03"} {
		w.join(name, "")
	}
	w.run(nil)
	w.editImage("ok-1")
	w.rollOutTo(t, 2)
	refused := w.with(2)[0]
	for range 10 {
		w.setReady(refused, false)
		w.annotate(v1alpha1.AnnotationAbort, "2")
		in := w.input()
		in.Refusals = stages.Refusals{1: {refused: {Violation: "host namespaces"}}}
		w.planFor(in)
		w.advance(time.Minute)
		w.deliverAll()
	}
	if with := w.with(1); len(with) != 2 {
		t.Errorf("clusters %v have the stable revision, want all but %s", with, refused)
	}
}

// A stage that all clusters had left loses its approval by an edit of the stages: it may get other
// clusters then.
func TestStage_that_was_left_loses_its_approval_by_an_edit(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("b", func(s *v1alpha1.RolloutStage) { s.Approval = v1alpha1.ApprovalRequired })}}
	w.join("c01", "rest")
	w.join("c02", "b")
	w.plan()
	w.annotate(v1alpha1.AnnotationApprove, "1/b")
	w.run(nil)
	w.editImage("ok-1")
	w.plan()
	w.annotate(v1alpha1.AnnotationApprove, "2/b")
	w.plan()
	w.members["c02"].member.Labels["stage"] = "other"
	w.plan()
	if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StageProgressing || b.Clusters != 0 {
		t.Fatalf("stage b is %s with %d clusters", b.Phase, b.Clusters)
	}
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Rollout = spec.Rollout.DeepCopy()
		spec.Rollout.Stages[0].ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": "new"}}
	})
	w.plan()
	w.members["c02"].member.Labels["stage"] = "new"
	w.run(nil)
	if with := w.with(2); len(with) > 0 {
		t.Errorf("clusters %v have the target without an approval since the edit", with)
	}
}

// An edit makes all clusters unanswered for a moment. A cluster that was broken for long does not get the
// target meanwhile: it is the last one.
func TestCluster_that_is_broken_for_long_is_the_last_one(t *testing.T) {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{RolloutPace: paceOf(1, 0, 0), ProgressDeadlineSeconds: new(int32(60))}
	for _, name := range []string{"c01", "c02", "c03"} {
		w.join(name, "")
	}
	w.run(nil)
	w.join("broken", "").refuses = true
	w.run(nil)
	w.advance(time.Hour)
	w.deliverAll()
	w.plan()
	w.editImage("ok-1")
	for range 3 {
		w.plan()
		if len(w.with(2)) > 1 || w.app.Status.Cluster("broken").Revision == 2 {
			t.Fatalf("clusters %v have the target", w.with(2))
		}
		w.advance(time.Second)
		w.deliverAll()
	}
	w.run(nil)
	if w.app.Status.Cluster("broken").Revision != 2 {
		t.Error("in the end, the broken cluster does not have the target")
	}
}

// A stage that has begun with an approval goes on when other stages are edited, while the approval is
// still there.
func TestStage_that_has_begun_keeps_its_approval_over_an_edit_of_others(t *testing.T) {
	w := newStagedFleet()
	needsApproval := func(s *v1alpha1.RolloutStage) { s.Approval = v1alpha1.ApprovalRequired }
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("b", needsApproval), stageOf("c", needsApproval)}}
	w.join("c01", "b").startup = time.Hour
	w.join("c02", "c")
	w.plan()
	w.annotate(v1alpha1.AnnotationApprove, "1/b,1/c")
	w.plan()
	if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StageProgressing {
		t.Fatalf("stage b is %s", b.Phase)
	}
	w.edit(func(spec *v1alpha1.AppServiceSpec) {
		spec.Rollout = spec.Rollout.DeepCopy()
		spec.Rollout.Stages[1].ClusterSelector = &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"stage": "other"}}
	})
	for range 2 {
		w.plan()
		b, c := ruleStatus(w.app.Status.Rollout, "b"), ruleStatus(w.app.Status.Rollout, "c")
		if b.Phase != v1alpha1.StageProgressing || !b.Approved || b.ApprovalRefused || c.Approved || !c.ApprovalRefused {
			t.Errorf("stage b is %s, approved %t and refused %t, and c approved %t and refused %t", b.Phase, b.Approved, b.ApprovalRefused, c.Approved, c.ApprovalRefused)
		}
	}
}

// A retry that was set before the failure is refused. It does not count later, when the stages are removed:
// the failed template would reach all clusters at once.
func TestRefused_retry_does_not_count_when_the_stages_are_removed(t *testing.T) {
	s := newScenario(t).edited("bad").annotated(v1alpha1.AnnotationRetry, "2").settles("RolledBack 2, stable 1: canary Progressing 0/2, world Pending 0/3")
	s.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Rollout = nil })
	s.passes(time.Minute)
	if s.app.Status.Rollout.Revision != 2 || len(s.with(1)) != len(s.members) {
		t.Errorf("%s, on %s", s.summary(), s.revisions())
	}
}
