package planner

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// startCounter starts a counter beside the planner. It returns the writes that the counter sends,
// and a function that stops it.
func (s *fixture) startCounter() (*traffic, func()) {
	s.Helper()
	sent := &traffic{}
	hubConfig := rest.CopyConfig(s.hub.granted)
	hubConfig.Wrap(sent.wrap)
	manager, err := ctrl.NewManager(hubConfig, ctrl.Options{
		Scheme:     kinds,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{s.app.Namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	s.must(err)
	s.must(SetupCounterWithManager(manager))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- manager.Start(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.Error("the counter returned:", err)
		}
	})
	s.Cleanup(stop)
	return sent, stop
}

// waitForCounts waits until the MemberClusters have these numbers of AppServices.
func (s *fixture) waitForCounts(want map[string]int32) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		got := map[string]int32{}
		for name := range want {
			member := &v1alpha1.MemberCluster{}
			s.must(s.hub.Get(s.Context(), client.ObjectKey{Name: name}, member))
			got[name] = member.Status.AppServices
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("status.appServices (-want +got):\n%s", diff)
		}
		return nil
	})
}

// A count waits for the changes that follow, up to maxCountDelay.
func TestAppServiceCount_is_made_when_nothing_changes(t *testing.T) {
	t.Parallel()
	c, begin := &counter{}, time.Unix(1000, 0)
	if !c.takeChanges(begin) {
		t.Error("a count that was asked for without a change waits")
	}
	c.note(begin)
	if c.takeChanges(begin.Add(countQuiet - 1)) {
		t.Error("a count does not wait for more changes")
	}
	if !c.takeChanges(begin.Add(countQuiet)) {
		t.Error("a count waits although nothing changes")
	}
	counts := 0
	for now := begin; now.Before(begin.Add(4 * maxCountDelay)); now = now.Add(countQuiet / 10) {
		if c.note(now); c.takeChanges(now) {
			counts++
		}
	}
	if counts != 3 {
		t.Errorf("%d counts while there are changes all the time", counts)
	}
}

func TestAppServiceCount_follows_the_entries(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	sent, _ := s.startCounter()
	s.waitForCounts(map[string]int32{"east": 1, "west": 1})

	second := s.app.DeepCopy()
	second.ObjectMeta = metav1.ObjectMeta{Namespace: s.app.Namespace, Name: "second"}
	second.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	s.must(s.hub.Create(t.Context(), second))
	s.waitForCounts(map[string]int32{"east": 2, "west": 1})

	// The number falls with the entry, and not before: a Removing entry still counts.
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}
	})
	s.report("east", s.readyObservation())
	removing := s.removingEntry("west")
	removing.Generation = 1
	s.waitForEntries(s.entry("east", v1alpha1.ClusterReady), removing)
	s.waitForCounts(map[string]int32{"east": 2, "west": 1})
	s.report("west", s.removalConfirmed(s.transitionTime("west")))
	s.waitForCounts(map[string]int32{"east": 2, "west": 0})

	s.delete()
	s.waitForEntries(s.entry("east", v1alpha1.ClusterRemoving, applied(2, 2)))
	s.report("east", s.removalConfirmed(s.transitionTime("east")))
	s.waitForDeletion()
	s.waitForCounts(map[string]int32{"east": 1, "west": 0})

	for _, w := range sent.list() {
		if w.line != "PATCH memberclusters/east/status" && w.line != "PATCH memberclusters/west/status" {
			t.Error("the counter sent", w.line)
		}
	}
}

func TestAppServiceCount_that_is_right_is_not_written_after_a_restart(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	_, stop := s.startCounter()
	s.waitForCounts(map[string]int32{"east": 1, "west": 1})
	stop()
	// The first pass after a restart corrects this number, and must write no other.
	s.patchMember("west", func(member *v1alpha1.MemberCluster) { member.Status.AppServices = 7 })
	sent, _ := s.startCounter()
	s.waitForCounts(map[string]int32{"east": 1, "west": 1})
	var bodies []string
	for _, w := range sent.list() {
		bodies = append(bodies, w.line+" "+w.body)
	}
	if diff := cmp.Diff([]string{`PATCH memberclusters/west/status {"status":{"appServices":1}}`}, bodies); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestAppServiceCount_is_requested_only_when_entries_or_numbers_change(t *testing.T) {
	app := func(phase v1alpha1.ClusterPhase, clusters ...string) *v1alpha1.AppService {
		app := &v1alpha1.AppService{}
		for _, name := range clusters {
			app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: name, Phase: phase})
		}
		return app
	}
	member := func(count int32, version string) *v1alpha1.MemberCluster {
		return &v1alpha1.MemberCluster{Status: v1alpha1.MemberClusterStatus{AppServices: count, Version: version}}
	}
	const pending, ready = v1alpha1.ClusterPending, v1alpha1.ClusterReady
	tests := map[string]struct {
		predicate     predicate.Predicate
		before, after client.Object
		want          bool
	}{
		"a phase changed":                   {entriesChanged(), app(pending, "east"), app(ready, "east"), false},
		"an entry was added":                {entriesChanged(), app(ready, "east"), app(ready, "east", "west"), true},
		"an entry was removed":              {entriesChanged(), app(ready, "east", "west"), app(ready, "west"), true},
		"an entry replaced another":         {entriesChanged(), app(ready, "east"), app(ready, "west"), true},
		"a version changed":                 {countChanged(), member(1, "v1.35.0"), member(1, "v1.36.0"), false},
		"another client changed the number": {countChanged(), member(1, ""), member(2, ""), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.predicate.Update(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
	if entriesChanged().Create(event.CreateEvent{Object: app(ready)}) {
		t.Error("a new AppService without entries requests a count")
	}
}

// 1,000 AppServices on 1,000 clusters each are beyond what one hub is meant to hold.
func BenchmarkCountByCluster(b *testing.B) {
	apps := make([]v1alpha1.AppService, 1000)
	for i := range apps {
		for j := range 1000 {
			apps[i].Status.Clusters = append(apps[i].Status.Clusters, v1alpha1.ClusterStatus{Name: fmt.Sprintf("cluster-%04d", j)})
		}
	}
	for b.Loop() {
		countByCluster(apps, nil)
	}
}
