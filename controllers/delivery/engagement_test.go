package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// This test covers invariant 1.
func TestMember_that_hangs_slows_no_other(t *testing.T) {
	s := startedSetup(t)
	slow := s.onOtherMember("slow")
	config, connection := newHangingProxy(t, memberConfig)
	member, toSlow := connected(t.Context(), t, config)
	s.must(s.deliverer.Engage(t.Context(), slow.clusterName(), member))

	const apps = 20
	last := slow
	// deliver plans new AppServices for both members, and waits until the responsive one runs all of
	// them.
	deliver := func(name string) {
		t.Helper()
		var all []*setup
		for i := range apps {
			app := &v1alpha1.AppService{Spec: s.app.Spec}
			app.Namespace, app.Name = s.app.Namespace, fmt.Sprintf("%s-%d", name, i)
			s.must(onHub.Create(t.Context(), app))
			one := &setup{T: t, operator: s.operator, app: app, cluster: s.cluster, revision: s.revision}
			one.isNewFor(s.deliverer)
			one.plan()
			entry := app.Status.Clusters[0]
			entry.Name = slow.cluster
			one.writeEntries(app.Status.Clusters[0], entry)
			all = append(all, one)
		}
		for _, one := range all {
			one.expectReport(one.ready())
		}
		last = all[apps-1].onOtherMember("slow")
	}
	deliver("before")
	last.expectReport(last.ready())
	connection.silent.Store(true)
	toSlow.reset()
	deliver("after")
	// Deliveries to the member that hangs end after a minute each. If the others waited for them, most
	// of them would have ended.
	if begun := len(toSlow.all()); begun == 0 || begun > apps/2 {
		t.Errorf("%d deliveries to the member that hangs have begun, want about %d", begun, workers)
	}
	if seen := s.reported.all(last.key(), slow.cluster); len(seen) > 0 {
		t.Errorf("the member that hangs reported %+v, so it did not hang", seen)
	}
}

// stableGoroutines returns the controllers' goroutines after those of earlier tests have ended.
func stableGoroutines(t *testing.T) map[string]int {
	t.Helper()
	same, before := 0, goroutines()
	wait.Eventually(t, func() error {
		now := goroutines()
		if !maps.Equal(now, before) {
			same, before = 0, now
		}
		if same++; same < 10 {
			return fmt.Errorf("the goroutines change: %v", now)
		}
		return nil
	})
	return before
}

// expectNoMoreGoroutines waits until there are no more of the controllers' goroutines than before.
func expectNoMoreGoroutines(t *testing.T, before map[string]int) {
	t.Helper()
	wait.Eventually(t, func() error {
		for maker, number := range goroutines() {
			if number > before[maker] {
				return fmt.Errorf("%d goroutines %s, %d before", number, maker, before[maker])
			}
		}
		return nil
	})
}

// goroutines counts the goroutines that Deliverers and controllers started, by the place that
// started them.
func goroutines() map[string]int {
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	makers := map[string]int{}
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		_, maker, _ := strings.Cut(stack, "\ncreated by ")
		maker, _, _ = strings.Cut(maker, " ")
		for _, whose := range []string{"delivery.(*Deliverer)", "internal/controller.", "priorityqueue.", "util/workqueue."} {
			if strings.Contains(maker, whose) {
				makers["created by "+maker]++
			}
		}
	}
	return makers
}

func TestEngagement_that_ends_leaves_nothing(t *testing.T) {
	s := deliveredSetup(t)
	before := stableGoroutines(t)
	west := s.onOtherMember("west")
	ctx, cancel := context.WithCancel(t.Context())
	member, _ := connected(ctx, t, memberConfig)
	s.must(s.deliverer.Engage(ctx, west.clusterName(), member))
	entry := s.app.Status.Clusters[0]
	entry.Name = west.cluster
	s.writeEntries(s.app.Status.Clusters[0], entry)
	west.expectReport(west.ready())
	if during := goroutines(); maps.Equal(during, before) {
		t.Errorf("%v during the engagement: the test counts nothing", during)
	}

	cancel()
	wait.Eventually(t, func() error {
		if diff := cmp.Diff([]string{west.cluster}, s.reported.forgottenClusters()); diff != "" {
			return fmt.Errorf("forgotten (-want +got):\n%s", diff)
		}
		return nil
	})
	expectNoMoreGoroutines(t, before)
	if s.deliverer.queueOf(west) != nil {
		t.Error("the queue still exists")
	}
	// Delivery to the other member continues as before.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	s.expectReport(s.ready())
}

func (d *Deliverer) queueOf(s *setup) workQueue {
	if e := d.newest(s.clusterName()); e != nil {
		return e.queue
	}
	return nil
}

// Make before break: the successor is engaged while the previous engagement lasts.
func TestEngagement_keeps_its_queue_when_the_previous_one_ends(t *testing.T) {
	s := deliveredSetup(t)
	predecessor := s.deliverer.queueOf(s)
	before := stableGoroutines(t)
	member, sent := connected(t.Context(), t, memberConfig)
	s.must(s.deliverer.Engage(t.Context(), s.clusterName(), member))
	wait.Eventually(t, func() error {
		if s.deliverer.queueOf(s) == predecessor {
			return errors.New("the previous engagement's queue is still in use")
		}
		return nil
	})
	s.disengage()
	expectNoMoreGoroutines(t, before)
	if !predecessor.ShuttingDown() {
		t.Error("the previous engagement's queue is not shut down")
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	s.expectReport(s.ready())
	if !slices.Contains(sent.all(), "PATCH deployments/web") {
		t.Error("the successor sent", sent.all())
	}
	if forgotten := s.reported.forgottenClusters(); len(forgotten) > 0 {
		t.Error("forgotten:", forgotten)
	}
}

// Invariant 3: the planner discards its observations of a cluster when its engagement ends. An
// observation made earlier but reported later would be mistaken for the current state when the
// member returns.
func TestNothing_is_reported_after_the_end_of_an_engagement(t *testing.T) {
	s := deliveredSetup(t)
	s.end()
	wait.Eventually(t, func() error {
		if forgotten := s.reported.forgottenClusters(); len(forgotten) != 1 {
			return fmt.Errorf("forgotten: %v", forgotten)
		}
		return nil
	})
	before := stableGoroutines(t)
	hub := blockedHub{hubCached, s.key(), make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	member, _ := connected(ctx, t, memberConfig)
	s.must(delivererOf(hub, testHubID, s.reported).Engage(ctx, s.clusterName(), member))
	<-hub.requested
	cancel()
	wait.Eventually(t, func() error {
		if forgotten := s.reported.forgottenClusters(); len(forgotten) != 2 {
			return fmt.Errorf("forgotten: %v", forgotten)
		}
		return nil
	})
	close(hub.answer)
	expectNoMoreGoroutines(t, before)
	if seen := s.reported.all(s.key(), s.cluster); len(seen) > 0 {
		t.Errorf("reported after the end: %+v", seen)
	}
}

// blockedHub blocks requests for one AppService until the test permits a response.
type blockedHub struct {
	cluster.Cluster
	key               client.ObjectKey
	requested, answer chan struct{}
}

func (h blockedHub) GetClient() client.Client { return blockedClient{h.Cluster.GetClient(), h} }

type blockedClient struct {
	client.Client
	hub blockedHub
}

func (c blockedClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if key == c.hub.key {
		close(c.hub.requested)
		<-c.hub.answer
	}
	return c.Client.Get(ctx, key, into, options...)
}

// Package clusters engages the session of a member again if the next one fails.
func TestEngage_of_an_engaged_cluster_changes_nothing(t *testing.T) {
	s := deliveredSetup(t)
	before, goroutines := s.deliverer.queueOf(s), stableGoroutines(t)
	s.must(s.deliverer.Engage(t.Context(), s.clusterName(), s.member))
	if s.deliverer.queueOf(s) != before {
		t.Error("the Cluster has another engagement")
	}
	expectNoMoreGoroutines(t, goroutines)
}

// If the controller of a member could not start, the member would be Ready without any delivery.
func TestEngage_fails_when_the_controller_cannot_start(t *testing.T) {
	s := newSetup(t)
	ctx := s.connect()
	hub, err := cluster.New(onHub.config, func(o *cluster.Options) { o.Scheme = kinds })
	s.must(err)
	if err := delivererOf(hub, testHubID, s.reported).Engage(ctx, s.clusterName(), s.member); err == nil {
		t.Error("engaged, though the hub cannot be read")
	}
}

// A new session of a member can fail after the running one has worked for long: during its
// engagement, or when package clusters does not publish it. The running session continues.
func TestEngagement_continues_when_its_successor_fails(t *testing.T) {
	tests := map[string]func(*setup, context.Context){
		"before its controller has started": func(s *setup, ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			// Caches of this cluster never sync.
			member, err := cluster.New(memberConfig, func(o *cluster.Options) { o.Scheme = kinds })
			s.must(err)
			predecessor, blocked := s.deliverer.queueOf(s), make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.deliverer.Engage(ctx, s.clusterName(), &watchedCluster{member, sync.OnceFunc(func() { close(blocked) })})
			}()
			<-blocked
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image += "-meanwhile" })
			s.plan()
			s.expectReport(s.ready())
			if s.deliverer.queueOf(s) != predecessor {
				s.Error("the hub's events go to a session whose controller has not started")
			}
			cancel()
			<-ended
		},
		"after its controller has started": func(s *setup, ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			member, _ := connected(ctx, s.T, memberConfig)
			predecessor := s.deliverer.queueOf(s)
			s.must(s.deliverer.Engage(ctx, s.clusterName(), member))
			if s.deliverer.queueOf(s) == predecessor {
				s.Fatal("the successor does not get the hub's events")
			}
		},
	}
	for name, fails := range tests {
		t.Run(name, func(t *testing.T) {
			s := deliveredSetup(t)
			predecessor := s.deliverer.queueOf(s)
			fails(s, t.Context())
			wait.Eventually(t, func() error {
				if s.deliverer.queueOf(s) != predecessor {
					return errors.New("the running session does not get the hub's events")
				}
				return nil
			})
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image += "-edited" })
			s.plan()
			s.expectReport(s.ready())
			if forgotten := s.reported.forgottenClusters(); len(forgotten) > 0 {
				t.Error("forgotten:", forgotten)
			}
		})
	}
}

// watchedCluster calls a function when the sources of a controller start.
type watchedCluster struct {
	cluster.Cluster
	onInformer func()
}

func (c *watchedCluster) GetCache() cache.Cache {
	return watchedCache{c.Cluster.GetCache(), c.onInformer}
}

type watchedCache struct {
	cache.Cache
	onInformer func()
}

func (c watchedCache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	c.onInformer()
	return c.Cache.GetInformer(ctx, object, options...)
}

// The running session delivers the changes that its successor missed, without another edit.
func TestEngagement_catches_up_when_its_successor_ends(t *testing.T) {
	s := deliveredSetup(t)
	ctx, cancel := context.WithCancel(t.Context())
	member, sent := connected(ctx, t, memberConfig)
	s.must(s.deliverer.Engage(ctx, s.clusterName(), member))
	sent.answers(func(string) (*http.Response, error) { return nil, errors.New("broken") })
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	wait.Eventually(t, func() error {
		if len(sent.all()) == 0 {
			return errors.New("the successor has not tried")
		}
		return nil
	})
	cancel()
	s.expectReport(s.ready())
	s.expectWorkload("1 × web:2 A=1; ClusterIP 80→8080/TCP")
}

// A request that hangs ends with the engagement, and its error is not reported.
func TestRequest_in_flight_ends_with_the_engagement(t *testing.T) {
	s := newSetup(t)
	config, connection := newHangingProxy(t, memberConfig)
	ends := make(chan error, 100)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if connection.silent.Load() && line(r) != "" {
				ends <- err
			}
			return response, err
		})
	})
	s.config = config
	s.start()
	s.plan()
	s.expectReport(s.ready())
	before := stableGoroutines(t)
	connection.silent.Store(true)
	s.sent.reset()
	s.edit(editImage)
	s.plan()
	wait.Eventually(t, func() error {
		if len(s.sent.all()) == 0 {
			return errors.New("no request is in flight")
		}
		return nil
	})
	s.disengage()
	if err := wait.Receive(t, ends, "the end of the request"); !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v, want that of the engagement", err)
	}
	wait.Eventually(t, func() error {
		for maker, number := range goroutines() {
			if strings.Contains(maker, "internal/controller.") && number >= before[maker] {
				return fmt.Errorf("%d goroutines %s", number, maker)
			}
		}
		return nil
	})
	wait.Eventually(t, func() error {
		if seen := s.reported.all(s.key(), s.cluster); len(s.reported.forgottenClusters()) == 0 || len(seen) > 0 {
			return fmt.Errorf("forgotten: %v; reported: %+v", s.reported.forgottenClusters(), seen)
		}
		return nil
	})
}

// idleEngagement returns an engagement without a controller: what is enqueued stays in its queue.
func idleEngagement(reporter Reporter) *engagement {
	e := newEngagement(context.Background(), nil, reporter)
	e.begin(e.newQueue("", workqueue.DefaultTypedControllerRateLimiter[mcreconcile.Request]()))
	return e
}

// What has changed on the hub is delivered before what is only observed.
func TestChange_of_the_hub_is_delivered_first(t *testing.T) {
	t.Parallel()
	d := delivererOf(hubCached, testHubID, nil)
	east := &setup{cluster: "east"}
	e := idleEngagement(nil)
	defer e.queue.ShutDown()
	d.engagements[east.clusterName()] = []*engagement{e}
	for i := range 10 {
		e.add(requestFor(east.clusterName(), types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("observed-", i)}))
	}
	edited := &v1alpha1.AppService{}
	edited.Namespace, edited.Name = "shop", "edited"
	edited.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "east"}}
	d.dispatch(t.Context(), &v1alpha1.AppService{}, edited)
	if next, _ := e.queue.Get(); next.Name != "edited" {
		t.Errorf("%s is delivered first", next.Name)
	}
}

// After a restart, an edit does not wait until everything else has been compared.
func TestMember_that_joins_gets_first_what_is_not_applied(t *testing.T) {
	t.Parallel()
	s := newSetup(t)
	for name, applied := range map[string]int64{"a-applied": 2, "b-edited": 1, "c-new": 0} {
		app := &v1alpha1.AppService{Spec: s.app.Spec}
		app.Namespace, app.Name = s.app.Namespace, name
		s.must(onHub.Create(t.Context(), app))
		one := &setup{T: t, app: app, cluster: s.cluster, revision: 1}
		one.writeEntries(v1alpha1.ClusterStatus{Name: s.cluster, Generation: 2, ObservedGeneration: applied, Revision: 1, Replicas: 1, Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()})
	}
	d, e := delivererOf(hubCached, testHubID, nil), idleEngagement(nil)
	defer e.queue.ShutDown()
	wait.Eventually(t, func() error {
		all, err := d.plannedOn(t.Context(), s.cluster)
		if err != nil || len(all) != 3 {
			return fmt.Errorf("planned: %v, %w", all, err)
		}
		return nil
	})
	s.must(d.enqueuePlanned(t.Context(), s.clusterName(), e))
	var got []string
	for range 3 {
		next, _ := e.queue.Get()
		got = append(got, next.Name)
	}
	if diff := cmp.Diff([]string{"c-new", "b-edited", "a-applied"}, got); diff != "" {
		t.Errorf("delivered in this order (-want +got):\n%s", diff)
	}
}
