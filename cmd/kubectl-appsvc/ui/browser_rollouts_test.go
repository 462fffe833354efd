package ui

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// evil is a text that an object may have. As HTML, it would run a script; on a terminal, it would set the
// title of the window.
const evil = "<img src=x onerror=window.wasRun=true>\x1b]0;evil\x07"

// createRollouts creates applications whose rollouts soak, failed, and have texts that are HTML.
func createRollouts(t *testing.T) {
	t.Helper()
	now := metav1.Now()
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d).Truncate(time.Second)) }
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "rollouts"}}
	if err := hub.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	soak := int32(1200)
	stages := []v1alpha1.RolloutStage{{Name: "canary", SoakSeconds: &soak}, {Name: "eu", Approval: v1alpha1.ApprovalRequired}}
	add := func(name string, state v1alpha1.RolloutStatus) *v1alpha1.AppService {
		app := newApp("rollouts", name, newEntry("east", "Ready"), newEntry("west", "Ready"))
		app.Spec.Image, app.Spec.Rollout = "registry.example/shop/"+name+":1.8", &v1alpha1.Rollout{Stages: stages}
		state.Revision, state.StableRevision = 3, 2
		app.Status.Clusters[0].Revision, app.Status.Clusters[1].Revision = 3, 2
		if state.Phase == v1alpha1.RolloutRolledBack {
			app.Status.Clusters[0].Revision = 2
		}
		app.Status.Rollout = state
		app.Status.Summary = v1alpha1.ClusterSummary{Clusters: 2, Ready: 2, Display: "2/2", Replicas: 6, ReadyReplicas: 6}
		create(t, app)
		storeRevision(t, app, 1, func(spec *v1alpha1.AppServiceSpec) { spec.Image = "registry.example/shop/" + name + ":1.7" })
		storeRevision(t, app, 2, func(spec *v1alpha1.AppServiceSpec) {
			spec.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}
			if name == "hostile" {
				spec.Env[0].Value = evil
			}
			spec.Image = "registry.example/shop/" + name + ":1.7"
		})
		storeRevision(t, app, 3, func(*v1alpha1.AppServiceSpec) {})
		return app
	}
	soaking := add("soaking", v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutProgressing, Since: new(ago(10 * time.Minute)), Stages: []v1alpha1.RolloutStageStatus{
		{Name: "canary", Phase: v1alpha1.StageSoaking, Since: ago(5 * time.Minute), Clusters: 1, UpToDate: 1, Available: 1},
		{Name: "eu", Phase: v1alpha1.StagePending, Since: ago(10 * time.Minute), Clusters: 1}}})
	record(t, soaking, 1, "RolloutStarted", "", "revision 3 is to replace revision 2", ago(10*time.Minute))
	record(t, soaking, 2, "StageStarted", "canary", "revision 3, stage canary: the rollout begins on 1 cluster", ago(9*time.Minute))
	failed := v1alpha1.RolloutStatus{
		Phase: v1alpha1.RolloutRolledBack, Since: new(ago(time.Minute)), FailedRevision: 3, FailedStage: "eu", FailedClusters: []string{"west"}, FailedReason: "CrashLoopBackOff",
		Stages: []v1alpha1.RolloutStageStatus{
			{Name: "canary", Phase: v1alpha1.StageCompleted, Since: ago(8 * time.Minute), Clusters: 1},
			{Name: "eu", Phase: v1alpha1.StageProgressing, Since: ago(7 * time.Minute), Clusters: 1},
			{Name: "(rest)", Phase: v1alpha1.StagePending, Since: ago(10 * time.Minute), Clusters: 1}}}
	app := add("failed", failed)
	record(t, app, 1, "StageStarted", "canary", "revision 3, stage canary: the rollout begins on 1 cluster", ago(9*time.Minute))
	record(t, app, 2, "ApprovalNeeded", "eu", "revision 3 waits for approval of stage eu (1 cluster): annotate the AppService with fleetwright.dev/approve=3/eu", ago(8*time.Minute))
	record(t, app, 3, "RolloutFailed", "eu", "revision 3 failed in stage eu (west: CrashLoopBackOff); west says: exited with code 132", ago(3*time.Minute))
	record(t, app, 4, "RollingBack", "", "2 of 2 clusters return from revision 3 to 2: those that are not Ready at once, the others as maxUnavailable of their stage allows", ago(2*time.Minute))
	add("forgotten", failed)
	failed.FailedReason, failed.FailedClusters = evil, []string{evil}
	app = add("hostile", failed)
	record(t, app, 1, "RolloutStarted", "", "revision 3 is to replace "+evil, ago(10*time.Minute))
	record(t, app, 2, "StageStarted", "canary", "revision 3, stage canary: "+evil, ago(9*time.Minute))
}

// storeRevision creates the ControllerRevision of a revision whose template differs from the spec.
func storeRevision(t *testing.T, app *v1alpha1.AppService, number int64, change func(*v1alpha1.AppServiceSpec)) {
	t.Helper()
	changed := app.DeepCopy()
	change(&changed.Spec)
	stored, err := revision.New(changed, number, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	create(t, stored)
}

// record creates an event about a step of a rollout, as the operator does.
func record(t *testing.T, app *v1alpha1.AppService, number int, reason, stage, message string, at metav1.Time) {
	t.Helper()
	action := "Plan"
	if stage != "" {
		action += " stage " + stage
	}
	create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: app.Namespace, Name: fmt.Sprintf("%s.%d", app.Name, number)},
		InvolvedObject: corev1.ObjectReference{Kind: "AppService", Namespace: app.Namespace, Name: app.Name, UID: app.UID},
		Type:           corev1.EventTypeNormal, Reason: reason, Message: message, Action: action, EventTime: metav1.NewMicroTime(at.Time),
		ReportingController: "fleetwright", ReportingInstance: "test",
	})
}
