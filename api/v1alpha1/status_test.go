package v1alpha1_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// Flux, Helm and Argo CD use these results. kstatus reports Current for a status that it does not
// understand, so the test has each state.
func TestAppService_has_the_right_status_in_kstatus_and_Argo_CD(t *testing.T) {
	type outcome struct {
		Status  kstatus.Status
		Message string
		Argo    health
	}
	const (
		soakingMessage = "revision 7, stage eu: 0 of 0 clusters are available, soaking for 60 s; 1 cluster runs revision 6; " +
			"annotate the AppService with fleetwright.dev/promote=7/eu to end the stage now"
		rolledBackMessage = "revision 7 failed in stage eu (fra: Refused) and was rolled back to 6: change the spec, or annotate the AppService with fleetwright.dev/retry=7"
		haltedMessage     = "revision 7 failed in stage eu (fra: Refused), and each cluster keeps what it runs: change the spec, " +
			"or annotate the AppService with fleetwright.dev/abort=7 to return to revision 6, or with fleetwright.dev/retry=7"
	)
	tests := map[string]struct {
		steps []func(*testing.T, *v1alpha1.AppService)
		want  outcome
	}{
		"new": {
			want: outcome{kstatus.InProgressStatus, "AppService generation is 1, but latest observed generation is -1", health{"Progressing", "waiting for Fleetwright to observe the last change"}},
		},
		"without a cluster": {
			steps: steps(writeStatus()),
			want:  outcome{kstatus.InProgressStatus, "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT", health{"Progressing", "there is no MemberCluster: add a cluster with kubectl appsvc join CONTEXT"}},
		},
		"planned": {
			steps: steps(writeStatus(placeOn("east"))),
			want:  outcome{kstatus.InProgressStatus, "1 of 1 cluster not ready: east (Pending)", health{"Progressing", "1 of 1 cluster not ready: east (Pending)"}},
		},
		"progressing": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterProgressing))),
			want:  outcome{kstatus.InProgressStatus, "1 of 1 cluster not ready: east (Because)", health{"Progressing", "1 of 1 cluster not ready: east (Because)"}},
		},
		"ready": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady))),
			want:  outcome{kstatus.CurrentStatus, "Resource is Ready", health{"Healthy", "running on 1 cluster: east"}},
		},
		"edited after it was ready": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady)), editApp),
			want:  outcome{kstatus.InProgressStatus, "AppService generation is 2, but latest observed generation is 1", health{"Progressing", "waiting for Fleetwright to observe the last change"}},
		},
		"ready, while it is removed from another cluster": {
			steps: steps(writeStatus(placeOn("east"), placeOn("west"), observe("east", v1alpha1.ClusterReady)),
				writeStatus(placeOn("east"), excludeFrom("west"), observe("east", v1alpha1.ClusterReady))),
			want: outcome{kstatus.InProgressStatus, "removing it from 1 cluster", health{"Progressing", "removing it from 1 cluster"}},
		},
		"unreachable after it was ready": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady)), writeStatus(placeOn("east"), unreachable("east"))),
			want:  outcome{kstatus.InProgressStatus, "1 of 1 cluster not ready: east (ClusterUnreachable)", health{"Unknown", "1 of 1 cluster not ready: east (ClusterUnreachable)"}},
		},
		"failed on one cluster, while another progresses": {
			steps: steps(writeStatus(placeOn("east"), placeOn("west"), observe("east", v1alpha1.ClusterFailed))),
			want:  outcome{kstatus.InProgressStatus, "2 of 2 clusters not ready: east (Because), west (Pending)", health{"Progressing", "2 of 2 clusters not ready: east (Because), west (Pending)"}},
		},
		"stalled: failed, while no other cluster progresses": {
			steps: steps(writeStatus(placeOn("east"), placeOn("west"), observe("east", v1alpha1.ClusterFailed), observe("west", v1alpha1.ClusterReady))),
			want:  outcome{kstatus.FailedStatus, "1 of 2 clusters not ready: east (Because)", health{"Degraded", "1 of 2 clusters not ready: east (Because)"}},
		},
		"stalled: an invalid placement": {
			steps: steps(writeStatus(func(in *rollout.Input) { in.PlanError = errors.New("spec.placement.clusterSelector: no") })),
			want:  outcome{kstatus.FailedStatus, "spec.placement.clusterSelector: no", health{"Degraded", "spec.placement.clusterSelector: no"}},
		},
		"failed on one cluster, and another is unreachable": {
			steps: steps(writeStatus(placeOn("east"), placeOn("west"), observe("east", v1alpha1.ClusterFailed), unreachable("west"))),
			want: outcome{kstatus.InProgressStatus, "2 of 2 clusters not ready: east (Because), west (ClusterUnreachable)",
				health{"Progressing", "2 of 2 clusters not ready: east (Because), west (ClusterUnreachable)"}},
		},
		"ready on all clusters but one that is unreachable": {
			steps: steps(writeStatus(placeOn("east"), placeOn("west"), observe("east", v1alpha1.ClusterReady), unreachable("west"))),
			want: outcome{kstatus.InProgressStatus, "1 of 2 clusters not ready: west (ClusterUnreachable)",
				health{"Unknown", "1 of 2 clusters not ready: west (ClusterUnreachable)"}},
		},
		"suspended with pending changes": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady)), suspendApp, writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady))),
			want: outcome{kstatus.InProgressStatus, "suspended: generation 2 is not rolled out to 1 cluster: east",
				health{"Suspended", "suspended: generation 2 is not rolled out to 1 cluster: east"}},
		},
		"suspended when it is created": {
			steps: steps(suspendApp, writeStatus(placeOn("east"))),
			want:  outcome{kstatus.InProgressStatus, "suspended: it is not added to 1 cluster: east", health{"Suspended", "suspended: it is not added to 1 cluster: east"}},
		},
		"rolling out": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutProgressing, v1alpha1.StageProgressing)),
			want: outcome{kstatus.InProgressStatus, "revision 7, stage eu: 0 of 0 clusters are updated, 0 are available; 1 cluster runs revision 6",
				health{"Progressing", "revision 7, stage eu: 0 of 0 clusters are updated, 0 are available; 1 cluster runs revision 6"}},
		},
		"soaking": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutProgressing, v1alpha1.StageSoaking)),
			want:  outcome{kstatus.InProgressStatus, soakingMessage, health{"Progressing", soakingMessage}},
		},
		"awaiting approval": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutProgressing, v1alpha1.StageAwaitingApproval)),
			want: outcome{kstatus.InProgressStatus, "revision 7 waits for approval of stage eu (0 clusters): annotate the AppService with fleetwright.dev/approve=7/eu",
				health{"Suspended", "revision 7 waits for approval of stage eu (0 clusters): annotate the AppService with fleetwright.dev/approve=7/eu"}},
		},
		"paused": {
			steps: steps(stageRollout, pauseRollout, writeRollout(v1alpha1.RolloutProgressing, v1alpha1.StagePending)),
			want: outcome{kstatus.InProgressStatus, "revision 7 has not begun; 1 cluster runs revision 6; it is paused: set spec.rollout.paused to false",
				health{"Suspended", "revision 7 has not begun; 1 cluster runs revision 6; it is paused: set spec.rollout.paused to false"}},
		},
		"rolling back": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutRollingBack, v1alpha1.StageProgressing)),
			want: outcome{kstatus.InProgressStatus, "revision 7 failed in stage eu (fra: Refused); 0 of 1 cluster return to revision 6",
				health{"Progressing", "revision 7 failed in stage eu (fra: Refused); 0 of 1 cluster return to revision 6"}},
		},
		"rolled back": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutRolledBack, v1alpha1.StageProgressing)),
			want:  outcome{kstatus.FailedStatus, rolledBackMessage, health{"Degraded", rolledBackMessage}},
		},
		"halted": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutHalted, v1alpha1.StageProgressing)),
			want:  outcome{kstatus.FailedStatus, haltedMessage, health{"Degraded", haltedMessage}},
		},
		"rolled out": {
			steps: steps(stageRollout, writeRollout(v1alpha1.RolloutCompleted, v1alpha1.StageCompleted)),
			want:  outcome{kstatus.CurrentStatus, "Resource is Ready", health{"Healthy", "running on 1 cluster: east"}},
		},
		"being deleted, and unreachable": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady)), deleteApp, writeStatus(placeOn("east"), unreachable("east"))),
			want:  outcome{kstatus.TerminatingStatus, "Resource scheduled for deletion", health{"Progressing", "being removed from its clusters"}},
		},
		"being deleted": {
			steps: steps(writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady)), deleteApp, writeStatus(placeOn("east"))),
			want:  outcome{kstatus.TerminatingStatus, "Resource scheduled for deletion", health{"Progressing", "being removed from its clusters"}},
		},
	}
	number := 0
	for title, test := range tests {
		number++
		t.Run(title, func(t *testing.T) {
			app := createApp(t, fmt.Sprintf("kstatus-%d", number))
			for _, step := range test.steps {
				step(t, app)
			}
			object := getUnstructured(t, app)
			result, err := kstatus.Compute(object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, outcome{result.Status, result.Message, argoHealth(t, object)}); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// Invariant 5: if the planner read another status than it wrote, it would write again.
func TestAppService_status_is_the_same_after_writing_and_reading(t *testing.T) {
	app := createApp(t, "read-back")
	changes := []func(*rollout.Input){placeOn("east"), placeOn("north"), placeOn("west"), unreachable("north"), observe("east", v1alpha1.ClusterReady), observe("west", v1alpha1.ClusterFailed)}
	written := statusOf(newInput(app, changes...))
	writeStatus(changes...)(t, app)
	again := &v1alpha1.AppService{}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, again.Status); diff != "" {
		t.Errorf("status (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(again.Status, statusOf(newInput(again, append(changes, anHourLater)...))); diff != "" {
		t.Errorf("status (-read +computed later):\n%s", diff)
	}
}

// One entry that the schema refuses would block the status of all clusters.
func TestAppService_status_limits_a_message_to_1024_characters(t *testing.T) {
	app := createApp(t, "long-message")
	app.Status = statusOf(newInput(app, placeOn("east")))
	app.Status.Clusters[0].Message = strings.Repeat("é", 1024)
	if err := hub.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	app.Status.Clusters[0].Message += "é"
	err := hub.Status().Update(t.Context(), app)
	if err == nil {
		t.Fatal("the object is accepted")
	}
	checkMessage(t, strings.TrimPrefix(err.Error(), `AppService.fleetwright.dev "long-message" is invalid: `), `[status.clusters[0].message: Too long: may not be more than 1024 bytes`+unchecked)
}

// The hub's etcd limits an object to 1.5 MiB.
func TestAppService_status_of_a_thousand_clusters_is_accepted(t *testing.T) {
	var everywhere, ready, failed []func(*rollout.Input)
	for i := range 1000 {
		name := fmt.Sprintf("member-%04d", i)
		everywhere = append(everywhere, placeOn(name))
		ready = append(ready, observe(name, v1alpha1.ClusterReady))
		failed = append(failed, observe(name, v1alpha1.ClusterFailed, strings.Repeat("x", 512)))
	}
	app := createApp(t, "thousand")
	for _, step := range []struct {
		title   string
		changes []func(*rollout.Input)
	}{
		{"all Ready", ready},
		{"all Failed with 512 bytes of message", failed},
	} {
		t.Run(step.title, func(t *testing.T) {
			writeStatus(append(everywhere, step.changes...)...)(t, app)
			content, err := json.Marshal(getUnstructured(t, app))
			if err != nil {
				t.Fatal(err)
			}
			fields, err := json.Marshal(app.ManagedFields)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, %d of them managedFields", len(content), len(fields))
		})
	}
}

func TestAppService_scales(t *testing.T) {
	app := createApp(t, "scale")
	writeStatus(placeOn("east"), observe("east", v1alpha1.ClusterReady))(t, app)

	t.Run("the scale subresource has the number of pods and their selector", func(t *testing.T) {
		scale := &autoscalingv1.Scale{}
		if err := hub.SubResource("scale").Get(t.Context(), app, scale); err != nil {
			t.Fatal(err)
		}
		want := autoscalingv1.ScaleStatus{Replicas: 2, Selector: "fleetwright.dev/appservice=scale"}
		if diff := cmp.Diff(want, scale.Status); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(autoscalingv1.ScaleSpec{Replicas: 1}, scale.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	})
	t.Run("scaling creates a new generation", func(t *testing.T) {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
		if err := hub.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(scale)); err != nil {
			t.Fatal(err)
		}
		got := &v1alpha1.AppService{}
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), got); err != nil {
			t.Fatal(err)
		}
		if got.DesiredReplicas() != 5 || got.Generation != 2 {
			t.Errorf("%d replicas in generation %d, want 5 in 2", got.DesiredReplicas(), got.Generation)
		}
	})
	t.Run("a negative number is refused", func(t *testing.T) {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: -1}}
		if err := hub.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(scale)); err == nil {
			t.Error("the object is accepted")
		}
	})
}

func TestMemberCluster_is_InProgress_before_the_first_reconcile(t *testing.T) {
	member := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "MemberCluster",
		"metadata":   map[string]any{"name": "east"},
	}}
	got, err := dryRunCreate(t, member)
	if err != nil {
		t.Fatal(err)
	}
	got.SetGeneration(1)
	result, err := kstatus.Compute(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kstatus.InProgressStatus, result.Status); diff != "" {
		t.Errorf("kstatus (-want +got):\n%s", diff)
	}
}

// Steps of an AppService.

func steps(steps ...func(*testing.T, *v1alpha1.AppService)) []func(*testing.T, *v1alpha1.AppService) {
	return steps
}

// createApp creates an AppService with our finalizer.
func createApp(t *testing.T, name string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.Finalizers = "default", name, []string{v1alpha1.Finalizer}
	app.Spec.Image = "registry.example/web:1"
	if err := hub.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	return app
}

// writeStatus writes the status that follows from the changes.
func writeStatus(changes ...func(*rollout.Input)) func(*testing.T, *v1alpha1.AppService) {
	return func(t *testing.T, app *v1alpha1.AppService) {
		t.Helper()
		app.Status = statusOf(newInput(app, changes...))
		if err := hub.Status().Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
}

// stageRollout gives an AppService the stage eu.
func stageRollout(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	stage := v1alpha1.RolloutStage{Name: "eu", SoakSeconds: new(int32(60))}
	app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{stage}}
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

func pauseRollout(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	app.Spec.Rollout.Paused = true
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

// writeRollout writes the status of an AppService that is Ready with revision 6 on one cluster, while
// the rollout of revision 7 is in these phases.
func writeRollout(phase v1alpha1.RolloutPhase, stage v1alpha1.RolloutStagePhase) func(*testing.T, *v1alpha1.AppService) {
	return func(t *testing.T, app *v1alpha1.AppService) {
		t.Helper()
		in := newInput(app, placeOn("east"), observe("east", v1alpha1.ClusterReady))
		decision := rollout.Plan(in)
		decision.Entries[0].Revision = 6
		decision.Rollout = v1alpha1.RolloutStatus{
			Revision: 7, StableRevision: 6, Phase: phase, Paused: app.Spec.Rollout.Paused,
			Stages: []v1alpha1.RolloutStageStatus{{Name: "eu", Phase: stage, Since: in.Now}},
		}
		switch phase {
		case v1alpha1.RolloutCompleted:
			decision.Entries[0].Revision = 7
		case v1alpha1.RolloutRollingBack, v1alpha1.RolloutRolledBack, v1alpha1.RolloutHalted:
			decision.Rollout.FailedRevision, decision.Rollout.FailedStage = 7, "eu"
			decision.Rollout.FailedClusters, decision.Rollout.FailedReason = []string{"fra"}, v1alpha1.ReasonRefused
		}
		app.Status = status.Compute(in, decision)
		if err := hub.Status().Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
}

func editApp(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	app.Spec.Image += "2"
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

func suspendApp(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	app.Spec.Suspend = true
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

func deleteApp(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	if err := hub.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
}

func getUnstructured(t *testing.T, app *v1alpha1.AppService) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func newInput(app *v1alpha1.AppService, changes ...func(*rollout.Input)) rollout.Input {
	in := rollout.Input{
		IsNew:        true,
		App:          app,
		Plan:         placement.Plan{},
		Members:      map[string]*v1alpha1.MemberCluster{},
		Observations: map[string]observation.Observation{},
		Now:          metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.Local),
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// placeOn adds a Ready member to the plan, and excludeFrom excludes it. Call them in order of name.
func placeOn(cluster string) func(*rollout.Input) {
	return withMember(placement.Decision{Cluster: cluster, Replicas: 2})
}

func excludeFrom(cluster string) func(*rollout.Input) {
	return withMember(placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNotNamed})
}

func withMember(decision placement.Decision) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Plan = append(in.Plan, decision)
		in.Members[decision.Cluster] = &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: decision.Cluster}}
		in.Members[decision.Cluster].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	}
}

func unreachable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Members[cluster].Status.Conditions[0].Status = metav1.ConditionFalse }
}

func observe(cluster string, phase v1alpha1.ClusterPhase, message ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		seen := observation.Observation{UID: in.App.UID, Generation: in.App.Generation, Phase: phase, Applied: in.App.Generation, Planned: 2, Replicas: 2, ReadyReplicas: 2}
		if phase != v1alpha1.ClusterReady {
			seen.Reason, seen.Message = "Because", strings.Join(message, " ")
		}
		in.Observations[cluster] = seen
	}
}

func anHourLater(in *rollout.Input) { in.Now = metav1.NewTime(in.Now.Add(time.Hour)) }

// statusOf returns the status that the planner would write.
func statusOf(in rollout.Input) v1alpha1.AppServiceStatus {
	return status.Compute(in, rollout.Plan(in))
}
