package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// metricLines returns the series of a collector whose labels contain one of the texts, as
// "name{label} value", or as count and sum of a histogram.
func metricLines(t *testing.T, collector prometheus.Collector, labelled ...string) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if line := family.GetName() + metricLine(metric); slices.ContainsFunc(labelled, func(l string) bool { return strings.Contains(line, l) }) {
				got = append(got, line)
			}
		}
	}
	return got
}

func metricLine(metric *dto.Metric) string {
	var labels []string
	for _, label := range metric.GetLabel() {
		labels = append(labels, label.GetValue())
	}
	if h := metric.GetHistogram(); h != nil {
		return fmt.Sprintf("{%s} %d in %g s", strings.Join(labels, ","), h.GetSampleCount(), h.GetSampleSum())
	}
	value := metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
	return fmt.Sprintf("{%s} %g", strings.Join(labels, ","), value)
}

func TestMetrics_count_the_objects_of_the_hub(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "west")
	ours := newTelemetry(s.hub)
	app := s.app.Namespace + "}"
	wait.Eventually(t, func() error {
		got := metricLines(t, ours, app, "{"+v1alpha1.ReasonConnected+"}", "{"+v1alpha1.ReasonReady+"}", "("+app)
		for _, want := range []string{"fleetwright_members{" + v1alpha1.ReasonConnected + "}", "fleetwright_appservices{" + v1alpha1.ReasonReady + "}"} {
			if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, want) && !strings.HasSuffix(line, " 0") }) {
				return fmt.Errorf("no %s in %q", want, got)
			}
		}
		return nil
	})
	own := metricLines(t, ours, s.app.Namespace)
	if diff := cmp.Diff([]string{
		fmt.Sprintf("fleetwright_appservice_ready{%s,%s} 1", s.app.Name, s.app.Namespace),
		fmt.Sprintf("fleetwright_appservice_stalled{%s,%s} 0", s.app.Name, s.app.Namespace),
	}, own); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetrics_count_the_clusters_whose_pods_cannot_run(t *testing.T) {
	t.Parallel()
	s := newRunning(t, "east", "north", "west")
	ours := newTelemetry(s.hub)
	waitFor := func(want ...string) {
		t.Helper()
		var lines []string
		for _, count := range want {
			lines = append(lines, fmt.Sprintf("fleetwright_appservice_pod_failures{%s,%s,%s", s.app.Name, s.app.Namespace, count))
		}
		wait.Eventually(t, func() error {
			var got []string
			for _, line := range metricLines(t, ours, s.app.Namespace) {
				if strings.HasPrefix(line, "fleetwright_appservice_pod_failures{") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(lines, got); diff != "" {
				return fmt.Errorf("(-want +got):\n%s", diff)
			}
			return nil
		})
	}
	s.report("east", s.progressing(v1alpha1.ReasonCrashLoopBackOff))
	s.report("west", s.progressing(v1alpha1.ReasonCrashLoopBackOff))
	s.report("north", s.progressing(v1alpha1.ReasonImagePullBackOff))
	waitFor("CrashLoopBackOff} 2", "ImagePullBackOff} 1")
	s.restart()
	waitFor("CrashLoopBackOff} 2", "ImagePullBackOff} 1")
	s.report("north", s.progressing(v1alpha1.ReasonPodsNotReady))
	s.report("west", s.readyObservation())
	waitFor("CrashLoopBackOff} 1")
	s.report("east", s.readyObservation())
	waitFor()
}

func TestMetrics_count_pod_failures_of_entries_in_slices(t *testing.T) {
	app := v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Status.ClustersIn = "shop", "web", "uid", v1alpha1.ClustersInSlices
	app.Status.Summary.Clusters = 2
	failing := []v1alpha1.ClusterStatus{{Name: "east", Reason: v1alpha1.ReasonFailedMount}, {Name: "west", Reason: v1alpha1.ReasonRollingOut}}
	part := v1alpha1.AppServiceSlice{AppService: v1alpha1.AppServiceReference{Name: "web", UID: "uid"}, Slot: 3, Clusters: failing}
	part.Namespace, part.Name = "shop", v1alpha1.SliceName("web", 3)
	predecessors := part
	predecessors.AppService.UID = "gone"
	want := map[podFailure]int{{client.ObjectKeyFromObject(&app), v1alpha1.ReasonFailedMount}: 1}
	got := countPodFailures([]v1alpha1.AppService{app}, []v1alpha1.AppServiceSlice{part, predecessors})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(podFailure{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetrics_observe_each_rollout_once(t *testing.T) {
	begun := time.Now()
	after := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	app := &v1alpha1.AppService{}
	app.UID, app.Generation, app.Status.ObservedGeneration = "uid", 2, 1
	status := func(generation int64, phases ...v1alpha1.ClusterPhase) v1alpha1.AppServiceStatus {
		s := v1alpha1.AppServiceStatus{ObservedGeneration: generation}
		for i, phase := range phases {
			s.Clusters = append(s.Clusters, v1alpha1.ClusterStatus{Name: []string{"east", "west"}[i], Phase: phase, Generation: generation})
			s.Summary.Clusters++
			if phase == v1alpha1.ClusterReady {
				s.Summary.Ready++
			}
		}
		return s
	}
	const ready, progressing = v1alpha1.ClusterReady, v1alpha1.ClusterProgressing
	measured := newTelemetry(nil)
	for _, step := range []struct {
		at     int
		status v1alpha1.AppServiceStatus
		want   []string // cumulative
	}{
		{-10, status(2), nil}, // no member is known yet
		{0, status(2), nil},
		{0, status(2, progressing, progressing), nil},
		{3, status(2, ready, progressing), []string{"{east} 1 in 3 s"}},
		{4, status(2, progressing, progressing), []string{"{east} 1 in 3 s"}},
		{5, status(2, ready, progressing), []string{"{east} 1 in 3 s"}},
		{7, status(2, ready, ready), []string{"{east} 1 in 3 s", "{west} 1 in 7 s"}},
		{99, status(2, ready, progressing), []string{"{east} 1 in 3 s", "{west} 1 in 7 s"}},
		{100, status(2, ready, ready), []string{"{east} 1 in 3 s", "{west} 1 in 7 s"}},
	} {
		measured.recordGeneration(app, after(step.at))
		measured.recordStatus(app, step.status, after(step.at))
		app.Status = step.status
		var want []string
		for _, line := range step.want {
			want = append(want, "fleetwright_propagation_seconds"+line)
		}
		if diff := cmp.Diff(want, metricLines(t, measured.propagation, "")); diff != "" {
			t.Errorf("after %d s (-want +got):\n%s", step.at, diff)
		}
	}
	measured.forgetMembers(map[string]bool{"west": true})
	if got := metricLines(t, measured.propagation, ""); len(got) != 1 {
		t.Errorf("a deleted member still has series: %q", got)
	}
}

// The alerts depend on these values: a rollout must not look like an outage, and must not hide one.
func TestMetrics_of_an_AppService_with_a_rollout(t *testing.T) {
	staged := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason}, {Type: v1alpha1.ConditionRolledOut, Reason: reason}}
	}
	stalled := func(reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason}
	}
	const no = metav1.ConditionFalse
	tests := map[string]struct {
		conditions       []metav1.Condition
		ready            int32 // of 8 clusters
		serving, stalled bool
		phase            string
	}{
		"a rollout that updates clusters":      {staged(no, "RollingOut"), 7, false, false, "RollingOut"},
		"a soak":                               {staged(no, "Soaking"), 8, true, false, "Soaking"},
		"a soak, and a cluster failed":         {staged(no, "Soaking"), 7, false, false, "Soaking"},
		"an approval":                          {staged(no, "AwaitingApproval"), 8, true, false, "AwaitingApproval"},
		"rolled back":                          {append(staged(no, "RolledBack"), stalled("RolledBack")), 8, true, false, "RolledBack"},
		"rolled back, and a cluster failed":    {append(staged(no, "RolledBack"), stalled("RolledBack")), 7, false, false, "RolledBack"},
		"halted":                               {append(staged(no, "RolloutHalted"), stalled("RolloutHalted")), 7, false, false, "RolloutHalted"},
		"rolled back, and the hub is behind":   {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: no, Reason: "HubBehind"}, {Type: v1alpha1.ConditionRolledOut, Reason: "RolledBack"}, stalled("HubBehind")}, 0, false, true, "RolledBack"},
		"rolled back without spec.rollout":     {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: no, Reason: "RolledBack"}, stalled("RolledBack")}, 8, true, false, "RolledBack"},
		"no rollout":                           {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Ready"}}, 8, true, false, ""},
		"no rollout, and clusters are updated": {[]metav1.Condition{{Type: v1alpha1.ConditionReady, Status: no, Reason: "Progressing"}}, 7, false, false, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := &v1alpha1.AppService{}
			app.Status.Conditions = test.conditions
			app.Status.Summary.Clusters, app.Status.Summary.Ready = 8, test.ready
			if isServing(app) != test.serving || isStalled(app) != test.stalled || rolloutPhaseOf(app) != test.phase {
				t.Errorf("ready %t, stalled %t, phase %q", isServing(app), isStalled(app), rolloutPhaseOf(app))
			}
		})
	}
}

func TestMetrics_count_rollouts(t *testing.T) {
	begun := metav1.Now().Rfc3339Copy()
	ended := metav1.NewTime(begun.Add(time.Hour))
	measured := newTelemetry(nil)
	record := func(before, after v1alpha1.RolloutStatus, types ...stages.TransitionType) {
		decision := rollout.Decision{Outcome: stages.Outcome{Rollout: after}}
		for _, kind := range types {
			decision.Transitions = append(decision.Transitions, stages.Transition{Type: kind, Revision: before.Revision})
		}
		app := &v1alpha1.AppService{}
		app.Status.Rollout = before
		measured.recordRollout(app, decision)
	}
	state := func(revision, stable int64, phase v1alpha1.RolloutPhase, since metav1.Time) v1alpha1.RolloutStatus {
		return v1alpha1.RolloutStatus{Revision: revision, StableRevision: stable, Phase: phase, Since: &since}
	}
	progressing := state(7, 6, v1alpha1.RolloutProgressing, begun)
	rollingBack := state(7, 6, v1alpha1.RolloutRollingBack, begun)
	record(state(6, 6, v1alpha1.RolloutCompleted, begun), progressing, stages.RolloutStarted, stages.StageStarted)
	record(progressing, state(7, 7, v1alpha1.RolloutCompleted, ended), stages.StageCompleted, stages.RolloutCompleted)
	record(progressing, rollingBack, stages.RolloutFailed, stages.RollingBack)
	record(rollingBack, state(7, 6, v1alpha1.RolloutRolledBack, ended), stages.RolledBack)
	record(progressing, state(7, 6, v1alpha1.RolloutHalted, ended), stages.RolloutFailed)
	record(progressing, state(8, 6, v1alpha1.RolloutProgressing, ended), stages.Superseded, stages.RolloutStarted)
	goingBack := state(6, 6, v1alpha1.RolloutProgressing, begun)
	record(goingBack, state(6, 6, v1alpha1.RolloutCompleted, ended), stages.RolloutCompleted)
	record(goingBack, progressing, stages.Superseded, stages.RolloutStarted)
	want := []string{"fleetwright_rollouts_total{completed} 1", "fleetwright_rollouts_total{halted} 1", "fleetwright_rollouts_total{rolled_back} 1", "fleetwright_rollouts_total{superseded} 1"}
	if diff := cmp.Diff(want, metricLines(t, measured.rolloutOutcomes, "")); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"fleetwright_rollout_duration_seconds{} 1 in 3600 s"}, metricLines(t, measured.rolloutDuration, "")); diff != "" {
		t.Errorf("durations (-want +got):\n%s", diff)
	}
}

// In the first rollout, clusters whose turn has not come do not make the AppService unready.
func TestIsServing_in_the_first_rollout(t *testing.T) {
	app := &v1alpha1.AppService{}
	app.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAwaitingApproval}}
	app.Status.Rollout = v1alpha1.RolloutStatus{
		Revision: 1, Phase: v1alpha1.RolloutProgressing,
		Stages: []v1alpha1.RolloutStageStatus{{Name: "canary", Clusters: 2, UpToDate: 2}, {Name: "eu", Clusters: 6}},
	}
	for ready, want := range map[int32]bool{2: true, 1: false} {
		app.Status.Summary.Clusters, app.Status.Summary.Ready = 8, ready
		if got := isServing(app); got != want {
			t.Errorf("with %d Ready clusters, isServing returns %t", ready, got)
		}
	}
}
