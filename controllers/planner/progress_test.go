package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// Each of the AppServices asks again when it was told to, and has progress to show all the time.
func TestProgress_of_many_AppServices_has_one_rate(t *testing.T) {
	t.Parallel()
	const apps, duration = 50, 20 * time.Second
	begin := time.Unix(1000, 0)
	turns, next, shown := &progressTurns{}, map[types.UID]time.Duration{}, map[types.UID]int{}
	for now := time.Duration(0); now < duration; now += 10 * time.Millisecond {
		for i := range apps {
			app := types.UID(fmt.Sprint(i))
			if now < next[app] {
				continue
			}
			wait := turns.until(app, begin.Add(now))
			if wait > maxProgressWait {
				t.Fatalf("AppService %s waits %v", app, wait)
			}
			if next[app] = now + wait; wait == 0 {
				turns.take(app, begin.Add(now))
				shown[app]++
			}
		}
	}
	total := 0
	for i := range apps {
		n := shown[types.UID(fmt.Sprint(i))]
		total += n
		if n < 1 || n > 2 {
			t.Errorf("AppService %d had %d turns", i, n)
		}
	}
	if most := int(duration/progressInterval) + 1; total < most-3 || total > most {
		t.Errorf("%d turns in %v", total, duration)
	}
}

func TestProgress_of_one_AppService_is_shown_at_once(t *testing.T) {
	t.Parallel()
	now, turns := time.Unix(1000, 0), &progressTurns{}
	for i := range 5 {
		if wait := turns.until("a", now); wait != 0 {
			t.Errorf("turn %d waits %v", i, wait)
		}
		turns.take("a", now)
		now = now.Add(statusInterval)
	}
}

func TestProgress_that_is_over_lets_others_move_up(t *testing.T) {
	t.Parallel()
	now, turns := time.Unix(1000, 0), &progressTurns{}
	waits := func() (waits []time.Duration) {
		for _, app := range []types.UID{"a", "b", "c", "d"} {
			waits = append(waits, turns.until(app, now))
		}
		return waits
	}
	const i = progressInterval
	if diff := cmp.Diff([]time.Duration{0, i, 2 * i, 3 * i}, waits()); diff != "" {
		t.Errorf("at first (-want +got):\n%s", diff)
	}
	turns.leave("b")
	if diff := cmp.Diff([]time.Duration{0, 3 * i, i, 2 * i}, waits()); diff != "" { // b asks again
		t.Errorf("after one has left (-want +got):\n%s", diff)
	}
	turns.take("a", now)
	turns.leave("d")
	turns.leave("none")
	now = now.Add(time.Minute)
	if diff := cmp.Diff([]time.Duration{0, 0, 0, i}, waits()); diff != "" { // the turns of b and c have come, and those of a and d are new
		t.Errorf("a minute later (-want +got):\n%s", diff)
	}
}

// delivering returns an AppService whose second generation is on its way to two clusters.
func delivering() *v1alpha1.AppService {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{UID: "uid-1", Generation: 2}}
	app.Status.ObservedGeneration = 2
	app.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonProgressing, Message: "east, west"}}
	for _, name := range []string{"east", "west"} {
		app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: name, Generation: 2, Revision: 2, Replicas: 3, Phase: v1alpha1.ClusterProgressing})
	}
	return app
}

func TestIsProgress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before func(*v1alpha1.AppService)
		change func(*v1alpha1.AppServiceStatus)
		decide func(*rollout.Decision)
		want   bool
	}{
		"ready replicas": {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].ReadyReplicas, s.Summary.ReadyReplicas = 2, 2 }, want: true},
		"available replicas": {change: func(s *v1alpha1.AppServiceStatus) {
			s.Clusters[0].ObservedAvailableReplicas, s.AvailableReplicas = new(int32(0)), new(int32(3))
		}, want: true},
		"a phase": {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Phase = v1alpha1.ClusterReady }, want: true},
		"a cluster that is not Ready any more": {
			before: func(a *v1alpha1.AppService) { a.Status.Clusters[0].Phase = v1alpha1.ClusterReady },
			change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Phase = v1alpha1.ClusterProgressing },
		},
		"a cluster that cannot be observed": {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Phase = v1alpha1.ClusterUnknown }},
		"a cluster that has failed":         {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Phase = v1alpha1.ClusterFailed }},
		"why it does not get ready":         {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Reason = v1alpha1.ReasonImagePullBackOff }},
		"that it rolls out":                 {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Reason = v1alpha1.ReasonRollingOut }, want: true},
		"a note on what is pending": {
			change: func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Message = "west" },
			decide: func(d *rollout.Decision) { d.Notes = []string{"a scale-down waits"} },
		},
		"an approval without effect": {
			change: func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Message = "west" },
			decide: func(d *rollout.Decision) { d.RequestErrors = make([]stages.RequestError, 1) },
		},
		"ready replicas with a rollout": {
			before: func(a *v1alpha1.AppService) { a.Spec.Rollout = &v1alpha1.Rollout{} },
			change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].ReadyReplicas = 2 },
		},
		"a message": {change: func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Message = "west" }, want: true},
		"a reason":  {change: func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Reason = v1alpha1.ReasonClustersFailed }},
		"Ready":     {change: func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Status = metav1.ConditionTrue }},
		"another condition": {change: func(s *v1alpha1.AppServiceStatus) {
			s.Conditions = append(s.Conditions, metav1.Condition{Type: v1alpha1.ConditionStalled})
		}},
		"other replicas":   {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[1].Replicas = 2 }},
		"another revision": {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[1].Revision = 1 }},
		"a cluster more": {change: func(s *v1alpha1.AppServiceStatus) {
			s.Clusters = append(s.Clusters, v1alpha1.ClusterStatus{Name: "north"})
		}},
		"a cluster less": {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters = s.Clusters[:1] }},
		"a cluster that was removed": {
			before: func(a *v1alpha1.AppService) { a.Status.Clusters[1].Phase = v1alpha1.ClusterRemoving },
			change: func(s *v1alpha1.AppServiceStatus) { s.Clusters = s.Clusters[:1] },
		},
		"the clusters of a deletion": {
			before: func(a *v1alpha1.AppService) { a.DeletionTimestamp = new(metav1.Now()) },
			change: func(s *v1alpha1.AppServiceStatus) { s.Clusters = s.Clusters[1:] }, want: true,
		},
		"a stable revision":  {change: func(s *v1alpha1.AppServiceStatus) { s.Rollout.StableRevision = 2 }},
		"another generation": {change: func(s *v1alpha1.AppServiceStatus) { s.ObservedGeneration = 3 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := delivering()
			if test.before != nil {
				test.before(app)
			}
			p := planned{have: stored{app: app}, next: *app.Status.DeepCopy()}
			test.change(&p.next)
			if test.decide != nil {
				test.decide(&p.decision)
			}
			if got := p.isProgress(); got != test.want {
				t.Errorf("progress: %t", got)
			}
		})
	}
}

func TestIsAvailability(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*v1alpha1.AppServiceStatus)
		want   bool
	}{
		"nothing":         {change: func(*v1alpha1.AppServiceStatus) {}},
		"the sum":         {change: func(s *v1alpha1.AppServiceStatus) { s.AvailableReplicas = new(int32(5)) }, want: true},
		"the first sum":   {change: func(s *v1alpha1.AppServiceStatus) { s.AvailableReplicas = nil }, want: true},
		"of a cluster":    {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[1].ObservedAvailableReplicas = new(int32(1)) }, want: true},
		"of the worst":    {change: func(s *v1alpha1.AppServiceStatus) { s.WorstClusters[0].ObservedAvailableReplicas = nil }, want: true},
		"ready replicas":  {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].ReadyReplicas, s.AvailableReplicas = 2, nil }},
		"a message":       {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Message, s.AvailableReplicas = "2 of 3", nil }},
		"a condition":     {change: func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Message, s.AvailableReplicas = "west", nil }},
		"the summary":     {change: func(s *v1alpha1.AppServiceStatus) { s.Summary.Ready, s.AvailableReplicas = 1, nil }},
		"a worst cluster": {change: func(s *v1alpha1.AppServiceStatus) { s.WorstClusters[0].Phase, s.AvailableReplicas = "Failed", nil }},
		"a cluster less":  {change: func(s *v1alpha1.AppServiceStatus) { s.Clusters, s.AvailableReplicas = s.Clusters[:1], nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := delivering()
			app.Status.AvailableReplicas, app.Status.Clusters[0].ObservedAvailableReplicas = new(int32(6)), new(int32(0))
			app.Status.WorstClusters = app.Status.DeepCopy().Clusters[:1]
			p := planned{have: stored{app: app}, next: *app.Status.DeepCopy()}
			test.change(&p.next)
			if got := p.isAvailability(); got != test.want {
				t.Errorf("availability: %t", got)
			}
		})
	}
}

// A repair of slices does not wait as numbers of available pods do.
func TestIsAvailability_of_an_AppService_whose_slices_another_client_changed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*appslice.Slices)
		want   bool
	}{
		"nothing":             {change: func(*appslice.Slices) {}, want: true},
		"a slice is missing":  {change: func(s *appslice.Slices) { s[v1alpha1.SlotOf("west")] = nil }},
		"a label is missing":  {change: func(s *appslice.Slices) { s[3].Labels = nil }},
		"an entry was copied": {change: func(s *appslice.Slices) { s[3].Clusters = s[v1alpha1.SlotOf("west")].Clusters }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app := delivering()
			app.Status.ClustersIn = v1alpha1.ClustersInSlices
			have := stored{app: app, slices: appslice.Split(app, app.Status.Clusters)}
			test.change(&have.slices)
			p := planned{have: have, next: *app.Status.DeepCopy()}
			p.next.Clusters[0].ObservedAvailableReplicas = new(int32(1))
			if got := p.isAvailability(); got != test.want {
				t.Errorf("availability: %t", got)
			}
		})
	}
}

// Only what follows from a plan shares its rate with other AppServices. A change of a workload that was
// ready has its own.
func TestDelivery_lasts_from_a_plan_until_Ready(t *testing.T) {
	t.Parallel()
	app, throttle, now := delivering(), newThrottle(), time.Unix(1000, 0)
	step := func(name string, change func(*v1alpha1.AppServiceStatus), want bool) {
		t.Helper()
		p := planned{have: stored{app: app.DeepCopy()}, next: *app.Status.DeepCopy()}
		change(&p.next)
		throttle.recordDelivery(p, now)
		app.Status = p.next
		if got := throttle.isDelivering(app.UID, now); got != want {
			t.Errorf("%s: delivering %t", name, got)
		}
	}
	setReady := func(status metav1.ConditionStatus) func(*v1alpha1.AppServiceStatus) {
		return func(s *v1alpha1.AppServiceStatus) { s.Conditions[0].Status = status }
	}
	progress := func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].ReadyReplicas++ }
	step("progress after a restart", progress, false)
	step("an edit", func(s *v1alpha1.AppServiceStatus) { s.ObservedGeneration++ }, true)
	step("its progress", progress, true)
	step("its end", setReady(metav1.ConditionTrue), false)
	step("a failure", setReady(metav1.ConditionFalse), false)
	step("its progress", progress, false)
	step("another plan", func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Replicas++ }, true)
	now = now.Add(deliveryTime - 1)
	step("its progress", progress, true)
	now = now.Add(1)
	step("what is observed later", progress, false)
	step("another plan", func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Replicas++ }, true)
	throttle.forget(app.UID)
	step("progress after all is forgotten", progress, false)
}

// The progress of many AppServices is written in turns; that they are Ready is written at once.
func TestProgress_of_many_deliveries_is_spread(t *testing.T) {
	t.Parallel()
	const count = 12
	s, created := newFixture(t, "east", "west"), time.Now()
	all := make([]*fixture, count)
	for i := range all {
		all[i] = s.also(fmt.Sprint("app-", i), func(*v1alpha1.AppServiceSpec) {})
		all[i].waitForRevision(1)
	}
	s.sent.reset()
	begin := time.Now()
	for _, one := range all {
		one.report("east", one.readyObservation())
	}
	for _, one := range all {
		one.waitForSummary("Ready on east", func(sum v1alpha1.ClusterSummary) bool { return sum.Ready == 1 })
	}
	isDelivering := time.Since(created) < deliveryTime // not on a machine that stalls
	if took := time.Since(begin); isDelivering && took < (count-1)*progressInterval {
		t.Errorf("%d AppServices have shown their progress after %v", count, took)
	}
	if got := len(s.sent.lines()); got != count {
		t.Errorf("%d writes: %q", got, s.sent.lines())
	}
	for _, one := range all {
		one.report("west", one.readyObservation())
	}
	for _, one := range all {
		one.waitForSummary("Ready", func(sum v1alpha1.ClusterSummary) bool { return sum.Ready == 2 })
	}
	if got := len(s.sent.lines()); got != 2*count {
		t.Errorf("%d writes until all are Ready: %q", got, s.sent.lines())
	}
}
