package delivery

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics of delivery. Series with a member label are dropped with the member.
var (
	corrections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fleetwright_drift_corrections_total",
		Help: "Number of objects that another field manager had changed, and that were corrected.",
	}, memberLabel)
	applies = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fleetwright_applies_total",
		Help: "Number of objects sent to the member, by outcome: applied, refused by it, in conflict with an existing object, or failed for a reason that may be temporary.",
	}, []string{memberLabel[0], "outcome"})
	applyDuration = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "fleetwright_apply_duration_seconds",
		Help:    "Duration of applying an object to a member, including the wait for the rate limit.",
		Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 10),
	})
	queueDepth = prometheus.NewDesc("fleetwright_delivery_queue_depth", "Number of AppServices that are queued for the member.", memberLabel, nil)

	memberLabel = []string{"member"}
)

func init() {
	metrics.Registry.MustRegister(corrections, applies, applyDuration)
}

// measureApply counts an apply that was sent.
func measureApply(member string, err error, took time.Duration) {
	if isFenced(err) {
		return
	}
	outcome := "applied"
	switch {
	case err == nil:
	case apierrors.IsConflict(err):
		outcome = "conflict"
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		outcome = "refused"
	default:
		outcome = "failed"
	}
	applies.WithLabelValues(member, outcome).Inc()
	applyDuration.Observe(took.Seconds())
}

// unmeasure drops the series of a member that is gone.
func unmeasure(member string) {
	of := prometheus.Labels{memberLabel[0]: member}
	corrections.DeletePartialMatch(of)
	applies.DeletePartialMatch(of)
}

// Describe sends the descriptor of the queue depth.
func (d *Deliverer) Describe(to chan<- *prometheus.Desc) { to <- queueDepth }

// Collect sends the queue depth of each member.
func (d *Deliverer) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, all := range d.engagements {
		to <- prometheus.MustNewConstMetric(queueDepth, prometheus.GaugeValue, float64(all[len(all)-1].pending()), name.String())
	}
}
