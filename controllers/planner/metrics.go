package planner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// What is counted when the metrics are read, from the hub's cache.
var (
	membersDesc     = prometheus.NewDesc("fleetwright_members", "MemberClusters by the reason of their Ready condition.", []string{"state"}, nil)
	appServicesDesc = prometheus.NewDesc("fleetwright_appservices", "AppServices by the reason of their Ready condition.", []string{"status"}, nil)
	readyDesc       = prometheus.NewDesc("fleetwright_appservice_ready", "1 while the AppService is Ready, else 0; absent while it is suspended.", appLabels, nil)
	stalledDesc     = prometheus.NewDesc("fleetwright_appservice_stalled", "1 while the AppService is Stalled: nothing more happens until somebody changes something; absent while it is suspended.", appLabels, nil)

	appLabels = []string{"namespace", "name"}
)

// unsaid is the reason of what nobody has looked at yet.
const unsaid = "Unknown"

// telemetry counts what the hub has, and measures how long it takes a change to get there. It is a leader's: each AppService is
// counted once, whatever the number of replicas. It is safe for concurrent use.
type telemetry struct {
	hub         client.Reader
	propagation *prometheus.HistogramVec

	mu       sync.Mutex
	rollouts map[types.UID]*generationRollout
	measured map[string]bool // members with a series
}

// generationRollout is a generation on its way.
type generationRollout struct {
	generation int64
	begun      time.Time
	reached    map[string]bool
}

func newTelemetry(hub client.Reader) *telemetry {
	return &telemetry{hub: hub, rollouts: map[types.UID]*generationRollout{}, measured: map[string]bool{}, propagation: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "fleetwright_propagation_seconds",
		Help:    "From when a new generation of an AppService is seen until the member is Ready with it.",
		Buckets: []float64{1, 2.5, 5, 10, 30, 60, 300, 900},
	}, []string{"member"})}
}

// Describe tells what there is.
func (t *telemetry) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, appServicesDesc, readyDesc, stalledDesc} {
		to <- d
	}
	t.propagation.Describe(to)
}

// Collect counts.
func (t *telemetry) Collect(to chan<- prometheus.Metric) {
	var members v1alpha1.MemberClusterList
	var apps v1alpha1.AppServiceList
	ctx := context.Background() // of a read from a cache
	if err := errors.Join(t.hub.List(ctx, &members, client.UnsafeDisableDeepCopy), t.hub.List(ctx, &apps, client.UnsafeDisableDeepCopy)); err != nil {
		to <- prometheus.NewInvalidMetric(appServicesDesc, err)
		return
	}
	states, known := map[string]int{}, map[string]bool{}
	for i := range members.Items {
		states[reasonOf(members.Items[i].Status.Conditions)]++
		known[members.Items[i].Name] = true
	}
	statuses := map[string]int{}
	for i := range apps.Items {
		app := &apps.Items[i]
		statuses[reasonOf(app.Status.Conditions)]++
		if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionSuspended) {
			continue // nobody waits for it to be ready
		}
		for desc, condition := range map[*prometheus.Desc]string{readyDesc: v1alpha1.ConditionReady, stalledDesc: v1alpha1.ConditionStalled} {
			value := 0.0
			if meta.IsStatusConditionTrue(app.Status.Conditions, condition) {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, app.Namespace, app.Name)
		}
	}
	count(to, membersDesc, states)
	count(to, appServicesDesc, statuses)
	t.forgetMembers(known)
	t.propagation.Collect(to)
}

func count(to chan<- prometheus.Metric, desc *prometheus.Desc, by map[string]int) {
	for reason, n := range by {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), reason)
	}
}

// forgetMembers drops the series of members that are no more.
func (t *telemetry) forgetMembers(known map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.measured {
		if !known[name] {
			t.propagation.DeleteLabelValues(name)
			delete(t.measured, name)
		}
	}
}

// saw notes the generation of an AppService, which is new unless its status speaks of it already.
func (t *telemetry) saw(app *v1alpha1.AppService, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rollouts[app.UID]; app.Generation == app.Status.ObservedGeneration || r != nil && r.generation == app.Generation {
		return
	}
	t.rollouts[app.UID] = &generationRollout{generation: app.Generation, begun: now, reached: map[string]bool{}}
}

// wrote measures what a status says for the first time of the clusters that are Ready with its generation.
func (t *telemetry) wrote(app *v1alpha1.AppService, status v1alpha1.AppServiceStatus, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rollouts[app.UID]
	if r == nil || r.generation != status.ObservedGeneration {
		return
	}
	for i := range status.Clusters {
		row := &status.Clusters[i]
		if row.Phase == v1alpha1.ClusterReady && row.Generation == r.generation && !r.reached[row.Name] {
			r.reached[row.Name], t.measured[row.Name] = true, true
			t.propagation.WithLabelValues(row.Name).Observe(now.Sub(r.begun).Seconds())
		}
	}
	if status.Summary.Ready == status.Summary.Clusters {
		delete(t.rollouts, app.UID) // what happens later has other causes
	}
}

// forget drops an AppService that is no more.
func (t *telemetry) forget(app types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rollouts, app)
}

// reasonOf is that of the Ready condition.
func reasonOf(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return unsaid
}
