package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

func TestByAttention(t *testing.T) {
	app := func(name, namespace, status string) *v1alpha1.AppService {
		return appFrom(t, "{metadata: {name: "+name+", namespace: "+namespace+"}, spec: {image: nginx}, status: {"+status+"}}")
	}
	ready := func(status string) string {
		return `conditions: [{type: Ready, status: "` + status + `", reason: R, message: "", lastTransitionTime: "2026-01-02T11:50:00Z"}]`
	}
	sorted := view.ByAttention([]*v1alpha1.AppService{
		app("ready", "b", ready("True")),
		app("ready", "a", ready("True")),
		app("progressing", "a", ready("False")),
		app("unknown", "a", ready("False")+", summary: {unknown: 1}"),
		app("new", "a", ""),
		appFrom(t, "{metadata: {name: edited, namespace: a, generation: 2}, spec: {image: nginx}, status: {observedGeneration: 1, "+ready("True")+"}}"),
		app("waiting", "a", ready("False")+", rollout: {revision: 2, phase: Progressing, stages: [{name: eu, phase: AwaitingApproval}]}"),
		app("failing", "z", ready("False")+", summary: {failed: 1, unknown: 9}"),
		app("rolled-back", "a", ready("False")+", rollout: {revision: 2, phase: RolledBack}"),
	})
	var names []string
	for _, app := range sorted {
		names = append(names, app.Namespace+"/"+app.Name)
	}
	want := []string{"a/rolled-back", "z/failing", "a/waiting", "a/edited", "a/new", "a/unknown", "a/progressing", "a/ready", "b/ready"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRowOf_says_nothing_of_an_edit_that_is_not_processed(t *testing.T) {
	const waiting = `{metadata: {name: web, namespace: a, generation: 2}, spec: {image: nginx}, status: {observedGeneration: %d,
		conditions: [{type: Ready, status: "False", reason: AwaitingApproval, message: "", lastTransitionTime: "2026-01-02T11:50:00Z"}],
		rollout: {revision: 2, phase: Progressing, stages: [{name: eu, phase: AwaitingApproval}]}}}`
	for generation, want := range map[int]view.Row{
		1: {Status: view.NotProcessed},
		2: {Status: "AwaitingApproval", Next: "kubectl appsvc rollout approve web -n a --stage eu --revision 2"},
	} {
		row := view.RowOf(appFrom(t, fmt.Sprintf(waiting, generation)))
		if got := (view.Row{Status: row.Status, Next: row.Next}); got != want {
			t.Errorf("after generation %d was processed: %+v, want %+v", generation, got, want)
		}
	}
}

// soaking is a rollout whose stage eu soaks until 12:12.
func soaking(t *testing.T) *v1alpha1.AppService {
	t.Helper()
	app := appFrom(t, rollingOut)
	soak := int32(3600)
	app.Spec.Rollout.Stages[1].SoakSeconds = &soak
	stage := &app.Status.Rollout.Stages[1]
	stage.Phase, stage.Clusters, stage.UpToDate, stage.Available = v1alpha1.StageSoaking, 5, 5, 5
	stage.Since.Time = now.Add(-48 * time.Minute)
	app.Status.Conditions[1] = app.Status.Conditions[0]
	app.Status.Conditions[1].Type, app.Status.Conditions[1].Reason = v1alpha1.ConditionRolledOut, v1alpha1.ReasonSoaking
	app.Status.Conditions[1].Message = "revision 3 runs on 5 of 5 clusters of stage eu, soaking for 3600 s"
	app.Status.Conditions[0].Message = app.Status.Conditions[1].Message + "; 1 of 4 clusters not ready: north (ImagePullBackOff)"
	return app
}

func TestStatus_says_how_long_a_stage_still_soaks(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.AppService)
		want   string
	}{
		"soaking":  {func(*v1alpha1.AppService) {}, "5/5 available, soaks for another 12m\n"},
		"over":     {func(app *v1alpha1.AppService) { app.Status.Rollout.Stages[1].Since.Time = now.Add(-2 * time.Hour) }, "5/5 available, its soak is over\n"},
		"promoted": {func(app *v1alpha1.AppService) { app.Status.Rollout.Stages[1].Promoted = true }, "5/5 available, promoted\n"},
		"an undo":  {func(app *v1alpha1.AppService) { app.Status.Rollout.Undo = true }, "5/5 available\n"},
	} {
		app := soaking(t)
		test.change(app)
		if got := view.Status(app, view.Options{Now: now, Width: 80}); !strings.Contains(got, test.want) {
			t.Errorf("%s: no %q in:\n%s", name, test.want, got)
		}
	}
}

func TestStatus_says_the_same_thing_once(t *testing.T) {
	got := view.Status(soaking(t), view.Options{Now: now, Width: 200})
	if strings.Count(got, "revision 3 runs on 5 of 5 clusters of stage eu") != 1 {
		t.Error(got)
	}
}

func TestStatus_without_ages_does_not_change_with_the_time(t *testing.T) {
	for name, app := range map[string]*v1alpha1.AppService{"soaking": soaking(t), "waiting": appFrom(t, rollingOut), "configured": appFrom(t, configured)} {
		early := view.Status(app, view.Options{Now: now, Width: 80, HidesAges: true})
		late := view.Status(app, view.Options{Now: now.Add(77 * time.Minute), Width: 80, HidesAges: true})
		if diff := cmp.Diff(early, late); diff != "" {
			t.Errorf("%s: (-early +late):\n%s", name, diff)
		}
	}
}

func TestProgress(t *testing.T) {
	failed := func(change func(*v1alpha1.AppService)) *v1alpha1.AppService {
		app := appFrom(t, rollingOut)
		app.Status.Rollout.Stages[1].Phase, app.Status.Rollout.Stages[1].Clusters = v1alpha1.StageProgressing, 5
		app.Status.Rollout.Stages[1].UpToDate, app.Status.Conditions[0].Reason = 2, v1alpha1.ReasonRollingOut
		change(app)
		return app
	}
	for name, test := range map[string]struct {
		app  *v1alpha1.AppService
		want string
	}{
		"a stage gets the revision": {failed(func(*v1alpha1.AppService) {}), "revision 3, stage eu: 2 of 5 clusters updated"},
		"a cluster fails": {failed(func(app *v1alpha1.AppService) { app.Status.Rollout.Stages[1].Failed = 1 }),
			"revision 3, stage eu: 2 of 5 clusters updated, 1 failed"},
		"the stage cannot go on": {failed(func(app *v1alpha1.AppService) { app.Status.Conditions[0].Reason = v1alpha1.ReasonWaitingForClusters }),
			"revision 3, stage eu: 2 of 5 clusters updated; WaitingForClusters"},
		"a stage waits for approval": {appFrom(t, rollingOut),
			"revision 3, stage eu: 0 of 1 clusters updated; AwaitingApproval; next: kubectl appsvc rollout approve web -n shop --stage eu --revision 3"},
		"a stage soaks": {soaking(t), "revision 3, stage eu: 5 of 5 clusters updated; Soaking until 2026-01-02 12:12 UTC"},
		"the edit is not processed": {failed(func(app *v1alpha1.AppService) { app.Generation = 9 }),
			"waiting until the operator has processed the latest edit"},
		"a rollback": {failed(func(app *v1alpha1.AppService) {
			app.Status.Rollout.Phase, app.Status.Conditions[0].Reason = v1alpha1.RolloutRollingBack, v1alpha1.ReasonRollingBack
		}), "revision 3, 2 of 4 clusters ready; RollingBack"},
		"no stages": {appFrom(t, configured), "1 of 1 clusters ready; Ready"},
	} {
		if got := view.Progress(test.app); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
