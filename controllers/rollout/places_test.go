package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// newLimitedFleet returns a fleet with a stage of one cluster, on which everything is available.
func newLimitedFleet(clusters ...string) *stagedFleet {
	w := newStagedFleet()
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "a", Limit: new(intstr.FromInt32(1))}}}
	for _, name := range clusters {
		w.join(name, "")
	}
	w.run(nil)
	return w
}

// chosen returns the cluster of the stage a.
func (w *stagedFleet) chosen() string {
	for name, stage := range rollout.StagesOf(w.input()) {
		if stage == "a" {
			return name
		}
	}
	return ""
}

// Clusters that join while the target fails, and that would have been chosen, do not take the place of
// the one on which it failed.
func TestStage_keeps_the_cluster_on_which_the_target_failed(t *testing.T) {
	w := newLimitedFleet("c01", "c02")
	w.editImage("bad-1")
	w.plan()
	w.deliverAll() // the answer to the edit
	w.plan()
	failed := w.with(2)
	if len(failed) != 1 {
		t.Fatalf("clusters %v have the bad revision, want one", failed)
	}
	for i := range 8 {
		w.join(fmt.Sprintf("later-%d", i), "")
	}
	isBack := func() bool { return w.app.Status.Rollout.Phase == v1alpha1.RolloutRolledBack }
	w.run(func() {
		if chosen := w.chosen(); chosen != failed[0] && !isBack() {
			t.Errorf("while it is %s, the stage has %s, want %s", w.app.Status.Rollout.Phase, chosen, failed[0])
		}
	})
	if !isBack() {
		t.Fatalf("the phase is %s", w.app.Status.Rollout.Phase)
	}
	w.editImage("ok-1")
	w.plan()
	if chosen := w.chosen(); chosen == failed[0] {
		t.Errorf("for the next target, the stage has %s: no later cluster comes before it, so the test shows nothing", chosen)
	}
}

// Before a cluster has stopped its pods, it is known that it will prove nothing.
func TestStage_has_no_cluster_that_is_to_run_no_pods(t *testing.T) {
	w := newLimitedFleet("c01", "c02")
	none := w.chosen()
	w.members[none].member.Labels["size"] = "none"
	w.edit(func(spec *v1alpha1.AppServiceSpec) { spec.Image, spec.Overrides = "ok-1", withoutReplicas })
	w.plan()
	if entry := w.app.Status.Cluster(none); entry.Replicas != 0 || entry.CurrentReplicas() == 0 {
		t.Fatalf("%s is to run %d pods and runs %d, want 0 and some", none, entry.Replicas, entry.CurrentReplicas())
	}
	if chosen := w.chosen(); chosen == none {
		t.Errorf("the stage has %s, want the one that is to run pods", chosen)
	}
}

// After a restart, a Ready cluster is not a candidate until it was observed. A cluster without pods does
// not come before it.
func TestClusters_without_pods_come_last_after_a_restart(t *testing.T) {
	w := newStagedFleet()
	w.join("some", "")
	w.join("none", "").member.Labels["size"] = "none"
	w.app.Spec.Overrides = withoutReplicas
	for !slices.Contains(w.with(1), "none") {
		w.deliver("some")
		w.plan()
		w.advance(w.decision.RecheckAfter)
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

// An approval that is no longer there when a stage waits for its turn again does not count for it.
func TestStage_that_is_postponed_needs_its_approval_again(t *testing.T) {
	w := newStagedFleet()
	approved := v1alpha1.RolloutStage{Name: "b", Approval: v1alpha1.ApprovalRequired}
	w.app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stageOf("a"), approved}}
	w.join("c01", "b")
	w.plan()
	w.annotate(v1alpha1.AnnotationApprove, "1/b")
	w.plan()
	if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StageProgressing || !b.Approved {
		t.Fatalf("stage b is %s, and approved %t: it has not begun", b.Phase, b.Approved)
	}
	w.join("c02", "a")
	delete(w.app.Annotations, v1alpha1.AnnotationApprove)
	for range 2 { // the first decision and each later one
		w.plan()
		if b := ruleStatus(w.app.Status.Rollout, "b"); b.Phase != v1alpha1.StagePending || b.Approved {
			t.Errorf("stage b is %s, and approved %t, want it Pending and not approved", b.Phase, b.Approved)
		}
	}
}
