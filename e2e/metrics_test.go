package e2e

import (
	"bytes"
	"context"
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

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// metrics returns the metrics of the leader.
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

// documentedMetric matches a line of a table in docs/metrics.md: name, labels, type.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]*) \\| (gauge|counter|histogram) \\| ")

// TestMetrics tests that the operator serves exactly the metrics of docs/metrics.md, with their
// labels and types.
func TestMetrics(t *testing.T) {
	f := testFleet(t)
	app := f.createApp(t, "measured", func(s *v1alpha1.AppServiceSpec) {
		s.Rollout = &v1alpha1.Rollout{RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(0))}}
	})
	f.awaitReady(t, app, "north", "south", "east")
	// Some metrics need pods that cannot run, a source that does not exist, credentials that expire and
	// are to be renewed, and drift.
	f.createApp(t, "measured-image", framework.Image("web:doesnotexist"))
	f.createApp(t, "measured-source", func(s *v1alpha1.AppServiceSpec) {
		s.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: "missing"}}
	})
	f.renewToken(t, "north", time.Hour)
	f.annotateSecret(t, "north", map[string]string{v1alpha1.AnnotationRenewToken: "true"})
	t.Cleanup(func() {
		f.annotateSecret(t, "north", nil)
		f.rejoin(t, "north")
	})
	deployment, err := f.Members["south"].Deployment(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Template.Spec.Containers[0].Image = "web:2"
	if err := f.Members["south"].Client.Patch(t.Context(), deployment, patch, client.FieldOwner("other-manager")); err != nil {
		t.Fatal(err)
	}

	content, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, line := range documentedMetric.FindAllStringSubmatch(string(content), -1) {
		labels := strings.FieldsFunc(line[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		want[line[1]] = fmt.Sprintf("%s %v", line[3], labels)
	}
	f.Eventually(t, "the metrics to be those of docs/metrics.md", func(context.Context) error {
		got := map[string]string{}
		for name, family := range f.metrics(t) {
			if _, known := want[name]; known || strings.HasPrefix(name, "fleetwright_") {
				got[name] = typeAndLabels(family)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-documented +served):\n%s", diff)
		}
		return nil
	})
}

// typeAndLabels returns the type of a metric and its labels.
func typeAndLabels(family *dto.MetricFamily) string {
	var labels []string
	for _, pair := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, pair.GetName())
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s %v", strings.ToLower(family.GetType().String()), labels)
}

// seriesValue returns the value of the first series with this label.
func seriesValue(family *dto.MetricFamily, label, value string) (float64, error) {
	for _, metric := range family.GetMetric() {
		for _, pair := range metric.GetLabel() {
			if pair.GetName() == label && pair.GetValue() == value {
				return metric.GetGauge().GetValue() + metric.GetCounter().GetValue(), nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no series with %s=%q", family.GetName(), label, value)
}
