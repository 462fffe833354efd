package e2e

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// metrics are those of the replica that leads.
func (f *fleet) metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	leader, _ := f.leader(t)
	served, err := leader.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(served))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// documentedMetric is a row of a table in docs/metrics.md: name, labels, type.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]*) \\| (gauge|counter|histogram) \\| ")

// What docs/metrics.md promises is served, with the labels that it names, and of ours nothing else is.
func TestMetrics(t *testing.T) {
	f := theFleet
	app := f.declare(t, "measured")
	f.awaitReady(t, app, "north", "south", "east")
	// Two are there only when there is something to tell: credentials that end, and what somebody has changed.
	f.renew(t, "north", time.Hour)
	t.Cleanup(func() { f.rejoin(t, "north") })
	deployment, err := f.deployment("south", app)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Template.Spec.Containers[0].Image = "web:2"
	if err := f.members["south"].api.Patch(t.Context(), deployment, patch, client.FieldOwner("somebody")); err != nil {
		t.Fatal(err)
	}

	content, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, row := range documentedMetric.FindAllStringSubmatch(string(content), -1) {
		labels := strings.FieldsFunc(row[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		want[row[1]] = fmt.Sprintf("%s %v", row[3], labels)
	}
	eventually(t, "the metrics to be those of docs/metrics.md", func() error {
		got := map[string]string{}
		for name, family := range f.metrics(t) {
			if _, known := want[name]; known || strings.HasPrefix(name, "fleetwright_") {
				got[name] = describe(family)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-documented +served):\n%s", diff)
		}
		return nil
	})
}

// describe tells the type of a metric and its labels.
func describe(family *dto.MetricFamily) string {
	var labels []string
	for _, pair := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, pair.GetName())
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s %v", strings.ToLower(family.GetType().String()), labels)
}

// value is that of the one series with this label.
func value(family *dto.MetricFamily, label, is string) (float64, error) {
	for _, metric := range family.GetMetric() {
		for _, pair := range metric.GetLabel() {
			if pair.GetName() == label && pair.GetValue() == is {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue(), nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no series with %s=%q", family.GetName(), label, is)
}

// rejoin gives a member back the kubeconfig that it had.
func (f *fleet) rejoin(t *testing.T, member string) {
	t.Helper()
	if err := environment.Join(background, f.hub.api, f.members[member], map[string]string{"region": regions[member]}); err != nil {
		t.Error(err)
	}
	f.awaitMember(t, member)
}
