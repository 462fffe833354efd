package main

import (
	"slices"
	"testing"

	clientmetrics "k8s.io/client-go/tools/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

func TestHideMembers(t *testing.T) {
	before := clientmetrics.RequestResult
	t.Cleanup(func() { clientmetrics.RequestResult = before })
	hideMembers("https://hub.example:6443/path")
	for _, host := range []string{"hub.example:6443", "10.0.0.1:6443", "canary.example", "10.0.0.2:443"} {
		clientmetrics.RequestResult.Increment(t.Context(), "200", "GET", host)
	}
	counts := map[string]float64{}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "rest_client_requests_total" {
			continue
		}
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				if label.GetName() == "host" && !slices.Contains([]string{"hub.example:6443", members}, label.GetValue()) {
					t.Errorf("a member's host %q is told", label.GetValue())
				}
				if label.GetName() == "host" {
					counts[label.GetValue()] += series.GetCounter().GetValue()
				}
			}
		}
	}
	if counts["hub.example:6443"] != 1 || counts[members] != 3 {
		t.Errorf("counted %v", counts)
	}
}
