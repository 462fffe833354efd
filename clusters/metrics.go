package clusters

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Metrics of the members, labelled by the member's name. They exist as long as the MemberCluster.
var (
	memberUp = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fleetwright_member_up",
		Help: "1 while the member is connected and answers, otherwise 0; also 0 while its Secret is missing.",
	}, memberLabels)
	probeLatency = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fleetwright_member_probe_latency_seconds",
		Help: "Duration of the last successful probe.",
	}, memberLabels)
	connectionsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fleetwright_member_connections_total",
		Help: "Number of times the member was connected and engaged. More than 1 means that the connection was lost or the server changed.",
	}, memberLabels)
	credentialExpiry = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fleetwright_member_credential_expiry_timestamp_seconds",
		Help: "Expiration time of the credentials in use, in seconds since 1970; absent if they have none.",
	}, memberLabels)
	credentialWarning = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fleetwright_member_credential_warning_timestamp_seconds",
		Help: "Time from which the credentials in use are ExpiringSoon, in seconds since 1970; absent if they have no expiration time.",
	}, memberLabels)
	credentialRenewal = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "fleetwright_member_credential_renewal_timestamp_seconds",
		Help: "Time from which the token in use is renewed, in seconds since 1970; absent if it is not renewed. A renewal is overdue if this is long ago.",
	}, memberLabels)
	tokenRenewals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "fleetwright_member_credential_renewals_total",
		Help: "Number of renewals of the member's token, by their result: renewed or failed.",
	}, []string{"member", "result"})

	stalledSeconds = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "fleetwright_process_stalled_seconds_total",
		Help: "Time in which this process did not run when it should: it waited for the processor, was throttled, or was stopped.",
	})

	memberLabels = []string{"member"}
)

func init() {
	metrics.Registry.MustRegister(memberUp, probeLatency, connectionsTotal, credentialExpiry, credentialWarning, credentialRenewal, tokenRenewals, stalledSeconds)
}

// Results of renewals.
const (
	resultRenewed = "renewed"
	resultFailed  = "failed"
)

// setMetrics sets the metrics of a member from the snapshot.
func (s snapshot) setMetrics(member string) {
	value := 0.0
	if s.ready == memberConnected {
		value = 1
	}
	memberUp.WithLabelValues(member).Set(value)
	s.setRenewalMetrics(member)
	if s.expiry.End.IsZero() {
		credentialExpiry.DeleteLabelValues(member)
		credentialWarning.DeleteLabelValues(member)
		return
	}
	credentialExpiry.WithLabelValues(member).Set(float64(s.expiry.End.Unix()))
	credentialWarning.WithLabelValues(member).Set(float64(s.expiry.Warning.Unix()))
}

// setRenewalMetrics sets the metrics of the renewals of a member's token. The counters are 0 before
// the first renewal.
func (s snapshot) setRenewalMetrics(member string) {
	if !s.renewal.IsPossible() {
		deleteRenewalMetrics(member)
		return
	}
	credentialRenewal.WithLabelValues(member).Set(float64(s.renewal.At.Unix()))
	for _, result := range []string{resultRenewed, resultFailed} {
		tokenRenewals.WithLabelValues(member, result)
	}
}

func deleteRenewalMetrics(member string) {
	credentialRenewal.DeleteLabelValues(member)
	tokenRenewals.DeletePartialMatch(prometheus.Labels{"member": member})
}

// setDetachedMetrics sets the metrics of a member whose Secret is missing.
func setDetachedMetrics(member string) {
	snapshot{}.setMetrics(member)
	probeLatency.DeleteLabelValues(member)
}

// deleteMetrics deletes the metrics of a member.
func deleteMetrics(member string) {
	memberUp.DeleteLabelValues(member)
	probeLatency.DeleteLabelValues(member)
	connectionsTotal.DeleteLabelValues(member)
	deleteRenewalMetrics(member)
	credentialExpiry.DeleteLabelValues(member)
	credentialWarning.DeleteLabelValues(member)
}
