package karmada

// Tuned returns more flags for a large fleet.
func Tuned() Flags {
	return Flags{
		ControllerManager: []string{
			"--kube-api-qps=1000", "--kube-api-burst=2000", "--cluster-api-qps=1000", "--cluster-api-burst=2000",
			"--concurrent-work-syncs=50", "--concurrent-resourcebinding-syncs=50", "--concurrent-resource-template-syncs=50",
			"--concurrent-propagation-policy-syncs=20", "--concurrent-cluster-syncs=10", "--concurrent-namespace-syncs=10",
			"--rate-limiter-qps=1000", "--rate-limiter-bucket-size=2000",
		},
		Scheduler:           []string{"--kube-api-qps=1000", "--kube-api-burst=2000", "--rate-limiter-qps=1000", "--rate-limiter-bucket-size=2000"},
		Webhook:             []string{"--kube-api-qps=1000", "--kube-api-burst=2000"},
		AggregatedAPIServer: []string{"--kube-api-qps=1000", "--kube-api-burst=2000"},
		GarbageCollector:    []string{"--kube-api-qps=1000", "--kube-api-burst=2000"},
	}
}
