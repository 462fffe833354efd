package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// hanging is a connection to a member that can hang on demand: it accepts requests, and no response
// arrives.
type hanging struct {
	net.Listener
	silent atomic.Bool
}

// throughHanging returns a config that reaches the member through a hanging connection.
func throughHanging(t *testing.T, config *rest.Config) (*rest.Config, *hanging) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hanging{Listener: listener}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); listener.Close() })
	server := strings.Trim(strings.TrimPrefix(config.Host, "https://"), "/")
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			go func() { _, _ = io.Copy(far, near) }()
			go func() { _, _ = io.Copy(&silencer{near, &h.silent}, far) }()
		}
	}()
	config = rest.CopyConfig(config)
	config.Host = "https://" + listener.Addr().String()
	return config, h
}

// silencer drops written data while it is silent.
type silencer struct {
	io.Writer
	silent *atomic.Bool
}

func (s *silencer) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Writer.Write(p)
}

// This test covers invariant 1.
func TestMember_that_hangs_slows_no_other(t *testing.T) {
	s := declared(t)
	slow := s.beside("slow")
	config, way := throughHanging(t, granted)
	member, _ := connected(t.Context(), t, config)
	s.must(s.deliverer.Engage(t.Context(), slow.clusterName(), member))

	const apps = 20
	last := slow
	// deliver plans new AppServices for both members, and measures how long the responsive member
	// takes to run all of them.
	deliver := func(name string) time.Duration {
		t.Helper()
		begin := time.Now()
		var all []*scene
		for i := range apps {
			app := &v1alpha1.AppService{Spec: s.app.Spec}
			app.Namespace, app.Name = s.app.Namespace, fmt.Sprintf("%s-%d", name, i)
			s.must(onHub.Create(t.Context(), app))
			one := &scene{T: t, operator: s.operator, app: app, cluster: s.cluster}
			one.plan()
			row := app.Status.Clusters[0]
			row.Name = slow.cluster
			one.writeRows(app.Status.Clusters[0], row)
			all = append(all, one)
		}
		for _, one := range all {
			one.reports(one.ready())
		}
		last = all[apps-1].beside("slow")
		return time.Since(begin)
	}
	deliver("warm")
	last.reports(last.ready())
	alone := deliver("before")
	last.reports(last.ready())
	way.silent.Store(true)
	beside := deliver("after")
	t.Logf("%d AppServices: %v while both answer, %v beside a member that hangs", apps, alone, beside)
	if limit := 3*alone + 3*time.Second; beside > limit {
		t.Errorf("took %v beside a member that hangs, %v before", beside, alone)
	}
	if seen := s.told.all(last.key(), slow.cluster); len(seen) > 0 {
		t.Errorf("the member that hangs reported %+v: it did not hang", seen)
	}
}

// settled returns the controllers' goroutines after those of earlier tests have ended.
func settled(t *testing.T) map[string]int {
	t.Helper()
	same, before := 0, goroutines()
	eventually(t, func() error {
		now := goroutines()
		if !maps.Equal(now, before) {
			same, before = 0, now
		}
		if same++; same < 10 {
			return fmt.Errorf("goroutines come and go: %v", now)
		}
		return nil
	})
	return before
}

// back waits until there are no more of the controllers' goroutines than before.
func back(t *testing.T, before map[string]int) {
	t.Helper()
	eventually(t, func() error {
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
	s := delivered(t)
	before := settled(t)
	west := s.beside("west")
	ctx, cancel := context.WithCancel(t.Context())
	member, _ := connected(ctx, t, granted)
	s.must(s.deliverer.Engage(ctx, west.clusterName(), member))
	row := s.app.Status.Clusters[0]
	row.Name = west.cluster
	s.writeRows(s.app.Status.Clusters[0], row)
	west.reports(west.ready())
	if during := goroutines(); maps.Equal(during, before) {
		t.Errorf("%v during the engagement: this test sees nothing", during)
	}

	cancel()
	eventually(t, func() error {
		if diff := cmp.Diff([]string{west.cluster}, s.told.forgot()); diff != "" {
			return fmt.Errorf("forgotten (-want +got):\n%s", diff)
		}
		return nil
	})
	back(t, before)
	if s.deliverer.queueOf(west) != nil {
		t.Error("the queue is still there")
	}
	// Delivery to the other member continues as before.
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	s.reports(s.ready())
}

func (d *Deliverer) queueOf(s *scene) queue {
	if e := d.newest(s.clusterName()); e != nil {
		return e.queue
	}
	return nil
}

// Make before break: the successor is engaged while its predecessor is still engaged.
func TestSuccessor_keeps_its_queue_when_its_predecessor_ends(t *testing.T) {
	s := delivered(t)
	predecessor := s.deliverer.queueOf(s)
	before := settled(t)
	member, sent := connected(t.Context(), t, granted)
	s.must(s.deliverer.Engage(t.Context(), s.clusterName(), member))
	eventually(t, func() error {
		if s.deliverer.queueOf(s) == predecessor {
			return errors.New("the predecessor's queue is still in place")
		}
		return nil
	})
	s.disengage()
	back(t, before)
	if !predecessor.ShuttingDown() {
		t.Error("the predecessor's queue goes on")
	}
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	s.reports(s.ready())
	if !slices.Contains(sent.all(), "PATCH deployments/web") {
		t.Error("the successor sent", sent.all())
	}
	if forgot := s.told.forgot(); len(forgot) > 0 {
		t.Error("forgotten:", forgot)
	}
}

// Invariant 3: the planner discards its observations of a cluster when its engagement ends. An
// observation made earlier but reported later would be mistaken for the current state when the
// member returns.
func TestNothing_is_reported_after_the_end_of_an_engagement(t *testing.T) {
	s := delivered(t)
	s.end()
	eventually(t, func() error {
		if forgot := s.told.forgot(); len(forgot) != 1 {
			return fmt.Errorf("forgotten: %v", forgot)
		}
		return nil
	})
	before := settled(t)
	hub := slowHub{hubCached, s.key(), make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	member, _ := connected(ctx, t, granted)
	s.must(New(hub, thisHub, s.told).Engage(ctx, s.clusterName(), member))
	<-hub.asked
	cancel()
	eventually(t, func() error {
		if forgot := s.told.forgot(); len(forgot) != 2 {
			return fmt.Errorf("forgotten: %v", forgot)
		}
		return nil
	})
	close(hub.answer)
	back(t, before)
	if seen := s.told.all(s.key(), s.cluster); len(seen) > 0 {
		t.Errorf("reported after the end: %+v", seen)
	}
}

// slowHub blocks requests for one AppService until the test permits a response.
type slowHub struct {
	cluster.Cluster
	about         client.ObjectKey
	asked, answer chan struct{}
}

func (h slowHub) GetClient() client.Client { return slowClient{h.Cluster.GetClient(), h} }

type slowClient struct {
	client.Client
	hub slowHub
}

func (c slowClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	if key == c.hub.about {
		close(c.hub.asked)
		<-c.hub.answer
	}
	return c.Client.Get(ctx, key, into, options...)
}

// If the controller of a member could not start, the member would be Ready without any delivery.
func TestEngage_fails_when_the_controller_cannot_start(t *testing.T) {
	s := undelivered(t)
	ctx := s.connect()
	hub, err := cluster.New(onHub.config, func(o *cluster.Options) { o.Scheme = kinds })
	s.must(err)
	if err := New(hub, thisHub, s.told).Engage(ctx, s.clusterName(), s.member); err == nil {
		t.Error("engaged, though the hub cannot be read")
	}
}

// A new session of a member can fail after the running one has worked for long: during its
// engagement, or when package clusters does not publish it. The running session continues.
func TestEngagement_continues_when_its_successor_fails(t *testing.T) {
	tests := map[string]func(*scene, context.Context){
		"before its controller has started": func(s *scene, ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			// Caches of this cluster never sync.
			member, err := cluster.New(granted, func(o *cluster.Options) { o.Scheme = kinds })
			s.must(err)
			predecessor, blocked := s.deliverer.queueOf(s), make(chan struct{})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = s.deliverer.Engage(ctx, s.clusterName(), watchedCluster{member, sync.OnceFunc(func() { close(blocked) })})
			}()
			<-blocked
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image += "-meanwhile" })
			s.plan()
			s.reports(s.ready())
			if s.deliverer.queueOf(s) != predecessor {
				s.Error("the hub's events go to a session whose controller has not started")
			}
			cancel()
			<-ended
		},
		"after its controller has started": func(s *scene, ctx context.Context) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			member, _ := connected(ctx, s.T, granted)
			predecessor := s.deliverer.queueOf(s)
			s.must(s.deliverer.Engage(ctx, s.clusterName(), member))
			if s.deliverer.queueOf(s) == predecessor {
				s.Fatal("the successor does not get the hub's events")
			}
		},
	}
	for name, fails := range tests {
		t.Run(name, func(t *testing.T) {
			s := delivered(t)
			predecessor := s.deliverer.queueOf(s)
			fails(s, t.Context())
			eventually(t, func() error {
				if s.deliverer.queueOf(s) != predecessor {
					return errors.New("the running session does not get the hub's events")
				}
				return nil
			})
			s.edit(func(app *v1alpha1.AppService) { app.Spec.Image += "-edited" })
			s.plan()
			s.reports(s.ready())
			if forgot := s.told.forgot(); len(forgot) > 0 {
				t.Error("forgotten:", forgot)
			}
		})
	}
}

// watchedCluster calls a function when the sources of a controller start.
type watchedCluster struct {
	cluster.Cluster
	onInformer func()
}

func (c watchedCluster) GetCache() cache.Cache {
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
	s := delivered(t)
	ctx, cancel := context.WithCancel(t.Context())
	member, sent := connected(ctx, t, granted)
	s.must(s.deliverer.Engage(ctx, s.clusterName(), member))
	sent.answers(func(string) (*http.Response, error) { return nil, errors.New("broken") })
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Image = "web:2" })
	s.plan()
	eventually(t, func() error {
		if len(sent.all()) == 0 {
			return errors.New("the successor has not tried")
		}
		return nil
	})
	cancel()
	s.reports(s.ready())
	s.runs("1 × web:2 A=1; ClusterIP 80→8080/TCP")
}
