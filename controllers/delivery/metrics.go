package delivery

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// corrections counts what was put back.
var corrections = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "fleetwright_drift_corrections_total",
	Help: "How often an object on the member was put back that somebody else had changed.",
}, []string{"member"})

func init() {
	metrics.Registry.MustRegister(corrections)
}
