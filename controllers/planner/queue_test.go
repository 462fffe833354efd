package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// Many observations are queued while every worker waits for the hub. A later edit is planned first.
func TestEdit_is_planned_before_observations_that_were_queued_earlier(t *testing.T) {
	const others = 120
	s := newFixture(t, "east")
	s.createApp()
	busy := make([]*v1alpha1.AppService, others)
	for i := range busy {
		busy[i] = s.app.DeepCopy()
		busy[i].Name, busy[i].ResourceVersion, busy[i].UID = fmt.Sprintf("busy-%d", i), "", ""
		s.must(hub.Create(t.Context(), busy[i]))
	}
	for _, app := range slices.Concat(busy, []*v1alpha1.AppService{s.app}) {
		eventually(t, func() error { return isPlanned(s, app) })
	}
	eventually(t, func() error { // until the throttle delays none of the observations
		writes := s.sent.list()
		if age := time.Since(writes[len(writes)-1].at); age < (statusBurst+1)*statusInterval {
			return fmt.Errorf("the last write was %v ago", age)
		}
		return nil
	})
	s.waitForCache()
	s.sent.reset()

	s.sent.hold()
	for _, app := range busy {
		s.observations.Report(client.ObjectKeyFromObject(app), "east", observation.Observation{
			UID: app.UID, Generation: app.Generation, Planned: 2, Phase: v1alpha1.ClusterProgressing, Applied: 1, Replicas: 1,
		})
	}
	eventually(t, func() error {
		if n := len(s.sent.list()); n < workers {
			return fmt.Errorf("%d writes are in progress, want one for each of %d workers", n, workers)
		}
		return nil
	})
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.waitForCache()
	s.sent.release()
	eventually(t, func() error { return isPlanned(s, s.app) })

	lines := s.sent.lines()
	before := slices.Index(lines, statusWrite)
	if before < 0 || before > others/2 {
		t.Errorf("%d of %d status writes of other AppServices were sent before the plan of the edit:\n%s", before, others, strings.Join(lines, "\n"))
	}
}

func isPlanned(s *fixture, app *v1alpha1.AppService) error {
	if err := hub.Get(s.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	if app.Status.ObservedGeneration != app.Generation || len(app.Status.Clusters) == 0 {
		return fmt.Errorf("%s has no plan for generation %d", app.Name, app.Generation)
	}
	return nil
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}}
}

// newTestQueue returns an editQueue and the work queue around it.
func newTestQueue() (*editQueue, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	q := newEditQueue()
	return q, q.newWorkQueue("", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
}

func edit(name string) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = "shop", name
	return app
}

func TestEditQueue_returns_edits_first(t *testing.T) {
	q, queue := newTestQueue()
	defer queue.ShutDown()
	for _, name := range []string{"a", "b", "c"} {
		queue.Add(requestFor(name))
	}
	q.addEdit(queue, edit("d"))
	q.addEdit(queue, edit("b")) // is already queued as an observation
	queue.Add(requestFor("d"))  // remains an edit
	var got []string
	for queue.Len() > 0 {
		request, _ := queue.Get()
		got = append(got, request.Name)
		queue.Done(request)
	}
	if want := []string{"d", "b", "a", "c"}; !slices.Equal(want, got) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestEditQueue_does_not_starve_observations(t *testing.T) {
	q, queue := newTestQueue()
	defer queue.ShutDown()
	queue.Add(requestFor("observed"))
	for i := range 3 * maxConsecutiveEdits {
		q.addEdit(queue, edit(fmt.Sprint(i)))
	}
	for i := range maxConsecutiveEdits + 1 {
		request, _ := queue.Get()
		if observed := request.Name == "observed"; observed != (i == maxConsecutiveEdits) {
			t.Fatalf("number %d is %s", i, request.Name)
		}
	}
}

// Each request is processed by one worker at a time, at least once after it was added, and never
// without having been added, also if it is added during its processing.
func TestEditQueue_keeps_the_guarantees_of_a_work_queue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, queue := newTestQueue()
		defer queue.ShutDown()
		dirty, processing := map[string]bool{}, map[string]bool{}
		ready := func() (n int) {
			for name := range dirty {
				if !processing[name] {
					n++
				}
			}
			return n
		}
		name := rapid.StringMatching(`[a-e]`)
		t.Repeat(map[string]func(*rapid.T){
			"observe": func(t *rapid.T) {
				n := name.Draw(t, "name")
				queue.Add(requestFor(n))
				dirty[n] = true
			},
			"edit": func(t *rapid.T) {
				n := name.Draw(t, "name")
				q.addEdit(queue, edit(n))
				dirty[n] = true
			},
			"get": func(t *rapid.T) {
				if ready() == 0 {
					t.Skip("nothing is queued")
				}
				request, _ := queue.Get()
				if !dirty[request.Name] || processing[request.Name] {
					t.Fatalf("Get returned %s: queued %v, processed %v", request.Name, dirty, processing)
				}
				delete(dirty, request.Name)
				processing[request.Name] = true
			},
			"done": func(t *rapid.T) {
				n := name.Draw(t, "name")
				if !processing[n] {
					t.Skip("not processed")
				}
				delete(processing, n)
				queue.Done(requestFor(n))
			},
			"": func(t *rapid.T) {
				if queue.Len() != ready() {
					t.Fatalf("%d are queued, want %d", queue.Len(), ready())
				}
			},
		})
	})
}
