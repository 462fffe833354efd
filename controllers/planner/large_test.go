package planner

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/sample"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// largeFleet is the number of members of the large fleet. It is above the default threshold.
var largeFleet = flag.Int("planner.members", 1200, "members of TestLargeFleet")

// restTime is how long the large fleet is left at rest. Nothing may be written in this time.
var restTime = flag.Duration("planner.rest", 2*time.Second, "time at rest in TestLargeFleet")

// maxObject is the largest object that an AppService on many clusters may have, in bytes of JSON.
const maxObject = 350_000

// TestLargeFleet plans one AppService on more clusters than fit into one object, with the default
// threshold. The members are MemberClusters without a connection, and their observations are
// injected. A third of the runs with a sample have it: it takes more CPU time than a hundred other tests.
func TestLargeFleet(t *testing.T) {
	t.Parallel()
	if !sample.Takes(t.Name(), 3) {
		t.Skip("not in this sample: SAMPLE=0 has it")
	}
	s := newFixture(t)
	s.joinMany(*largeFleet)
	s.stop()
	s.start()
	s.app.Spec.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"tier": "prod"}}}}
	s.createApp()
	s.waitForSummary("planned", func(sum v1alpha1.ClusterSummary) bool { return int(sum.Progressing) == *largeFleet })

	s.reportAll(s.readyObservation)
	s.waitForSummary("ready", func(sum v1alpha1.ClusterSummary) bool { return int(sum.Ready) == *largeFleet })
	s.restart()
	s.reconcileOnce()
	s.reportAll(s.readyObservation) // as delivery does after a restart
	s.reconcileOnce()
	<-time.After(*restTime)
	s.checkWrites()
	s.Logf("%v at rest: %d writes", *restTime, len(s.sent.list()))

	failed := s.readyObservation()
	failed.Phase, failed.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonRefused
	s.sent.reset()
	s.reportOn("member-00007", failed)
	s.waitForSummary("one failed", func(sum v1alpha1.ClusterSummary) bool { return sum.Failed == 1 })
	for _, w := range s.sent.list() {
		t.Logf("one entry: %s, %d bytes", w.line, len(w.body))
	}
	if lines := s.sent.lines(); len(lines) != 2 {
		t.Errorf("one changed entry: %d writes: %v", len(lines), lines)
	}

	longest := strings.Repeat("ü", 1024)
	s.reportAll(func() observation.Observation {
		seen := failed
		seen.Message = longest
		for i := range 8 {
			seen.Addresses = append(seen.Addresses, fmt.Sprintf("%d.%s", i, strings.Repeat("x", 250)))
		}
		return seen
	})
	s.waitForSummary("all failed with the longest texts", func(sum v1alpha1.ClusterSummary) bool { return int(sum.Failed) == *largeFleet })
	if ready := meta.FindStatusCondition(s.app.Status.Conditions, v1alpha1.ConditionReady); ready.Reason != v1alpha1.ReasonClustersFailed {
		t.Errorf("condition %+v", ready)
	}

	s.reportAll(s.readyObservation)
	s.waitForSummary("ready again", func(sum v1alpha1.ClusterSummary) bool { return int(sum.Ready) == *largeFleet })
	s.edit(func(app *v1alpha1.AppService) {
		app.Spec.Placement.ClusterSelector.MatchLabels["rank"] = "low"
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptRemovals: fmt.Sprintf("%d@2", *largeFleet)}
	})
	s.reportAll(s.readyObservation) // no removal starts before a cluster that stays is Ready
	s.waitForSummary("removing", func(sum v1alpha1.ClusterSummary) bool { return int(sum.Removing) == *largeFleet-few })
	s.confirmRemovals()
	s.waitForSummary("few left", func(sum v1alpha1.ClusterSummary) bool { return sum.Removing == 0 && sum.Clusters == few })
	if s.app.Status.ClustersIn != "" || len(s.app.Status.Clusters) != few {
		t.Errorf("%d entries are in %q", len(s.app.Status.Clusters), s.app.Status.ClustersIn)
	}
	s.waitForSlices(0)
	s.delete()
	s.waitForSummary("deleting", func(sum v1alpha1.ClusterSummary) bool { return sum.Removing == few })
	s.confirmRemovals()
	s.waitForDeletion()
}

// few is the number of members with the label rank=low.
const few = 700

// joinMany creates Ready MemberClusters.
func (s *fixture) joinMany(count int) {
	s.Helper()
	each := func(do func(ctx context.Context, name string, i int) error) {
		s.Helper()
		var group errgroup.Group
		group.SetLimit(16)
		for i := range count {
			group.Go(func() error { return do(context.Background(), memberName(i), i) })
		}
		s.must(group.Wait())
	}
	each(func(ctx context.Context, name string, i int) error {
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "prod"}}}
		if i < few {
			member.Labels["rank"] = "low"
		}
		if err := s.hub.Create(ctx, member); err != nil {
			return err
		}
		member.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, LastTransitionTime: metav1.Now()}}
		return s.hub.Status().Update(ctx, member)
	})
	s.Cleanup(func() {
		each(func(ctx context.Context, name string, _ int) error {
			return s.hub.Delete(ctx, &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}})
		})
	})
}

func memberName(i int) string { return fmt.Sprintf("member-%05d", i) }

// reportAll reports an observation of each member.
func (s *fixture) reportAll(observe func() observation.Observation) {
	s.Helper()
	s.waitForCache()
	for i := range *largeFleet {
		s.observations.Report(s.key(), memberName(i), observe())
	}
}

func (s *fixture) reportOn(member string, seen observation.Observation) {
	s.waitForCache()
	s.observations.Report(s.key(), member, seen)
}

// confirmRemovals reports that no object is left on each member that the AppService is removed
// from.
func (s *fixture) confirmRemovals() {
	s.Helper()
	s.readApp()
	s.waitForCache()
	for _, entry := range s.app.Status.Clusters {
		if entry.Phase == v1alpha1.ClusterRemoving {
			s.observations.Report(s.key(), entry.Name, s.removalConfirmed(entry.LastTransitionTime))
		}
	}
}

// waitForSummary waits for a summary of the status, reads all entries, and checks the sizes of the
// objects.
func (s *fixture) waitForSummary(what string, isExpected func(v1alpha1.ClusterSummary) bool) {
	s.Helper()
	started := time.Now()
	wait.Eventually(s.T, func() error {
		s.must(s.hub.Get(s.Context(), s.key(), s.app))
		if !isExpected(s.app.Status.Summary) {
			return fmt.Errorf("%s: summary %+v, conditions %+v", what, s.app.Status.Summary, s.app.Status.Conditions)
		}
		return nil
	})
	took := time.Since(started)
	sizes := []int{s.sizeOf(s.app)}
	for _, slice := range s.listSlices() {
		sizes = append(sizes, s.sizeOf(&slice))
	}
	largest, total := 0, 0
	for _, size := range sizes {
		largest, total = max(largest, size), total+size
	}
	s.Logf("%s after %v: %d objects, the AppService has %d bytes, the largest %d, all %d", what, took.Round(time.Millisecond), len(sizes), sizes[0], largest, total)
	if largest > maxObject {
		s.Errorf("%s: the largest object has %d bytes, want at most %d", what, largest, maxObject)
	}
	s.readApp()
}

func (s *fixture) sizeOf(object client.Object) int {
	s.Helper()
	content, err := json.Marshal(object)
	s.must(err)
	return len(content)
}
