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

// What Flux, Helm and Argo CD make of an AppService, as the API server gives it out: kstatus calls
// Current what it does not understand, so each state is tried.
func TestAppService_is_understood_by_kstatus_and_Argo_CD(t *testing.T) {
	type outcome struct {
		Status  kstatus.Status
		Message string
		Argo    health
	}
	tests := map[string]struct {
		happen []func(*testing.T, *v1alpha1.AppService)
		want   outcome
	}{
		"new": {
			want: outcome{kstatus.InProgressStatus, "AppService generation is 1, but latest observed generation is -1", health{"Progressing", "waiting for Fleetwright to observe the last change"}},
		},
		"placed nowhere": {
			happen: steps(rolledUp()),
			want:   outcome{kstatus.InProgressStatus, "no cluster is chosen; see status.placement.excluded", health{"Progressing", "no cluster is chosen; see status.placement.excluded"}},
		},
		"planned": {
			happen: steps(rolledUp(on("east"))),
			want:   outcome{kstatus.InProgressStatus, "1 of 1 cluster not ready: east (Pending)", health{"Progressing", "1 of 1 cluster not ready: east (Pending)"}},
		},
		"progressing": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterProgressing))),
			want:   outcome{kstatus.InProgressStatus, "1 of 1 cluster not ready: east (Because)", health{"Progressing", "1 of 1 cluster not ready: east (Because)"}},
		},
		"ready": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterReady))),
			want:   outcome{kstatus.CurrentStatus, "Resource is Ready", health{"Healthy", "running on 1 cluster: east"}},
		},
		"ready once, and changed since": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterReady)), changed),
			want:   outcome{kstatus.InProgressStatus, "AppService generation is 2, but latest observed generation is 1", health{"Progressing", "waiting for Fleetwright to observe the last change"}},
		},
		"ready, and to be removed from another cluster": {
			happen: steps(rolledUp(on("east"), on("west"), saw("east", v1alpha1.ClusterReady)),
				rolledUp(on("east"), off("west"), saw("east", v1alpha1.ClusterReady))),
			want: outcome{kstatus.InProgressStatus, "removing it from 1 cluster", health{"Progressing", "removing it from 1 cluster"}},
		},
		"ready once, and unreachable now": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterReady)), rolledUp(on("east"), unreachable("east"))),
			want:   outcome{kstatus.InProgressStatus, "1 of 1 cluster not ready: east (ClusterUnreachable)", health{"Unknown", "1 of 1 cluster not ready: east (ClusterUnreachable)"}},
		},
		"failed on one cluster, while another goes on": {
			happen: steps(rolledUp(on("east"), on("west"), saw("east", v1alpha1.ClusterFailed))),
			want:   outcome{kstatus.InProgressStatus, "2 of 2 clusters not ready: east (Because), west (Pending)", health{"Progressing", "2 of 2 clusters not ready: east (Because), west (Pending)"}},
		},
		"stalled: failed, and nothing else goes on": {
			happen: steps(rolledUp(on("east"), on("west"), saw("east", v1alpha1.ClusterFailed), saw("west", v1alpha1.ClusterReady))),
			want:   outcome{kstatus.FailedStatus, "1 of 2 clusters not ready: east (Because)", health{"Degraded", "1 of 2 clusters not ready: east (Because)"}},
		},
		"stalled: a placement that cannot be understood": {
			happen: steps(rolledUp(func(in *rollout.Input) { in.PlanError = errors.New("spec.placement.clusterSelector: no") })),
			want:   outcome{kstatus.FailedStatus, "spec.placement.clusterSelector: no", health{"Degraded", "spec.placement.clusterSelector: no"}},
		},
		"failed on one cluster, and another is unreachable": {
			happen: steps(rolledUp(on("east"), on("west"), saw("east", v1alpha1.ClusterFailed), unreachable("west"))),
			want: outcome{kstatus.InProgressStatus, "2 of 2 clusters not ready: east (Because), west (ClusterUnreachable)",
				health{"Progressing", "2 of 2 clusters not ready: east (Because), west (ClusterUnreachable)"}},
		},
		"ready on all clusters but one that is unreachable": {
			happen: steps(rolledUp(on("east"), on("west"), saw("east", v1alpha1.ClusterReady), unreachable("west"))),
			want: outcome{kstatus.InProgressStatus, "1 of 2 clusters not ready: west (ClusterUnreachable)",
				health{"Unknown", "1 of 2 clusters not ready: west (ClusterUnreachable)"}},
		},
		"suspended, with something to do": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterReady)), suspended, rolledUp(on("east"), saw("east", v1alpha1.ClusterReady))),
			want: outcome{kstatus.InProgressStatus, "suspended: generation 2 is not rolled out to 1 cluster: east",
				health{"Suspended", "suspended: generation 2 is not rolled out to 1 cluster: east"}},
		},
		"suspended from the beginning": {
			happen: steps(suspended, rolledUp(on("east"))),
			want:   outcome{kstatus.InProgressStatus, "suspended: it is not added to 1 cluster: east", health{"Suspended", "suspended: it is not added to 1 cluster: east"}},
		},
		"being deleted, and unreachable": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterReady)), deleted, rolledUp(on("east"), unreachable("east"))),
			want:   outcome{kstatus.TerminatingStatus, "Resource scheduled for deletion", health{"Progressing", "being removed from its clusters"}},
		},
		"being deleted": {
			happen: steps(rolledUp(on("east"), saw("east", v1alpha1.ClusterReady)), deleted, rolledUp(on("east"))),
			want:   outcome{kstatus.TerminatingStatus, "Resource scheduled for deletion", health{"Progressing", "being removed from its clusters"}},
		},
	}
	number := 0
	for title, test := range tests {
		number++
		t.Run(title, func(t *testing.T) {
			app := created(t, fmt.Sprintf("kstatus-%d", number))
			for _, step := range test.happen {
				step(t, app)
			}
			object := readBack(t, app)
			result, err := kstatus.Compute(object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, outcome{result.Status, result.Message, argo(t, object)}); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// Law 5: what the planner reads back is what it wrote, or it would write again.
func TestAppService_status_is_read_back_as_it_was_written(t *testing.T) {
	app := created(t, "read-back")
	happened := []func(*rollout.Input){on("east"), on("north"), on("west"), unreachable("north"), saw("east", v1alpha1.ClusterReady), saw("west", v1alpha1.ClusterFailed)}
	written := statusOf(input(app, happened...))
	rolledUp(happened...)(t, app)
	again := &v1alpha1.AppService{}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, again.Status); diff != "" {
		t.Errorf("status (-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(again.Status, statusOf(input(again, append(happened, later)...))); diff != "" {
		t.Errorf("status (-read +made of it later):\n%s", diff)
	}
}

// One row that the schema refuses would hold up the status of all clusters.
func TestAppService_status_takes_a_message_of_1024_characters_and_no_more(t *testing.T) {
	app := created(t, "long-message")
	app.Status = statusOf(input(app, on("east")))
	app.Status.Clusters[0].Message = strings.Repeat("é", 1024)
	if err := hub.Status().Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	app.Status.Clusters[0].Message += "é"
	err := hub.Status().Update(t.Context(), app)
	if err == nil {
		t.Fatal("is accepted")
	}
	says(t, strings.TrimPrefix(err.Error(), `AppService.fleetwright.dev "long-message" is invalid: `), `[status.clusters[0].message: Too long: may not be more than 1024 bytes`+unchecked)
}

// The hub's etcd takes an object of 1.5 MiB.
func TestAppService_status_has_room_for_a_thousand_clusters(t *testing.T) {
	var everywhere, ready, failed []func(*rollout.Input)
	for i := range 1000 {
		name := fmt.Sprintf("member-%04d", i)
		everywhere = append(everywhere, on(name))
		ready = append(ready, saw(name, v1alpha1.ClusterReady))
		failed = append(failed, saw(name, v1alpha1.ClusterFailed, strings.Repeat("x", 512)))
	}
	app := created(t, "thousand")
	for _, step := range []struct {
		title  string
		happen []func(*rollout.Input)
	}{
		{"all Ready", ready},
		{"all Failed with 512 bytes of message", failed},
	} {
		t.Run(step.title, func(t *testing.T) {
			rolledUp(append(everywhere, step.happen...)...)(t, app)
			content, err := json.Marshal(readBack(t, app))
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
	app := created(t, "scale")
	rolledUp(on("east"), saw("east", v1alpha1.ClusterReady))(t, app)

	t.Run("it tells how many pods a cluster has, and how to find them", func(t *testing.T) {
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
	t.Run("it takes another number, as a new generation", func(t *testing.T) {
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
	t.Run("it refuses a negative number", func(t *testing.T) {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: -1}}
		if err := hub.SubResource("scale").Update(t.Context(), app, client.WithSubResourceBody(scale)); err == nil {
			t.Error("is accepted")
		}
	})
}

func TestMemberCluster_is_InProgress_until_it_is_looked_at(t *testing.T) {
	member := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(),
		"kind":       "MemberCluster",
		"metadata":   map[string]any{"name": "east"},
	}}
	got, err := tried(t, member)
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

// What happens to an AppService.

func steps(steps ...func(*testing.T, *v1alpha1.AppService)) []func(*testing.T, *v1alpha1.AppService) {
	return steps
}

// created is an AppService that the API server has, with our finalizer, until the test ends.
func created(t *testing.T, name string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.Finalizers = "default", name, []string{v1alpha1.Finalizer}
	app.Spec.Image = "registry.example/web:1"
	if err := hub.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	return app
}

// rolledUp writes the status that is made of what happened.
func rolledUp(happened ...func(*rollout.Input)) func(*testing.T, *v1alpha1.AppService) {
	return func(t *testing.T, app *v1alpha1.AppService) {
		t.Helper()
		app.Status = statusOf(input(app, happened...))
		if err := hub.Status().Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
}

func changed(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	app.Spec.Image += "2"
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

func suspended(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	app.Spec.Suspend = true
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
}

func deleted(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	if err := hub.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
}

func readBack(t *testing.T, app *v1alpha1.AppService) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), object); err != nil {
		t.Fatal(err)
	}
	return object
}

func input(app *v1alpha1.AppService, happened ...func(*rollout.Input)) rollout.Input {
	in := rollout.Input{
		App:          app,
		Plan:         placement.Plan{},
		Members:      map[string]*v1alpha1.MemberCluster{},
		Observations: map[string]observation.Observation{},
		Now:          metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.Local),
	}
	for _, happen := range happened {
		happen(&in)
	}
	return in
}

// on and off put a member that is Ready into the plan, or leave it out. They come in the order of the names.
func on(cluster string) func(*rollout.Input) {
	return joined(placement.Decision{Cluster: cluster, Replicas: 2})
}

func off(cluster string) func(*rollout.Input) {
	return joined(placement.Decision{Cluster: cluster, Reason: v1alpha1.ReasonNotNamed})
}

func joined(decision placement.Decision) func(*rollout.Input) {
	return func(in *rollout.Input) {
		in.Plan = append(in.Plan, decision)
		in.Members[decision.Cluster] = &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: decision.Cluster}}
		in.Members[decision.Cluster].Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	}
}

func unreachable(cluster string) func(*rollout.Input) {
	return func(in *rollout.Input) { in.Members[cluster].Status.Conditions[0].Status = metav1.ConditionFalse }
}

func saw(cluster string, phase v1alpha1.ClusterPhase, message ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		seen := observation.Observation{UID: in.App.UID, Generation: in.App.Generation, Phase: phase, Applied: in.App.Generation, Planned: 2, Replicas: 2, ReadyReplicas: 2}
		if phase != v1alpha1.ClusterReady {
			seen.Reason, seen.Message = "Because", strings.Join(message, " ")
		}
		in.Observations[cluster] = seen
	}
}

func later(in *rollout.Input) { in.Now = metav1.NewTime(in.Now.Add(time.Hour)) }

// statusOf returns the status that the planner would write.
func statusOf(in rollout.Input) v1alpha1.AppServiceStatus {
	return status.Compute(in, rollout.Plan(in))
}
