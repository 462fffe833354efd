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

// Descriptions of the metrics that are computed from the hub's cache when they are collected.
var (
	membersDesc     = prometheus.NewDesc("fleetwright_members", "MemberClusters by the reason of their Ready condition.", []string{"state"}, nil)
	appServicesDesc = prometheus.NewDesc("fleetwright_appservices", "AppServices by the reason of their Ready condition.", []string{"status"}, nil)
	readyDesc       = prometheus.NewDesc("fleetwright_appservice_ready", "1 while the AppService is Ready, else 0; absent while it is suspended.", appLabels, nil)
	stalledDesc     = prometheus.NewDesc("fleetwright_appservice_stalled", "1 while the AppService is Stalled, which lasts until a user changes something, else 0; absent while it is suspended.", appLabels, nil)

	appLabels = []string{"namespace", "name"}
)

// unknownReason is the label value for an object without a Ready condition.
const unknownReason = "Unknown"

// telemetry counts the objects of the hub, and measures how long a generation takes to reach a
// member. Only the leader registers it, so each AppService is counted once, regardless of the
// number of replicas. It is safe for concurrent use.
type telemetry struct {
	hub         client.Reader
	propagation *prometheus.HistogramVec

	mu       sync.Mutex
	rollouts map[types.UID]*generationRollout
	members  map[string]bool // members with a series
}

// generationRollout is the rollout of one generation.
type generationRollout struct {
	generation int64
	startTime  time.Time
	ready      map[string]bool // clusters that were Ready with the generation
}

func newTelemetry(hub client.Reader) *telemetry {
	propagation := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "fleetwright_propagation_seconds",
		Help:    "Time from the first plan of a generation of an AppService until the member is Ready with it.",
		Buckets: []float64{1, 2.5, 5, 10, 30, 60, 300, 900},
	}, []string{"member"})
	return &telemetry{hub: hub, propagation: propagation, rollouts: map[types.UID]*generationRollout{}, members: map[string]bool{}}
}

// Describe sends the descriptions of all metrics.
func (t *telemetry) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, appServicesDesc, readyDesc, stalledDesc} {
		to <- d
	}
	t.propagation.Describe(to)
}

// Collect sends the current values of all metrics.
func (t *telemetry) Collect(to chan<- prometheus.Metric) {
	var members v1alpha1.MemberClusterList
	var apps v1alpha1.AppServiceList
	ctx := context.Background() // reads from the cache do not block
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
			continue // a suspended AppService is not expected to become ready
		}
		for desc, condition := range map[*prometheus.Desc]string{readyDesc: v1alpha1.ConditionReady, stalledDesc: v1alpha1.ConditionStalled} {
			value := 0.0
			if meta.IsStatusConditionTrue(app.Status.Conditions, condition) {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, app.Namespace, app.Name)
		}
	}
	sendGauges(to, membersDesc, states)
	sendGauges(to, appServicesDesc, statuses)
	t.forgetMembers(known)
	t.propagation.Collect(to)
}

func sendGauges(to chan<- prometheus.Metric, desc *prometheus.Desc, by map[string]int) {
	for reason, n := range by {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), reason)
	}
}

// forgetMembers removes the series of deleted members.
func (t *telemetry) forgetMembers(known map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.members {
		if !known[name] {
			t.propagation.DeleteLabelValues(name)
			delete(t.members, name)
		}
	}
}

// recordGeneration starts a rollout if the generation of the AppService is new: its status does not
// describe the generation yet.
func (t *telemetry) recordGeneration(app *v1alpha1.AppService, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rollouts[app.UID]; app.Generation == app.Status.ObservedGeneration || r != nil && r.generation == app.Generation {
		return
	}
	t.rollouts[app.UID] = &generationRollout{generation: app.Generation, startTime: now, ready: map[string]bool{}}
}

// recordStatus observes the duration of the rollout for each cluster that is Ready for the first
// time with the generation of the status.
func (t *telemetry) recordStatus(app *v1alpha1.AppService, status v1alpha1.AppServiceStatus, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.rollouts[app.UID]
	if r == nil || r.generation != status.ObservedGeneration {
		return
	}
	for i := range status.Clusters {
		entry := &status.Clusters[i]
		if entry.Phase == v1alpha1.ClusterReady && entry.Generation == r.generation && !r.ready[entry.Name] {
			r.ready[entry.Name], t.members[entry.Name] = true, true
			t.propagation.WithLabelValues(entry.Name).Observe(now.Sub(r.startTime).Seconds())
		}
	}
	if status.Summary.Ready == status.Summary.Clusters {
		delete(t.rollouts, app.UID) // later changes have other causes
	}
}

// forget removes a deleted AppService.
func (t *telemetry) forget(app types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.rollouts, app)
}

// reasonOf returns the reason of the Ready condition.
func reasonOf(conditions []metav1.Condition) string {
	if ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Reason
	}
	return unknownReason
}
