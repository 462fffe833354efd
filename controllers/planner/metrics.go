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
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// Descriptions of the metrics that are computed from the hub's cache when they are collected.
var (
	membersDesc     = prometheus.NewDesc("fleetwright_members", "MemberClusters by the reason of their Ready condition.", []string{"state"}, nil)
	appServicesDesc = prometheus.NewDesc("fleetwright_appservices", "AppServices by the reason of their Ready condition.", []string{"status"}, nil)
	readyDesc       = prometheus.NewDesc("fleetwright_appservice_ready", "1 while the AppService is Ready, or all its clusters are Ready and only its rollout is not completed, or its configuration is pending, else 0; absent while it is suspended.", appLabels, nil)
	stalledDesc     = prometheus.NewDesc("fleetwright_appservice_stalled", "1 while the AppService is Stalled, which lasts until a user changes something, else 0; also 0 if only its rollout failed, or if it waits for its configuration; absent while it is suspended.", appLabels, nil)
	rolloutDesc     = prometheus.NewDesc("fleetwright_rollout", "1 for each AppService with a rollout; the phase is the reason of its condition RolledOut.", []string{"namespace", "name", "phase"}, nil)
	podFailuresDesc = prometheus.NewDesc("fleetwright_appservice_pod_failures", "Clusters on which pods of the AppService cannot run, by the reason of their entries; absent if there are none.", []string{"namespace", "name", "reason"}, nil)

	sourcesDesc = prometheus.NewDesc("fleetwright_configuration_sources", "Sources of spec.configuration whose present content is not used, by the reason; absent if there are none.", []string{"namespace", "name", "reason"}, nil)

	appLabels = []string{"namespace", "name"}
)

// Outcomes of a rollout.
const (
	outcomeCompleted  = "completed"
	outcomeRolledBack = "rolled_back"
	outcomeHalted     = "halted"
	outcomeSuperseded = "superseded"
)

// unknownReason is the label value for an object without a Ready condition.
const unknownReason = "Unknown"

// telemetry counts the objects of the hub, and measures how long a generation takes to reach a
// member. Only the leader registers it, so each AppService is counted once, regardless of the
// number of replicas. It is safe for concurrent use.
type telemetry struct {
	hub             client.Reader
	propagation     *prometheus.HistogramVec
	rolloutOutcomes *prometheus.CounterVec
	rolloutDuration prometheus.Histogram

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
	t := &telemetry{
		hub: hub, propagation: propagation, rollouts: map[types.UID]*generationRollout{}, members: map[string]bool{},
		rolloutOutcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fleetwright_rollouts_total",
			Help: "Rollouts of AppServices with spec.rollout that ended, by their outcome.",
		}, []string{"outcome"}),
		rolloutDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "fleetwright_rollout_duration_seconds",
			Help:    "Time from the start of a rollout until it is completed.",
			Buckets: []float64{60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600},
		}),
	}
	for _, outcome := range []string{outcomeCompleted, outcomeSuperseded, outcomeRolledBack, outcomeHalted} {
		t.rolloutOutcomes.WithLabelValues(outcome) // 0 before the first one
	}
	return t
}

// Describe sends the descriptions of all metrics.
func (t *telemetry) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{membersDesc, appServicesDesc, readyDesc, stalledDesc, rolloutDesc, podFailuresDesc, sourcesDesc} {
		to <- d
	}
	t.propagation.Describe(to)
	t.rolloutOutcomes.Describe(to)
	t.rolloutDuration.Describe(to)
}

// Collect sends the current values of all metrics.
func (t *telemetry) Collect(to chan<- prometheus.Metric) {
	var members v1alpha1.MemberClusterList
	var apps v1alpha1.AppServiceList
	var parts v1alpha1.AppServiceSliceList
	ctx := context.Background() // reads from the cache do not block
	if err := errors.Join(
		t.hub.List(ctx, &members, client.UnsafeDisableDeepCopy),
		t.hub.List(ctx, &apps, client.UnsafeDisableDeepCopy),
		t.hub.List(ctx, &parts, client.UnsafeDisableDeepCopy),
	); err != nil {
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
		if phase := rolloutPhaseOf(app); phase != "" {
			to <- prometheus.MustNewConstMetric(rolloutDesc, prometheus.GaugeValue, 1, app.Namespace, app.Name, phase)
		}
		for reason, n := range countUnusedSources(app) {
			to <- prometheus.MustNewConstMetric(sourcesDesc, prometheus.GaugeValue, float64(n), app.Namespace, app.Name, reason)
		}
		if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionSuspended) {
			continue // a suspended AppService is not expected to become ready
		}
		for desc, isTrue := range map[*prometheus.Desc]bool{readyDesc: isServing(app), stalledDesc: isStalled(app)} {
			value := 0.0
			if isTrue {
				value = 1
			}
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, app.Namespace, app.Name)
		}
	}
	sendGauges(to, membersDesc, states)
	sendGauges(to, appServicesDesc, statuses)
	for failure, n := range countPodFailures(apps.Items, parts.Items) {
		to <- prometheus.MustNewConstMetric(podFailuresDesc, prometheus.GaugeValue, float64(n), failure.app.Namespace, failure.app.Name, failure.reason)
	}
	t.forgetMembers(known)
	t.propagation.Collect(to)
	t.rolloutOutcomes.Collect(to)
	t.rolloutDuration.Collect(to)
}

// countUnusedSources returns the number of sources of an AppService with each reason.
func countUnusedSources(app *v1alpha1.AppService) map[string]int {
	counts := map[string]int{}
	for _, source := range app.Status.Configuration {
		if source.Reason != "" {
			counts[source.Reason]++
		}
	}
	return counts
}

// podFailure is a reason of entries of an AppService that says that pods cannot run.
type podFailure struct {
	app    types.NamespacedName
	reason string
}

// countPodFailures returns the number of entries with each failure.
func countPodFailures(apps []v1alpha1.AppService, parts []v1alpha1.AppServiceSlice) map[podFailure]int {
	counts := map[podFailure]int{}
	visitEntries(apps, parts, func(app types.NamespacedName, entries []v1alpha1.ClusterStatus) {
		for i := range entries {
			if reason := entries[i].Reason; v1alpha1.IsPodFailure(reason) {
				counts[podFailure{app, reason}]++
			}
		}
	})
	return counts
}

// awaitsConfiguration reports whether an AppService is not Ready because of a source. That has an alert
// of its own.
func awaitsConfiguration(app *v1alpha1.AppService) bool {
	reason := reasonOf(app.Status.Conditions)
	return reason != v1alpha1.ReasonHubBehind && countUnusedSources(app)[reason] > 0
}

// isServing reports whether an AppService is Ready, or would be if its rollout were completed, or
// if its configuration did not change. In the first rollout, clusters whose turn has not come have
// nothing to run.
func isServing(app *v1alpha1.AppService) bool {
	if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) {
		return true
	}
	sum, state := app.Status.Summary, app.Status.Rollout
	ready := sum.Ready
	if state.StableRevision == 0 && state.Phase == v1alpha1.RolloutProgressing {
		for _, stage := range state.Stages {
			ready += stage.Clusters - stage.UpToDate
		}
	}
	return (isRolloutReason(reasonOf(app.Status.Conditions)) || awaitsConfiguration(app)) && sum.Clusters > 0 && ready >= sum.Clusters
}

// isStalled reports whether an AppService is Stalled for another reason than its rollout or its
// configuration, which have alerts of their own.
func isStalled(app *v1alpha1.AppService) bool {
	stalled := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionStalled)
	return stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason != v1alpha1.ReasonRolledBack && stalled.Reason != v1alpha1.ReasonRolloutHalted && !awaitsConfiguration(app)
}

// isRolloutReason reports whether this reason of Ready says that a rollout is not completed.
func isRolloutReason(reason string) bool {
	switch reason {
	case v1alpha1.ReasonRollingOut, v1alpha1.ReasonSoaking, v1alpha1.ReasonAwaitingApproval, v1alpha1.ReasonWaitingForClusters, v1alpha1.ReasonRolloutPaused,
		v1alpha1.ReasonRollingBack, v1alpha1.ReasonRolledBack, v1alpha1.ReasonRolloutHalted, v1alpha1.ReasonStatusLost:
		return true
	}
	return false
}

// rolloutPhaseOf returns the reason of the condition RolledOut. If spec.rollout was removed after the
// revision had failed, it returns the reason of Ready. It returns "" without a rollout.
func rolloutPhaseOf(app *v1alpha1.AppService) string {
	if rolledOut := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionRolledOut); rolledOut != nil {
		return rolledOut.Reason
	}
	if reason := reasonOf(app.Status.Conditions); isRolloutReason(reason) {
		return reason
	}
	return ""
}

// recordRollout counts the rollouts that end with a decision whose status was written. A return to
// the stable revision is no rollout of its own.
func (t *telemetry) recordRollout(app *v1alpha1.AppService, decision rollout.Decision) {
	before, after := app.Status.Rollout, decision.Rollout
	for _, transition := range decision.Transitions {
		switch {
		case transition.Type == stages.Superseded && transition.Revision != before.StableRevision:
			t.rolloutOutcomes.WithLabelValues(outcomeSuperseded).Inc()
		case transition.Type == stages.RolledBack:
			t.rolloutOutcomes.WithLabelValues(outcomeRolledBack).Inc()
		case transition.Type == stages.RolloutFailed && after.Phase == v1alpha1.RolloutHalted:
			t.rolloutOutcomes.WithLabelValues(outcomeHalted).Inc()
		case transition.Type == stages.RolloutCompleted && after.Revision != before.StableRevision:
			t.rolloutOutcomes.WithLabelValues(outcomeCompleted).Inc()
			if before.Revision == after.Revision && before.Since != nil && after.Since != nil {
				t.rolloutDuration.Observe(max(0, after.Since.Sub(before.Since.Time)).Seconds())
			}
		}
	}
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
	if status.Summary.Clusters == 0 { // the operator may have started before it knows its members
		r.startTime = now
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
