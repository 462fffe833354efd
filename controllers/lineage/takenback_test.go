package lineage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// staged makes an edit reach east first, where it soaks. Then west waits for approval.
func staged(soak int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) {
		app.Spec.Rollout = &v1alpha1.Rollout{
			RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(0))},
			Stages: []v1alpha1.RolloutStage{
				{Name: "canary", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}, SoakSeconds: &soak},
				{Name: "world", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"west"}}, Approval: v1alpha1.ApprovalRequired},
			},
		}
	}
}

// newStagedFleet returns a fleet with web:1 on all clusters, in which web:2 has reached east.
func newStagedFleet(t *testing.T, soak int32) *fleet {
	t.Helper()
	f := newFleet(t, withImage("web:1", 2))
	f.waitForReady("east", "west")
	f.edit(staged(soak))
	f.waitForRolledOut(v1alpha1.ReasonCompleted)
	f.edit(withImage("web:2", 2))
	f.waitForWorkload("2 × web:2", "east")
	return f
}

// endSoak makes the first stage have begun an hour ago.
func (f *fleet) endSoak() {
	f.Helper()
	f.read()
	since := &f.app.Status.Rollout.Stages[0].Since
	since.Time = since.Add(-time.Hour)
	f.must(f.hub.Status().Update(f.Context(), f.app))
}

// request sets an annotation.
func (f *fleet) request(annotation, value string) {
	f.Helper()
	f.edit(func(app *v1alpha1.AppService) {
		if app.Annotations == nil {
			app.Annotations = map[string]string{}
		}
		app.Annotations[annotation] = value
	})
}

// waitForRolledOut waits until RolledOut has a reason, and returns its message. The members start
// all pods meanwhile.
func (f *fleet) waitForRolledOut(reason string) (message string) {
	f.Helper()
	f.eventually("RolledOut to be "+reason, func() error {
		for name := range f.members {
			if got, _ := f.workload(name); got != "nothing" {
				f.rollOut(name)
			}
		}
		f.read()
		condition := meta.FindStatusCondition(f.app.Status.Conditions, v1alpha1.ConditionRolledOut)
		if condition == nil || condition.Reason != reason {
			return fmt.Errorf("it is %+v", condition)
		}
		message = condition.Message
		return nil
	})
	return message
}

// expectRevisions fails the test if the entries do not have these revisions.
func (f *fleet) expectRevisions(want map[string]int64) {
	f.Helper()
	f.read()
	for name, revision := range want {
		if entry := f.app.Status.Cluster(name); entry == nil || entry.Revision != revision {
			f.Errorf("the entry of %s is %+v, want revision %d", name, entry, revision)
		}
	}
}

// expectNoApply fails the test if the operator has written the workload of a member since its start.
func (f *fleet) expectNoApply(name string) {
	f.Helper()
	if f.operator.sent[name].has("PATCH", "deployments/web") {
		f.Errorf("the Deployment on %s was written", name)
	}
}

// The approval was lost, and west runs the approved revision. It keeps that.
func TestRestored_hub_does_not_take_back_what_was_approved(t *testing.T) {
	t.Parallel()
	f := newStagedFleet(t, 0)
	f.waitForRolledOut(v1alpha1.ReasonAwaitingApproval)
	old := f.backup()
	f.request(v1alpha1.AnnotationApprove, "2/world")
	f.waitForRolledOut(v1alpha1.ReasonCompleted)
	f.waitForWorkload("2 × web:2", "east", "west")
	f.restore(old)
	f.start()
	f.eventually("west to have the revision that it runs", func() error {
		f.read()
		if entry := f.app.Status.Cluster("west"); entry.Revision != 2 || entry.Phase != v1alpha1.ClusterReady {
			runs, _ := f.workload("west")
			return fmt.Errorf("it runs %s, and the entry is %+v", runs, entry)
		}
		return nil
	})
	f.waitForRolledOut(v1alpha1.ReasonAwaitingApproval)
	f.waitForWorkload("2 × web:2", "east", "west")
	f.expectNoApply("west")
	f.request(v1alpha1.AnnotationApprove, "2/world")
	f.waitForRolledOut(v1alpha1.ReasonCompleted)
	f.expectNoApply("west")
}

// The abort was lost, and east runs the stable revision again. The revision that was aborted goes
// nowhere.
func TestRestored_hub_does_not_continue_what_was_aborted(t *testing.T) {
	t.Parallel()
	f := newStagedFleet(t, 600)
	f.edit(func(app *v1alpha1.AppService) { app.Spec.Rollout.Stages[1].Approval = "" })
	f.waitForRolledOut(v1alpha1.ReasonSoaking)
	old := f.backup()
	f.request(v1alpha1.AnnotationAbort, "2")
	f.waitForRolledOut(v1alpha1.ReasonRolledBack)
	f.waitForWorkload("2 × web:1", "east", "west")
	f.restore(old)
	f.endSoak()
	f.start()
	message := f.waitForRolledOut(v1alpha1.ReasonRolloutHalted)
	if !strings.Contains(message, "revision 2 was taken back on east") || !strings.Contains(message, v1alpha1.AnnotationAbort+"=2") {
		t.Error("the message is", message)
	}
	f.expectRevisions(map[string]int64{"east": 1, "west": 1})
	f.expectNoApply("east")
	f.expectNoApply("west")
	f.waitForWorkload("2 × web:1", "east", "west")
	f.request(v1alpha1.AnnotationAbort, "2")
	f.waitForRolledOut(v1alpha1.ReasonRolledBack)
	f.waitForWorkload("2 × web:1", "east", "west")
	f.expectNoApply("east")
}
