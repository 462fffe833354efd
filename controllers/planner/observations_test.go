package planner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

func TestThrottle(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 600e6, time.UTC)
	p := newThrottle()
	at := func(app types.UID, after time.Duration, want time.Duration) {
		t.Helper()
		if got := p.untilWrite(app, begin.Add(after), statusGap); got != want {
			t.Errorf("%s after %v: wait %v, want %v", app, after, got, want)
		}
	}
	at("a", 0, 0)
	at("a", 0, 0)
	p.recordWrite("a", begin)
	at("a", 0, statusGap)
	at("a", statusGap, 0)
	p.recordWrite("a", begin)
	p.recordWrite("a", begin)
	at("a", 0, statusInterval)
	at("a", 300*time.Millisecond, statusInterval-300*time.Millisecond)
	at("a", statusInterval, 0)
	at("a", time.Hour, 0)
	at("b", 0, 0) // each AppService has its own interval
	p.recordWrite("a", begin.Add(statusInterval))
	at("a", statusInterval, statusInterval)
	p.recordWrite("c", begin)
	at("c", statusGap, 0)
	if got := p.untilWrite("c", begin.Add(statusGap), statusInterval); got != statusInterval-statusGap {
		t.Errorf("with a longer gap: wait %v", got)
	}
	if got := p.untilPlan("a", begin); got != 0 {
		t.Errorf("before the first plan: wait %v", got)
	}
	p.recordPlan("a", begin, 100*time.Millisecond)
	if got, want := p.untilPlan("a", begin.Add(time.Second)), time.Second; got != want {
		t.Errorf("the plan after one of 100 ms waits %v, want %v", got, want)
	}
	p.recordPlan("a", begin, time.Hour)
	if got := p.untilPlan("a", begin); got != maxPlanPause {
		t.Errorf("the plan after one of an hour waits %v, want %v", got, maxPlanPause)
	}
	p.allowPlan("a")
	if got := p.untilPlan("a", begin); got != 0 {
		t.Errorf("a plan that is allowed waits %v", got)
	}
	p.forget("a")
	at("a", statusInterval, 0)
	if got := p.untilPlan("a", begin); got != 0 {
		t.Errorf("a deleted AppService waits %v for its plan", got)
	}
}

func TestObservations_enqueue_an_AppService_when_they_change(t *testing.T) {
	web, api := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "api"}
	ready := observation.Observation{UID: "uid-1", Generation: 1, Phase: v1alpha1.ClusterReady}
	failed := observation.Observation{UID: "uid-1", Generation: 1, Phase: v1alpha1.ClusterFailed}
	missing := observation.Observation{UID: "uid-1", Generation: 1, Phase: v1alpha1.ClusterProgressing, Missing: true}

	o := NewObservations()
	o.delay = 0
	o.Report(web, "east", ready) // there is no queue yet
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	if err := o.listen(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		name   string
		do     func()
		queued []types.NamespacedName
		web    map[string]observation.Observation
	}{
		{"the same observation", func() { o.Report(web, "east", ready) }, nil, map[string]observation.Observation{"east": ready}},
		{"another cluster", func() { o.Report(web, "west", ready) }, []types.NamespacedName{web}, map[string]observation.Observation{"east": ready, "west": ready}},
		{"another observation", func() { o.Report(web, "east", failed) }, []types.NamespacedName{web}, map[string]observation.Observation{"east": failed, "west": ready}},
		{"another AppService", func() { o.Report(api, "west", ready) }, []types.NamespacedName{api}, map[string]observation.Observation{"east": failed, "west": ready}},
		{"ForgetCluster of a cluster without observations", func() { o.ForgetCluster("north") }, nil, map[string]observation.Observation{"east": failed, "west": ready}},
		{"ForgetCluster of a cluster with an observation of web", func() { o.ForgetCluster("east") }, []types.NamespacedName{web}, map[string]observation.Observation{"west": ready}},
		{"the same observation after ForgetCluster", func() { o.Report(web, "east", failed) }, []types.NamespacedName{web}, map[string]observation.Observation{"east": failed, "west": ready}},
		{"an unreachable cluster", func() { o.ReportUnreachable("west") }, nil, map[string]observation.Observation{"east": failed, "west": ready}},
		{"a missing workload", func() { o.Report(web, "east", missing) }, []types.NamespacedName{web}, map[string]observation.Observation{"east": missing, "west": ready}},
		{"an unreachable cluster while a workload is missing", func() { o.ReportUnreachable("west") }, []types.NamespacedName{web}, map[string]observation.Observation{"east": missing, "west": ready}},
		{"the workload is created", func() { o.Report(web, "east", ready) }, []types.NamespacedName{web}, map[string]observation.Observation{"east": ready, "west": ready}},
		{"an unreachable cluster after that", func() { o.ReportUnreachable("west") }, nil, map[string]observation.Observation{"east": ready, "west": ready}},
		{"a plan that waits", func() { o.awaitUnreachable(web) }, nil, map[string]observation.Observation{"east": ready, "west": ready}},
		{"an unreachable cluster while a plan waits", func() { o.ReportUnreachable("west") }, []types.NamespacedName{web}, map[string]observation.Observation{"east": ready, "west": ready}},
		{"an unreachable cluster while no plan waits", func() { o.ReportUnreachable("west") }, nil, map[string]observation.Observation{"east": ready, "west": ready}},
		{"forgetApp", func() { o.forgetApp(web) }, nil, nil},
	}
	for _, step := range steps {
		step.do()
		var queued []types.NamespacedName
		for queue.Len() > 0 {
			request, _ := queue.Get()
			queue.Done(request)
			queued = append(queued, request.NamespacedName)
		}
		if diff := cmp.Diff(step.queued, queued); diff != "" {
			t.Errorf("%s: queued (-want +got):\n%s", step.name, diff)
		}
		if diff := cmp.Diff(step.web, o.of(web)); diff != "" {
			t.Errorf("%s: of web (-want +got):\n%s", step.name, diff)
		}
	}
	// The returned map is a copy.
	delete(o.of(api), "west")
	if len(o.of(api)) != 1 {
		t.Error("a caller can change the stored observations")
	}
}

// The response to a status write may be lost, so the planner cannot drop the observations with the
// write that removes their entries.
func TestObservations_of_removed_entries_are_dropped(t *testing.T) {
	app := &v1alpha1.AppService{Status: v1alpha1.AppServiceStatus{Clusters: []v1alpha1.ClusterStatus{{Name: "east"}}}}
	app.Namespace, app.Name = "shop", "web"
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	ready := observation.Observation{UID: "uid-1", Generation: 1, Phase: v1alpha1.ClusterReady}
	failed := observation.Observation{UID: "uid-1", Generation: 1, Phase: v1alpha1.ClusterFailed}
	found := observation.Observation{UID: "uid-1", Found: true}

	o := NewObservations()
	o.Report(web, "east", ready)
	o.Report(web, "west", ready)
	o.Report(web, "north", ready)
	o.Report(web, "south", found)
	seen := o.of(web)
	o.Report(web, "north", failed) // since the planner read the observations
	o.dropUnanswered(app, seen)
	if diff := cmp.Diff(map[string]observation.Observation{"east": ready, "south": found}, seen); diff != "" {
		t.Errorf("for this plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]observation.Observation{"east": ready, "north": failed, "south": found}, o.of(web)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// An observation that the next status would take for an answer is dropped before the status is
// written, and is not lost if the write fails.
func TestObservations_are_dropped_before_a_write_and_restored_after_a_failure(t *testing.T) {
	o := NewObservations()
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	old, fresh := observation.Observation{UID: "uid-1", Revision: 1}, observation.Observation{UID: "uid-1", Revision: 2}
	for _, cluster := range []string{"east", "north", "west"} {
		o.Report(web, cluster, old)
	}
	restore := o.drop(web, []string{"east", "west", "not-observed"})
	if diff := cmp.Diff(map[string]observation.Observation{"north": old}, o.of(web)); diff != "" {
		t.Errorf("after the drop (-want +got):\n%s", diff)
	}
	o.Report(web, "west", fresh)
	restore()
	if diff := cmp.Diff(map[string]observation.Observation{"east": old, "north": old, "west": fresh}, o.of(web)); diff != "" {
		t.Errorf("after the failure (-want +got):\n%s", diff)
	}
}

func TestObservations_know_which_clusters_are_unreachable(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	o := NewObservations()
	o.ReportUnreachable("east")
	o.ReportUnreachable("west")
	o.ReportUnreachable("north")
	o.Report(web, "west", observation.Observation{UID: "uid-1"})
	o.forgetUnreachable("north")
	if got := o.foundUnreachable(); len(got) != 1 || time.Since(got["east"].Time) > time.Minute {
		t.Errorf("unreachable: %v", got)
	}
}
