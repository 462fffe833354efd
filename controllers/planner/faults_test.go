package planner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/internal/sample"
	"github.com/fleetwright/fleetwright/internal/wait"
)

var (
	// faultMembers is the number of members of the tests in which many members fail or join. There
	// is one AppService for ten members. The full size is 1200.
	faultMembers = flag.Int("planner.fault-members", inSample(120, 200), "members of the tests of faults in a fleet")
	// faultTime is how long a fault lasts.
	faultTime = flag.Duration("planner.fault-time", inSample(2*time.Second, 5*time.Second), "how long members flap in the tests of faults in a fleet")
)

// inSample returns the first value if the run has a sample, and the second one in `make nightly`.
func inSample[T int | time.Duration](few, all T) T {
	if _, isSample := sample.Number(); isSample {
		return few
	}
	return all
}

// newFaultFleet returns a scene with an AppService that all members of the fleet run, with its
// entries in slices.
func newFaultFleet(t *testing.T) *fixture {
	s := newFixture(t)
	s.stop()
	s.options.SliceThreshold = *faultMembers / 2
	s.joinMany(*faultMembers)
	s.start()
	s.createApp()
	s.waitUntilReady(allMembers())
	return s
}

// allMembers returns the names of the members of the fleet.
func allMembers() []string {
	names := make([]string, *faultMembers)
	for i := range names {
		names[i] = memberName(i)
	}
	return names
}

// also creates another AppService, and returns the same scene with it.
func (s *fixture) also(name string, change func(*v1alpha1.AppServiceSpec)) *fixture {
	s.Helper()
	other := *s
	other.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.app.Namespace, Name: name}}
	other.app.Spec = v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(2))}
	change(&other.app.Spec)
	s.must(s.hub.Create(s.Context(), other.app))
	return &other
}

// waitUntilReady reports that these members run what their entries ask for, until all of them are
// Ready, and there is no other entry.
func (s *fixture) waitUntilReady(members []string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		s.readApp()
		s.reportEntries(members)
		if sum := s.app.Status.Summary; int(sum.Ready) != len(members) || len(s.app.Status.Clusters) != len(members) {
			return fmt.Errorf("%s: %d entries, summary %+v", s.app.Name, len(s.app.Status.Clusters), sum)
		}
		return nil
	})
}

// reportEntries reports that members run what their entries ask for, if the planner's cache has
// these entries.
func (s *fixture) reportEntries(members []string) {
	s.Helper()
	app := &v1alpha1.AppService{}
	if err := s.client.Get(s.Context(), s.key(), app); err != nil {
		return // the cache does not have it yet
	}
	all, _, err := entries.Read(s.Context(), s.client, app)
	s.must(err)
	for i := range all {
		entry := &all[i]
		if _, found := slices.BinarySearch(members, entry.Name); !found || entry.Generation != app.Generation {
			continue
		}
		seen := s.readyObservation()
		seen.Planned, seen.Replicas, seen.ReadyReplicas = entry.Replicas, entry.Replicas, entry.Replicas
		s.observations.Report(s.key(), entry.Name, seen)
	}
}

// setAllReady sets the Ready condition of many members at the same time. Delivery drops the
// observations of members that are not Ready.
func (s *fixture) setAllReady(members []string, status metav1.ConditionStatus) {
	s.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
		`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":%q,"message":"","lastTransitionTime":%q}]}}`,
		status, v1alpha1.ReasonConnected, time.Now().UTC().Format(time.RFC3339)))
	var group errgroup.Group
	group.SetLimit(16)
	for _, name := range members {
		group.Go(func() error {
			if status != metav1.ConditionTrue {
				s.observations.ForgetCluster(name)
			}
			return s.hub.Status().Patch(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)
		})
	}
	s.must(group.Wait())
}

// checkWriteRate fails the test if an object was written more often than the throttle allows in
// this time. A status write may have two requests if slices are written in between. It returns the
// largest number of writes of one AppService and of one slice.
func (s *fixture) checkWriteRate(elapsed time.Duration) (app, slice int) {
	s.Helper()
	most := 1 + statusBurst + int(elapsed/statusInterval)
	counts := map[string]int{}
	for _, line := range s.sent.lines() {
		counts[line]++
	}
	for _, line := range slices.Sorted(maps.Keys(counts)) {
		count, limit := counts[line], most
		switch {
		case strings.HasPrefix(line, "PATCH appservices/"):
			app = max(app, count)
		default:
			slice = max(slice, count)
		}
		if count > limit {
			s.Errorf("%s: %d requests in %v, want at most %d", line, count, elapsed, limit)
		}
	}
	return app, slice
}

// checkNothingLeaves fails the test if any written entry was to be removed, or was to have fewer
// replicas.
func (s *fixture) checkNothingLeaves() {
	s.Helper()
	for _, w := range s.sent.list() {
		for _, sign := range []string{`"Removing"`, `"RemovalPending"`, `"RemovalNeedsApproval"`, `"ScaleDownPending"`} {
			if strings.Contains(w.body, sign) {
				s.Errorf("%s has %s", w.line, sign)
			}
		}
	}
}

// One member reports something else all the time. Each change is a change of its slice and of the
// AppService. It must not delay what other members report.
func TestMember_whose_message_changes_all_the_time(t *testing.T) {
	t.Parallel()
	s := newFaultFleet(t)
	chatty := memberName(7)
	others := slices.DeleteFunc(allMembers(), func(name string) bool { return v1alpha1.SlotOf(name) == v1alpha1.SlotOf(chatty) })
	s.sent.reset()
	started := time.Now()

	var group errgroup.Group
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	failed := s.readyObservation()
	failed.Phase, failed.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused
	group.Go(func() error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				seen := failed
				seen.Message = fmt.Sprintf("%d: %s", i, strings.Repeat("x", 1000))
				s.observations.Report(s.key(), chatty, seen)
			}
		}
	})
	changes, key, ofChatty := 0, s.key(), "PUT appserviceslices/"+v1alpha1.SliceName(s.app.Name, v1alpha1.SlotOf(chatty))
	for ; time.Since(started) < *faultTime || s.sent.count(ofChatty) < 2; changes++ {
		other, sent := others[changes%len(others)], len(s.sent.list())
		s.observations.Report(key, other, failed)
		wait.Eventually(t, func() error {
			app := &v1alpha1.AppService{}
			s.must(s.hub.Get(t.Context(), key, app))
			entry, _, err := entries.Of(t.Context(), s.hub, app, other)
			s.must(err)
			if entry.Phase != v1alpha1.ClusterFailed {
				return fmt.Errorf("%s is %s", other, entry.Phase)
			}
			return nil
		})
		// The plan that was being made may lack the report. The next one has it. Each of them writes the
		// slice of the member that reports all the time.
		lines := s.sent.lines()[sent:]
		at := slices.Index(lines, "PUT appserviceslices/"+v1alpha1.SliceName(s.app.Name, v1alpha1.SlotOf(other)))
		if before := slices.DeleteFunc(lines[:max(0, at)], func(line string) bool { return line != ofChatty }); len(before) > 2 {
			t.Errorf("a change of %s was written after %d writes of another entry", other, len(before))
		}
	}
	elapsed := time.Since(started)
	stop()
	s.must(group.Wait())

	perApp, perSlice := s.checkWriteRate(elapsed)
	t.Logf("%d members, %v: at most %d writes of the AppService and %d of one slice, %d in all; %d other changes",
		*faultMembers, elapsed.Round(time.Millisecond), perApp, perSlice, len(s.sent.list()), changes)
	rest := slices.DeleteFunc(s.sent.lines(), func(line string) bool { return line == statusWrite || line == ofChatty })
	if len(rest) > changes {
		t.Errorf("%d other entries changed, and %d other slices were written: %v", changes, len(rest), rest)
	}
	s.waitUntilReady(allMembers())
}

// Many members join, and then finish, within seconds. Each AppService is written about once per
// second, not once for each member.
func TestMembers_that_join_at_once(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	s.createApp()
	apps := []*fixture{s}
	for i := 1; i < max(2, *faultMembers/10); i++ {
		apps = append(apps, s.also(fmt.Sprintf("app-%03d", i), func(*v1alpha1.AppServiceSpec) {}))
	}
	for _, app := range apps {
		wait.Eventually(t, func() error {
			if app.readApp(); revise.IsEdited(app.app) {
				return errors.New("the AppService is not planned yet")
			}
			return nil
		})
	}
	for _, step := range []struct {
		name string
		do   func()
		isIn func(v1alpha1.ClusterSummary) int32
	}{
		{"join", func() { s.joinMany(*faultMembers) }, func(sum v1alpha1.ClusterSummary) int32 { return sum.Progressing }},
		{"become ready", func() {
			for _, app := range apps {
				app.reportEntries(allMembers())
			}
		}, func(sum v1alpha1.ClusterSummary) int32 { return sum.Ready }},
	} {
		s.sent.reset()
		started := time.Now()
		step.do()
		done := time.Since(started)
		for _, app := range apps {
			wait.Eventually(t, func() error {
				s.must(s.hub.Get(t.Context(), app.key(), app.app))
				if sum := app.app.Status.Summary; int(step.isIn(sum)) != *faultMembers || int(sum.Clusters) != *faultMembers {
					return fmt.Errorf("%s: summary %+v", app.app.Name, sum)
				}
				return nil
			})
		}
		s.waitForCache()
		elapsed := time.Since(started)
		perApp, _ := s.checkWriteRate(elapsed)
		t.Logf("%d members %s in %v, %d AppServices have them after %v: at most %d writes of one AppService, %.1f on average",
			*faultMembers, step.name, done.Round(time.Millisecond), len(apps), elapsed.Round(time.Millisecond), perApp, float64(len(s.sent.list()))/float64(len(apps)))
	}
	s.checkNothingLeaves()
	s.stop() // before the members are deleted
}

// Many members become not Ready and Ready again, in rounds. That is no evidence of intent: nothing
// is removed or scaled down, and nothing moves to other members.
func TestMembers_that_flap_together(t *testing.T) {
	t.Parallel()
	s := newFaultFleet(t)
	half := int32(*faultMembers / 2)
	limited := s.also("limited", func(spec *v1alpha1.AppServiceSpec) { spec.Placement = &v1alpha1.Placement{Limit: &half} })
	divided := s.also("divided", func(spec *v1alpha1.AppServiceSpec) {
		spec.Replicas, spec.ReplicaPolicy = new(3*half), &v1alpha1.ReplicaPolicy{Type: v1alpha1.ReplicasDivided}
	})
	apps := []*fixture{s, limited, divided}
	flapping := allMembers()[:*faultMembers*5/12] // 500 of 1,200
	before := map[string]map[string]int32{}
	for _, app := range apps {
		wait.Eventually(t, func() error {
			app.readApp()
			app.reportEntries(allMembers())
			if sum := app.app.Status.Summary; sum.Ready == 0 || sum.Ready != sum.Clusters {
				return fmt.Errorf("%s: summary %+v", app.app.Name, sum)
			}
			return nil
		})
		before[app.app.Name] = replicasOf(app.app)
	}
	s.sent.reset()
	started, rounds := time.Now(), 0
	for ; time.Since(started) < *faultTime; rounds++ {
		s.setAllReady(flapping, metav1.ConditionFalse)
		if rounds == 0 { // the other rounds do not wait for the planner
			s.waitForSummary("not Ready", func(sum v1alpha1.ClusterSummary) bool { return int(sum.Unknown) == len(flapping) })
		}
		s.setAllReady(flapping, metav1.ConditionTrue)
		for _, app := range apps {
			app.reportEntries(flapping)
		}
	}
	for _, app := range apps {
		wait.Eventually(t, func() error {
			app.readApp()
			app.reportEntries(allMembers())
			if sum := app.app.Status.Summary; sum.Ready != sum.Clusters {
				return fmt.Errorf("%s: summary %+v", app.app.Name, sum)
			}
			return nil
		})
		if after := replicasOf(app.app); !maps.Equal(before[app.app.Name], after) {
			t.Errorf("%s: the desired replicas changed", app.app.Name)
		}
	}
	s.waitForCache()
	elapsed := time.Since(started)
	perApp, perSlice := s.checkWriteRate(elapsed)
	s.checkNothingLeaves()
	t.Logf("%d of %d members flapped %d times in %v: at most %d writes of one AppService and %d of one slice, %d in all",
		len(flapping), *faultMembers, rounds, elapsed.Round(time.Millisecond), perApp, perSlice, len(s.sent.list()))
}

// replicasOf returns the desired replicas of each entry.
func replicasOf(app *v1alpha1.AppService) map[string]int32 {
	replicas := map[string]int32{}
	for _, entry := range app.Status.Clusters {
		replicas[entry.Name] = entry.Replicas
	}
	return replicas
}
