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

	"github.com/fleetwright/fleetwright/api/v1alpha1"
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
	return fmt.Sprintf("{%s} %g", strings.Join(labels, ","), metric.GetGauge().GetValue())
}

func TestMetrics_count_the_objects_of_the_hub(t *testing.T) {
	s := newRunning(t, "east", "west")
	ours := newTelemetry(hub)
	app := s.app.Namespace + "}"
	eventually(t, func() error {
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
