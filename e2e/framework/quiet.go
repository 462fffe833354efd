package framework

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// probesAtRest is how many probes of a member show that the operator has finished: what it does a
// second after an event is done before the second probe.
const probesAtRest = 3

// AwaitLook waits until the operator has looked at everything: a leader has reconciled each
// AppService, and each of its entries on the members that are Ready, at least once since it started,
// nothing is queued, and each of these members was probed three times since the call. So a request
// that the operator sends because of a start, or because of what it sees, is sent. A probe
// interval of seconds makes this quick.
func (f *Fleet) AwaitLook(t testing.TB) {
	t.Helper()
	f.Eventually(t, "the operator to reconcile everything", f.checkReconciled)
	before := map[string]int{}
	members := f.readyMembers(t)
	for _, name := range members {
		before[name] = f.probes(t, name)
	}
	f.Eventually(t, fmt.Sprintf("%d probes of each member", probesAtRest), func(context.Context) error {
		for _, name := range members {
			if n := f.probes(t, name) - before[name]; n < probesAtRest {
				return fmt.Errorf("%d probes of %s", n, name)
			}
		}
		return nil
	})
	f.Eventually(t, "the operator to reconcile what it has seen", f.checkReconciled)
}

// readyMembers returns the names of the fleet's members that are Ready.
func (f *Fleet) readyMembers(t testing.TB) (names []string) {
	t.Helper()
	for _, name := range f.MemberNames() {
		if f.CheckMembersReady(context.Background(), name) == nil {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no member is Ready")
	}
	return names
}

// probes returns how often the operator has probed a member.
func (f *Fleet) probes(t testing.TB, member string) (n int) {
	t.Helper()
	requests, err := f.Members[member].Requests(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range requests {
		if isProbe(&requests[i]) {
			n++
		}
	}
	return n
}

// isProbe reports whether a request reads the identity of the cluster, as each probe does.
func isProbe(r *environment.Request) bool {
	return r.Verb == "get" && r.Object.Resource == "namespaces" && r.Object.Name == "kube-system"
}

// checkReconciled returns an error unless a leader has reconciled at least once for each AppService
// and for each of its entries, and its queues are empty.
func (f *Fleet) checkReconciled(ctx context.Context) error {
	metrics, err := f.leaderMetrics(ctx)
	if err != nil {
		return err
	}
	apps := &v1alpha1.AppServiceList{}
	if err := f.Hub.Client.List(ctx, apps); err != nil {
		return err
	}
	entries := 0
	for i := range apps.Items {
		app, err := f.withEntries(ctx, &apps.Items[i])
		if err != nil {
			return err
		}
		for _, entry := range app.Status.Clusters {
			if f.Members[entry.Name] != nil && f.CheckMembersReady(ctx, entry.Name) == nil {
				entries++
			}
		}
	}
	ready := 0
	for _, name := range f.MemberNames() {
		if f.CheckMembersReady(ctx, name) == nil {
			ready++
		}
	}
	// Each engaged member has a queue. The status may be older than this operator.
	if n := len(metrics["fleetwright_delivery_queue_depth"].GetMetric()); n < ready {
		return fmt.Errorf("%d of %d members are engaged", n, ready)
	}
	if n := reconciles(metrics, "appservice"); n < len(apps.Items) {
		return fmt.Errorf("%d plans of %d AppServices", n, len(apps.Items))
	}
	if n := reconciles(metrics, "delivery"); n < entries {
		return fmt.Errorf("%d deliveries of %d entries", n, entries)
	}
	for _, name := range []string{"workqueue_depth", "controller_runtime_active_workers", "fleetwright_delivery_queue_depth"} {
		if n := total(metrics[name], nil); n > 0 {
			return fmt.Errorf("%s is %v", name, n)
		}
	}
	return nil
}

// leaderMetrics returns the metrics of the replica that reconciles.
func (f *Fleet) leaderMetrics(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	replicas, err := f.Operator.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	var failed error // of a replica that has exited
	for _, replica := range replicas {
		served, err := replica.Metrics(ctx)
		if err != nil {
			failed = err
			continue
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		metrics, err := parser.TextToMetricFamilies(bytes.NewReader(served))
		if err != nil {
			return nil, err
		}
		if reconciles(metrics, "membercluster") > 0 { // also without leader election
			return metrics, nil
		}
	}
	return nil, errors.Join(errors.New("no replica has reconciled a MemberCluster"), failed)
}

// reconciles returns how often a controller has reconciled without an error.
func reconciles(metrics map[string]*dto.MetricFamily, controller string) int {
	family := metrics["controller_runtime_reconcile_total"]
	return int(total(family, map[string]string{"controller": controller, "result": "success"}) +
		total(family, map[string]string{"controller": controller, "result": "requeue_after"}))
}

// total returns the sum of a metric's series with these labels.
func total(family *dto.MetricFamily, labels map[string]string) (sum float64) {
	for _, metric := range family.GetMetric() {
		found := 0
		for _, pair := range metric.GetLabel() {
			if value, ok := labels[pair.GetName()]; ok && value == pair.GetValue() {
				found++
			}
		}
		if found == len(labels) {
			sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
		}
	}
	return sum
}
